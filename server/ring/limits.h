// Every limit of the ring front end, with its reason. The daemon's other limits are in
// runtime/base/limits.h, the ABI's in proto/ring/ring_abi.h.

#ifndef NEUROND_SERVER_RING_LIMITS_H_
#define NEUROND_SERVER_RING_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace neurond::ring {

// Connections at once, each a thread: beyond any number of ranks on one host.
inline constexpr int kConnectionsMax = 1024;
// Without descriptors for another client, the daemon looks again after so long.
inline constexpr uint64_t kAcceptRetryMs = 100;
// A connection that has not said Hello by then is closed: it holds a thread.
inline constexpr int kHelloTimeoutMs = 10'000;
// A Hello is small; a larger first frame is refused before it is read.
inline constexpr size_t kHelloBytesMax = 64 << 10;
// Records consumed between two looks at the mailbox, the socket and the client's waiters.
inline constexpr int kRecordBatch = 64;
// Batches between two looks at the socket while the ring stays busy: a look costs a system call.
inline constexpr int kBatchesPerLook = 16;
// A session thread spins so long before it sleeps; more keeps the client from a core that both
// share.
inline constexpr int64_t kSpinNs = 1'500;
// Replies that a client does not read: beyond this its next request waits.
inline constexpr size_t kUnsentBytesMax = 1 << 20;
// Length of NEURON_PROCESS_TAG that is kept.
inline constexpr size_t kTagBytesMax = 128;
// Errors printed at a session's end that nobody asked for.
inline constexpr int kUnreportedLoggedMax = 10;

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_LIMITS_H_
