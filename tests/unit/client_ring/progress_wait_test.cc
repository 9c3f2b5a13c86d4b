#include "client/ring/progress_wait.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <thread>
#include <vector>

#include "proto/ring/ring_abi.h"

namespace neurond::client {
namespace {

TEST(WaitTargetTest, ZeroMeansNobodyAndWrapsAreHarmless) {
  EXPECT_NE(ring::WaitTarget(uint64_t{1} << 32), 0u);
  EXPECT_TRUE(ring::ReachedTarget((uint64_t{1} << 32) + 1, ring::WaitTarget(uint64_t{1} << 32)));
  EXPECT_TRUE(ring::ReachedTarget(5, ring::WaitTarget(5)));
  EXPECT_FALSE(ring::ReachedTarget(4, ring::WaitTarget(5)));
  EXPECT_FALSE(ring::ReachedTarget(0xfffffff0, ring::WaitTarget((uint64_t{1} << 32) + 3)));
}

// The daemon's side of the protocol, as ring_abi.h has it.
void Complete(std::atomic<uint64_t>& word, std::atomic<uint32_t>& waiting, uint64_t value,
              int* wakes) {
  word.store(value);
  const uint32_t target = waiting.load();
  if (target == 0 || !ring::ReachedTarget(value, target)) return;
  waiting.store(0);
  ++*wakes;
  syscall(SYS_futex, &waiting, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

TEST(SleepForTest, WaitersOfDifferentTargetsAllArrive) {
  std::atomic<uint64_t> word{0};
  std::atomic<uint32_t> waiting{0};
  constexpr uint64_t kLast = 20000;
  std::vector<std::thread> waiters;
  for (uint64_t step : {1000, 1500, 3000, 20000}) {
    waiters.emplace_back([&word, &waiting, step] {
      for (uint64_t target = step; target <= kLast; target += step) {
        bool signalled;
        while (!SleepFor(word, waiting, target, &signalled)) {
        }
      }
    });
  }
  int wakes = 0;
  for (uint64_t value = 1; value <= kLast; ++value) Complete(word, waiting, value, &wakes);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_LE(wakes, 50);  // 20 + 13 + 6 + 1 targets, not one per value
}

}  // namespace
}  // namespace neurond::client
