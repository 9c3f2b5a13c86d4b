// A StableHLO module as the fake plugin understands it: the signature of main, and a list of
// instructions for the interpreter.
//
// The text is the pretty form that runtime/lowering writes, without regions: `%0 = stablehlo.add
// %a, %b : tensor<4xf32>`.
//
// Thread-safety: pure functions; an HloModule is immutable once parsed.

#ifndef NEUROND_PLUGINS_FAKE_HLO_MODULE_H_
#define NEUROND_PLUGINS_FAKE_HLO_MODULE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/dtype.h"

namespace neurond::fake {

struct HloType {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> sizes;

  int64_t elements() const;
  int64_t bytes() const { return elements() * DTypeBytes(dtype); }
  std::string ToString() const;  // "tensor<4xf32>"
  bool operator==(const HloType&) const = default;
};

struct HloSignature {
  std::string name;  // of the module: module @"name"
  std::vector<HloType> parameters;
  std::vector<int>
      aliases;  // per parameter: the result that may take its memory (tf.aliasing_output), or -1
  std::vector<HloType> results;

  // A module with this signature and no body, for ParseSignature.
  std::string ToText() const;
};

struct HloInstruction {
  std::string op;             // "add", without the dialect
  std::vector<int> operands;  // values: parameters first, then one per instruction
  HloType type;
  std::map<std::string, std::vector<int64_t>> numbers;  // "dims", "sizes", "starts" ...
  std::string word;                                     // comparison direction
  std::vector<char> literal;                            // of a constant: all elements
};

struct HloModule {
  HloSignature signature;
  std::vector<HloInstruction> instructions;
  std::vector<int> results;  // values
};

// Reads no further than main's signature: any module in text form will do. INVALID_ARGUMENT for
// bytecode and for what has no main.
absl::StatusOr<HloSignature> ParseSignature(std::string_view text);

// INVALID_ARGUMENT with the line for text that is no module; UNIMPLEMENTED naming the form for one
// that the fake does not read. Operands are defined and results have the types of the signature;
// what an op wants of its operands is the interpreter's to check.
absl::StatusOr<HloModule> ParseModule(std::string_view text);

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_HLO_MODULE_H_
