// OpInfo: what the shim knows about one operator, worked out once.
//
// Lifetime: for ever (operators are registered for ever). Thread-safety: immutable but for its
// counters.

#ifndef NEUROND_CLIENT_TORCH_CSRC_OP_INFO_H_
#define NEUROND_CLIENT_TORCH_CSRC_OP_INFO_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace neurond::shim {

enum class ArgKind : uint8_t {
  kTensor,   // Tensor, Tensor?
  kTensors,  // Tensor[], Tensor?[]
  kScalar,   // Scalar, Scalar?: a run-time number
  kScalars,  // Scalar[]
  kDtype,
  kLayout,
  kMemoryFormat,
  kDevice,
  kGenerator,
  kValue,  // int, float, bool, str, lists of them: by value
};

struct OpInfo {
  c10::OperatorHandle op;
  std::string name;    // "aten::add.Tensor"
  std::string schema;  // its text: part of the portable key
  std::vector<ArgKind> args;
  std::vector<bool> written;  // arguments that the schema marks as mutated
  std::vector<size_t>
      silently_written;  // arguments that the op writes and the schema does not mark
  bool any_written = false;
  bool counts_versions = false;    // the op itself counts the versions of what it writes
  bool persisted = false;          // aten, prims and our own: known to later processes too
  bool is_graph = false;           // neuron::run_graph
  bool skip_reference = false;     // fails or stalls on zeros, or has no CPU kernel
  bool fills = false;              // writes one value: elements that share memory agree
  bool divides = false;            // the reference run must not divide integers by zero
  bool indexes_from_host = false;  // CPU index tensors are legal beside neuron tensors
  uint64_t id = 0;                 // stands for the op in local keys

  // Counted per op; read by get_executed_ops and get_fallback_ops.
  mutable std::atomic<uint64_t> executed{0}, fallbacks{0};
  mutable std::atomic<bool> warned_fallback{false}, warned_float64{false};

  explicit OpInfo(const c10::OperatorHandle& handle);

  // The op's one OpInfo. Of() is fast; Named() is for `static` locals.
  static OpInfo& Of(const c10::OperatorHandle& op);
  static OpInfo& Named(const char* name, const char* overload);
  // All that were made so far.
  static std::vector<const OpInfo*> All();
};

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_OP_INFO_H_
