// Times and defaults of the daemon's own life. The runtime's limits are in runtime/base/limits.h.

#ifndef NEUROND_SERVER_DAEMON_LIMITS_H_
#define NEUROND_SERVER_DAEMON_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace neurond {

// Devices of the CPU plugin where nobody says how many; enough to try data parallel code.
inline constexpr int kCpuDevices = 4;
// A successor waits so long for the lock of a daemon that is draining.
inline constexpr int kLifeLockMs = 15'000;
// Queued Commands may finish for so long after a stop; then their sessions are closed.
inline constexpr uint64_t kDrainMs = 5'000;
inline constexpr uint64_t kDrainTickMs = 20;
// Running gRPC calls may end for so long once the ring's sessions are gone.
inline constexpr int kGrpcDrainMs = 2'000;
// A drain that still hangs then is ended by the kernel (SIGALRM).
inline constexpr unsigned kDrainHardSeconds = 12;

// An idle daemon that could not end looks again after so long.
inline constexpr int64_t kIdleRetryMs = 1'000;

// A log file of --log-file, and how many of them are kept when it is full.
inline constexpr size_t kLogFileBytesMax = 16 << 20;
inline constexpr size_t kLogFiles = 3;

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_LIMITS_H_
