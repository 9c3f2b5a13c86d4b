#include "server/ring/progress_publisher.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace neurond::ring {
namespace {

void WakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void ProgressPublisher::WakeIfReached(std::atomic<uint32_t>& waiting, uint64_t value) {
  // Seq_cst: the progress word was stored before this load, the client stored its target before it
  // looked at that word again.
  const uint32_t target = waiting.load();
  if (target == 0 || !ReachedTarget(value, target)) return;
  waiting.store(0);
  WakeAll(waiting);
  woke_.store(true, std::memory_order_relaxed);
}

void ProgressPublisher::Consumed(uint64_t tail, uint64_t seq) {
  ring_.tail.store(tail);
  page_.consumed_seq.store(seq);
  WakeIfReached(ring_.client_waiting_tail, tail);
  WakeIfReached(ring_.client_waiting_consumed, seq);
}

void ProgressPublisher::Completed(int stream, uint64_t seq) {
  if (stream < 0 || stream >= static_cast<int>(kStreamsMax)) return;
  // The client cannot write this page, so that what stands there is ours. Two threads may report
  // out of order.
  std::atomic<uint64_t>& word = page_.completed_seq[stream];
  uint64_t seen = word.load(std::memory_order_relaxed);
  while (seen < seq && !word.compare_exchange_weak(seen, seq)) {
  }
  WakeIfReached(ring_.client_waiting_stream[stream], seq);
}

void ProgressPublisher::Unreported(uint64_t count) { page_.unreported.store(count); }

void ProgressPublisher::Ended() {
  page_.epoch_ended.store(1);
  ring_.client_waiting_tail.store(0);
  ring_.client_waiting_consumed.store(0);
  WakeAll(ring_.client_waiting_tail);
  WakeAll(ring_.client_waiting_consumed);
  for (std::atomic<uint32_t>& word : ring_.client_waiting_stream) {
    if (word.exchange(0) != 0) WakeAll(word);
  }
}

}  // namespace neurond::ring
