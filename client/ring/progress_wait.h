// Waiting for a progress word, as ring_abi.h describes it: register the target, look again, sleep
// on the waiting word in slices.
//
// Thread-safety: any number of threads may wait for the same word.

#ifndef NEUROND_CLIENT_RING_PROGRESS_WAIT_H_
#define NEUROND_CLIENT_RING_PROGRESS_WAIT_H_

#include <atomic>
#include <cstdint>

namespace neurond::client {

// Looks at `word` for a moment without sleeping. True if it reached `target`.
bool SpinFor(const std::atomic<uint64_t>& word, uint64_t target);

// Sleeps until `word` may have reached `target`, for one slice at most. True if it has.
// `signalled`: whether a signal was caught meanwhile.
bool SleepFor(const std::atomic<uint64_t>& word, std::atomic<uint32_t>& waiting, uint64_t target,
              bool* signalled);

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_PROGRESS_WAIT_H_
