#include "server/daemon/use_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace neurond {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

void WaitUntilIdleFor(const UseClock& clock, milliseconds time) {
  while (clock.idle() < time) {
  }
}

TEST(UseClockTest, WhoIsInUseIsNotIdle) {
  UseClock clock;
  std::optional<UseClock::Use> first(clock), second(clock);
  const auto start = Clock::now();
  while (Clock::now() - start < milliseconds(2)) {
  }
  EXPECT_EQ(clock.idle(), milliseconds(0));
  first.reset();
  EXPECT_EQ(clock.idle(), milliseconds(0));
  second.reset();
  WaitUntilIdleFor(clock, milliseconds(2));
}

TEST(UseClockTest, IdleIsCountedFromTheLastUse) {
  UseClock clock;
  WaitUntilIdleFor(clock, milliseconds(3));
  const auto before = Clock::now();
  { UseClock::Use use(clock); }
  const milliseconds idle = clock.idle();
  EXPECT_LE(idle, Clock::now() - before);
}

}  // namespace
}  // namespace neurond
