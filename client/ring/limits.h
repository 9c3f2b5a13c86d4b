// Every limit of the ring client, with its reason. The limits of the ABI itself are in
// proto/ring/ring_abi.h.

#ifndef NEUROND_CLIENT_RING_LIMITS_H_
#define NEUROND_CLIENT_RING_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "proto/ring/ring_abi.h"

namespace neurond::client {

// An upload goes in chunks, so that the daemon copies one while the client fills the next; 1 MiB
// stays in the L2 cache.
inline constexpr uint64_t kWriteChunkBytes = 1u << 20;
// Chunks of one upload that the daemon has not consumed yet: keeps the staging pages few and
// therefore warm.
inline constexpr int kWriteWindowChunks = 8;
// A download's chunk: large, since each costs the plugin a call.
inline constexpr uint64_t kReadChunkBytes = 4u << 20;
inline constexpr int kReadWindowChunks = 4;
// A submission begins only while the ring holds no more than this, so that its record (of
// 256 KiB at most) and the frees before it go in without a wait that could not be interrupted.
inline constexpr uint64_t kRingFillMax = ring::kRingBytes / 4 * 3;
// A sleeping waiter looks at the socket this often: the time until a killed daemon is seen.
inline constexpr int64_t kWaitSliceNs = 100'000'000;
// A waiter spins this long before it sleeps; more would keep the daemon from a core that both
// share.
inline constexpr int64_t kSpinNs = 1'500;
// Frees kept back while the ring is full or busy are pushed in records of at most this many ids.
inline constexpr uint32_t kFreesPerRecordMax = 8192;
// A reply's error text beyond this is a broken daemon.
inline constexpr uint32_t kErrorTextBytesMax = 1u << 20;
// A reply is taken in so many bytes at a time, and room made for no more.
inline constexpr size_t kReceiveStepBytes = 256u << 10;
// How often one Connect starts a daemon before it reports the log instead.
inline constexpr int kStartsMax = 2;
// How much of the log a failed start shows.
inline constexpr int64_t kLogTailBytes = 2048;
// Connections that wait for a starting daemon.
inline constexpr int kListenBacklog = 512;

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_LIMITS_H_
