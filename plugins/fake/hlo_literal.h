// The `dense<...>` literal of a stablehlo.constant, as bytes.
//
// Thread-safety: pure function.

#ifndef NEUROND_PLUGINS_FAKE_HLO_LITERAL_H_
#define NEUROND_PLUGINS_FAKE_HLO_LITERAL_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/fake/hlo_module.h"

namespace neurond::fake {

// `raw`: what stands between "dense<" and ">". One value fills the whole type; a list must have as
// many values as the type.
absl::StatusOr<std::vector<char>> ParseLiteral(std::string_view raw, const HloType& type);

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_HLO_LITERAL_H_
