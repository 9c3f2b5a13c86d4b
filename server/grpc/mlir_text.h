// MlirText: just enough of MLIR's textual syntax to find the signature of `main` in a StableHLO
// module and the ops it uses.
//
// The daemon has no MLIR library, and XLA checks only the byte size of a program's arguments, not
// their dtypes and shapes, so a module's signature has to be known before it may run. The tokens
// are MLIR's: comments, strings, symbols and values are told apart as its own lexer does, so that
// nothing can hide from a reader of this text and be seen by the compiler. Everything unusual
// (generic func ops, type aliases, dynamic or encoded tensors) is refused, never guessed.
//
// Thread-safety: pure functions.

#ifndef NEUROND_SERVER_GRPC_MLIR_TEXT_H_
#define NEUROND_SERVER_GRPC_MLIR_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/program/graph.h"

namespace neurond {

enum class MlirTokenKind { kIdentifier, kSymbol, kValue, kString, kNumber, kArrow, kPunctuation };

// `text` points into the source: a symbol with its '@', a value with its '%', a string with its
// quotes.
struct MlirToken {
  MlirTokenKind kind;
  std::string_view text;
};

// INVALID_ARGUMENT with the line for an unterminated string or a byte that MLIR does not know.
absl::StatusOr<std::vector<MlirToken>> TokenizeMlir(std::string_view source);

// `tensor<4x8xf32>`, the whole text. INVALID_ARGUMENT: dynamic sizes, encodings, element types
// without a DType.
absl::StatusOr<TensorType> ParseTensorType(std::string_view text);
std::string TensorTypeText(const TensorType& type);

struct MlirFunction {
  std::vector<std::string> argument_names;  // "%arg0"
  std::vector<TensorType> inputs, outputs;
  size_t begin = 0;       // of the func.func, in the source
  size_t body_begin = 0;  // of the body's '{'
};

// The only func.func @main, at the top level of the module.
absl::StatusOr<MlirFunction> FindMain(std::string_view source,
                                      const std::vector<MlirToken>& tokens);

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_MLIR_TEXT_H_
