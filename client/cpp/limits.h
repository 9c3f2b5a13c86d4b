// Limits of the remote client, with their reasons.
//
// Thread-safety: constants.

#ifndef NEUROND_CLIENT_CPP_LIMITS_H_
#define NEUROND_CLIENT_CPP_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace neurond::client {

// Tensor bytes in one message: under gRPC's default of 4 MiB, with room for types and sizes.
inline constexpr int64_t kUnaryBytesMax = 3 << 20;
// Tensors in one message, for the same reason.
inline constexpr size_t kUnaryTensorsMax = 1000;
// Chunk of a stream: fastest between 256 KiB and 1 MiB.
inline constexpr size_t kChunkBytes = 512 << 10;

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_CPP_LIMITS_H_
