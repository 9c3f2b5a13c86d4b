// The bytes of XLA's CompileOptionsProto, written without protobuf: one replica, one partition,
// portable to any device of the client, and debug options by name.
//
// A plugin CHECK-fails (ends the process) on options without a replica count, so the base bytes are
// always sent.
//
// Thread-safety: pure function.

#ifndef NEUROND_PLUGINS_PJRT_COMPILE_OPTIONS_H_
#define NEUROND_PLUGINS_PJRT_COMPILE_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace neurond::pjrt {

// `text`: "name=value,name=value" of XLA debug options (env_option_overrides), or empty. A value is
// true or false, an integer, a number with a point, or else a string. INVALID_ARGUMENT names a pair
// that is none; an unknown name is the plugin's error at compile.
absl::StatusOr<std::string> SerializeCompileOptions(absl::string_view text);

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_COMPILE_OPTIONS_H_
