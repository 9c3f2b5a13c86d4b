// Every limit of the daemon, with its reason. Append only; a limit that is met gives RESOURCE_EXHAUSTED,
// INVALID_ARGUMENT or backpressure on that client alone.
//
// Thread-safety: constants.

#ifndef NEUROND_RUNTIME_BASE_LIMITS_H_
#define NEUROND_RUNTIME_BASE_LIMITS_H_

#include <cstdint>

namespace neurond {

// --- Programs -----------------------------------------------------------------------------------
// Bytes of one serialized Program: a compiled graph of 10,000 nodes has about 2 MiB.
inline constexpr int64_t kProgramBytesMax = int64_t{64} << 20;
// Lists in an argument: ATen's schemas nest at most two deep.
inline constexpr int kArgDepthMax = 4;
// Elements of any value. XLA CPU dies with SIGFPE at 2^37 elements; 2^34 float32 are 64 GiB.
inline constexpr int64_t kElementsMax = int64_t{1} << 34;
// Dimensions of any value, as in PyTorch's TensorIterator.
inline constexpr int kRankMax = 64;
// Nodes, values, outputs and Buffers of one Program: a fused optimizer over a large model names some thousands.
inline constexpr int kProgramPartsMax = 1 << 18;
// Length of lists in one node's arguments (sizes, tensors of a cat, of a foreach op).
inline constexpr int kArgItemsMax = 1 << 16;

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_LIMITS_H_
