// ProgressPublisher: the session's side of the progress page. Stores what has been consumed,
// completed and not reported, and wakes the client's waiters whose target is reached (ring_abi.h,
// "Sleeping and waking").
//
// Thread-safety: completions arrive on any thread; Consumed belongs to the session thread.

#ifndef NEUROND_SERVER_RING_PROGRESS_PUBLISHER_H_
#define NEUROND_SERVER_RING_PROGRESS_PUBLISHER_H_

#include <atomic>
#include <cstdint>

#include "server/ring/shared_areas.h"

namespace neurond::ring {

class ProgressPublisher {
 public:
  explicit ProgressPublisher(SharedAreas& areas) : ring_(areas.ring()), page_(areas.progress()) {}

  // The ring was consumed up to byte `tail` and record `seq`.
  void Consumed(uint64_t tail, uint64_t seq);
  void Completed(int stream, uint64_t seq);
  void Unreported(uint64_t count);
  // The session is over: wakes everybody.
  void Ended();

  // Whether a waiter was woken since the last call: then the client is about to run, and a spin
  // would only be in its way.
  bool TakeWoke() { return woke_.exchange(false, std::memory_order_relaxed); }

 private:
  void WakeIfReached(std::atomic<uint32_t>& waiting, uint64_t value);

  RingHeader& ring_;
  ProgressPage& page_;
  std::atomic<bool> woke_{false};
};

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_PROGRESS_PUBLISHER_H_
