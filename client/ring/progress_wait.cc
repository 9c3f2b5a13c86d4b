#include "client/ring/progress_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "client/ring/limits.h"
#include "proto/ring/ring_abi.h"

namespace neurond::client {
namespace {

// Leaves the earlier of `target` and what waits already. Returns what the word holds now.
uint32_t Register(std::atomic<uint32_t>& waiting, uint64_t target) {
  const uint32_t mine = ring::WaitTarget(target);
  uint32_t seen = waiting.load();
  while (seen == 0 || static_cast<int32_t>(seen - mine) > 0) {
    if (waiting.compare_exchange_weak(seen, mine)) return mine;
  }
  return seen;
}

}  // namespace

bool SpinFor(const std::atomic<uint64_t>& word, uint64_t target) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::nanoseconds(kSpinNs);
  do {
    if (word.load(std::memory_order_acquire) >= target) return true;
  } while (Clock::now() < end);
  return false;
}

bool SleepFor(const std::atomic<uint64_t>& word, std::atomic<uint32_t>& waiting, uint64_t target,
              bool* signalled) {
  *signalled = false;
  if (word.load() >= target) return true;
  const uint32_t registered = Register(waiting, target);
  if (word.load() >= target) return true;
  const timespec slice{0, kWaitSliceNs};
  const long rc = syscall(SYS_futex, &waiting, FUTEX_WAIT, registered, &slice, nullptr, 0);
  *signalled = rc != 0 && errno == EINTR;
  return word.load() >= target;
}

}  // namespace neurond::client
