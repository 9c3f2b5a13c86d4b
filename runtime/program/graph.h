// A Graph is a decoded neurond.v1.Program: what a client asks to be computed, before lowering.
//
// server/wire makes it from Program bytes; runtime/lowering reads it. It is a plain value.
// Value ids: the inputs come first (id = index in `inputs`), then the scalars, then the results of
// the nodes in order. Invariants (Validate checks them, since bytes come from clients):
//   * an argument names only values with smaller ids than its node's results;
//   * buffer and word indices are in range; sizes >= 0; element counts fit `limits.h`;
//   * every View lies within its Buffer for offset 0 (the run-time offset is checked at
//   submission);
//   * at most one NewBuffer per output, and outputs that create precede nothing in particular: the
//   k-th creating
//     output is the k-th id of ExecuteRecord.outputs.

#ifndef NEUROND_RUNTIME_PROGRAM_GRAPH_H_
#define NEUROND_RUNTIME_PROGRAM_GRAPH_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/dtype.h"

namespace neurond {

// Flat storage: `elements` values of one element type.
struct BufferSpec {
  DType dtype = DType::kInvalid;
  int64_t elements = 0;
  bool operator==(const BufferSpec&) const = default;
};

// dtype, sizes and strides over a Buffer. Strides and the offset count elements of `dtype`.
struct View {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int offset_word = -1;  // index of the run-time word that holds the offset; -1: 0

  int64_t Elements() const;  // product of sizes; 1 for a 0-dim View
  int64_t Span() const;      // elements from the first to the last touched, inclusive; 0 if empty
};

struct TensorType {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> sizes;
  bool operator==(const TensorType&) const = default;
  int64_t Elements() const;
};

struct InputSpec {
  int buffer = 0;
  View view;
};

// A run-time number, a 0-dim value. kI64, kF64 or kBool says how its word is read.
struct ScalarSpec {
  DType dtype = DType::kInvalid;
  int word = 0;
  bool wrapped = false;  // a Python number: yields to tensors in type promotion
};

struct ValueRef {
  int id = 0;
};

struct Arg;
using ArgList = std::vector<Arg>;
struct Arg {
  std::variant<std::monostate, ValueRef, int64_t, double, bool, std::string, DType, ArgList> v;

  bool IsNone() const { return std::holds_alternative<std::monostate>(v); }
  bool IsValue() const { return std::holds_alternative<ValueRef>(v); }
};

struct Node {
  std::string op;  // "aten.add.Tensor"
  std::vector<Arg> args;
  std::vector<TensorType> results;
  std::string stack;
};

struct OutputSpec {
  int value = 0;
  bool creates = true;
  // creates: the strides of the new Buffer's content, a dense permutation of the value's sizes.
  std::vector<int64_t> strides;
  // !creates: the Buffer that gets a next Version, and the View that is written.
  int buffer = -1;
  View view;
};

struct Graph {
  std::string name;
  std::vector<BufferSpec> buffers;
  std::vector<InputSpec> inputs;
  std::vector<ScalarSpec> scalars;
  std::vector<Node> nodes;
  std::vector<OutputSpec> outputs;
  int word_count = 0;
  int seed_word = -1;
  int offset_word = -1;
  int64_t offsets_used = 0;
  bool float64_as_float32 = false;
  std::string precision = "highest";
};

// INVALID_ARGUMENT that names the first part that breaks an invariant.
absl::Status Validate(const Graph& graph);

}  // namespace neurond

#endif  // NEUROND_RUNTIME_PROGRAM_GRAPH_H_
