// Limits of gRPC's messages that nobody else needs; the rest is in runtime/base/limits.h.
//
// Thread-safety: constants.

#ifndef NEUROND_SERVER_GRPC_LIMITS_H_
#define NEUROND_SERVER_GRPC_LIMITS_H_

#include <cstddef>

namespace neurond {

// An error's text travels in a header, and gRPC cuts the connection over 8 KiB of headers.
inline constexpr size_t kGrpcErrorBytesMax = 4000;

// A connection with a call and without a sign of life is asked after the first and cut after the
// second.
inline constexpr int kGrpcKeepaliveMs = 60'000;
inline constexpr int kGrpcKeepaliveTimeoutMs = 20'000;

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_LIMITS_H_
