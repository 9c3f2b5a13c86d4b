// Every limit of the shim, with its reason.

#ifndef NEUROND_CLIENT_TORCH_CSRC_LIMITS_H_
#define NEUROND_CLIENT_TORCH_CSRC_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace neurond::shim {

// A grant grows by this much: one round trip (tens of us) per 256 MiB is noise; more would hoard a
// shared device.
inline constexpr int64_t kGrantStepBytes = int64_t{256} << 20;
// The CPU reference run of a new key: at most this many bytes of zeros and about this much
// arithmetic (some 30 ms of one core), so that a first call never waits on the host for what the
// device is there to do.
inline constexpr int64_t kReferenceBytesMax = int64_t{64} << 20;
inline constexpr int64_t kReferenceWorkMax = int64_t{200} << 20;
// The small twin of a call above those: sizes up to this one stay, so that kernel and group sizes
// and numbers of dimensions do.
inline constexpr int64_t kSmallSize = 16;
// Non-default streams in all; the ring has kStreamsMax words, and a program that makes more streams
// shares them as in CUDA.
inline constexpr int kPoolStreamsMax = 32;
// Code objects known to the origin table. Beyond that (code generated in a loop) lines are not
// recorded.
inline constexpr size_t kCodeObjectsMax = 1 << 16;
// Python frames walked to find the user's line; deeper frames are not worth the time.
inline constexpr int kFramesMax = 48;
// Forward lines remembered for backward, a ring: more nodes than this in one graph lose their
// lines, nothing else.
inline constexpr size_t kForwardLinesMax = 1 << 16;
// Slots of the per-thread front cache of the key table.
inline constexpr size_t kFrontCacheSlots = 4096;
// A process that ends waits this long for what it submitted, so that a failure is told; whoever
// ends a program with much work queued does not want to wait for all of it.
inline constexpr std::chrono::milliseconds kExitWait{3000};
// Static scalars: variants of one key kept; a scalar that changes every step and is guarded would
// fill memory without bound.
inline constexpr size_t kEntriesMax = 1 << 20;

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_LIMITS_H_
