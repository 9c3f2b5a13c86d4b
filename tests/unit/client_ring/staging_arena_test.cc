#include "client/ring/staging_arena.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace neurond::client {
namespace {

TEST(StagingArenaTest, TheSameWarmBlockIsUsedAgain) {
  StagingArena arena(1 << 20);
  const auto first = arena.TryAcquire(1000, 0);
  ASSERT_TRUE(first.has_value());
  arena.ReleaseAfter(*first, 5);
  EXPECT_NE(arena.TryAcquire(1000, 4), first);
  EXPECT_EQ(arena.TryAcquire(1000, 5), first);
}

TEST(StagingArenaTest, AFullArenaSaysWhatToWaitFor) {
  StagingArena arena(256);
  const auto a = arena.TryAcquire(128, 0), b = arena.TryAcquire(128, 0);
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(arena.TryAcquire(1, 0).has_value());
  EXPECT_EQ(arena.OldestPending(), 0u);
  arena.ReleaseAfter(*b, 9);
  arena.ReleaseAfter(*a, 7);
  EXPECT_EQ(arena.OldestPending(), 7u);
  EXPECT_FALSE(arena.TryAcquire(256, 8).has_value());
  EXPECT_TRUE(arena.TryAcquire(256, 9).has_value());  // the gaps have joined
}

TEST(StagingArenaTest, BlocksNeverOverlapAndNothingLeaks) {
  constexpr uint64_t kBytes = 1 << 16;
  StagingArena arena(kBytes);
  std::mt19937 random(1);
  std::map<uint64_t, uint64_t> held;
  for (int i = 0; i < 20000; ++i) {
    if (held.empty() || random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % 3000;
      const auto block = arena.TryAcquire(bytes, 0);
      if (!block) continue;
      ASSERT_EQ(*block % 64, 0u);
      ASSERT_LE(*block + bytes, kBytes);
      auto next = held.lower_bound(*block);
      if (next != held.end()) {
        ASSERT_LE(*block + bytes, next->first);
      }
      if (next != held.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *block);
      }
      held.emplace(*block, bytes);
    } else {
      auto victim = std::next(held.begin(), static_cast<long>(random() % held.size()));
      arena.Release(victim->first);
      held.erase(victim);
    }
  }
  for (const auto& [offset, bytes] : held) arena.Release(offset);
  EXPECT_TRUE(arena.TryAcquire(kBytes, 0).has_value());
}

}  // namespace
}  // namespace neurond::client
