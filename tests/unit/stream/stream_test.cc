// Version chains and the retirement of Streams.

#include <thread>

#include "gtest/gtest.h"
#include "runtime/stream/progress.h"
#include "runtime/stream/version.h"
#include "tests/unit/session/session_fixture.h"

namespace neurond {
namespace {

RootPtr MakeRoot() {
  auto root = std::make_shared<Root>();
  root->error = std::make_shared<DeferredError>();
  return root;
}

TEST(VersionTest, TheLastGoodContentIsFoundBehindErrors) {
  auto good = std::make_shared<Version>(1, nullptr);
  good->Bind(nullptr, true);
  auto first = std::make_shared<Version>(1, good), second = std::make_shared<Version>(1, first);
  auto third = std::make_shared<Version>(1, second);
  EXPECT_EQ(LastGood(third), third);  // pending: may still be good
  first->Fail(MakeRoot());
  third->Fail(MakeRoot());
  EXPECT_EQ(LastGood(third), second);
  second->Fail(MakeRoot());
  EXPECT_EQ(LastGood(third), good);
  EXPECT_EQ(LastGood(first), good);
}

TEST(VersionTest, AGoodVersionLetsItsPredecessorGo) {
  auto first = std::make_shared<Version>(1, nullptr);
  auto second = std::make_shared<Version>(1, first);
  second->Bind(nullptr, false);
  EXPECT_EQ(first.use_count(), 2);
  second->BecomeGood();
  EXPECT_EQ(first.use_count(), 1);
}

TEST(VersionTest, AChainOfAnyLengthDies) {
  VersionPtr newest;
  for (int i = 0; i < 1'000'000; ++i) newest = std::make_shared<Version>(1, std::move(newest));
  newest.reset();
}

TEST(VersionTest, FailedVersionsDoNotPileUp) {
  auto good = std::make_shared<Version>(1, nullptr);
  good->Bind(nullptr, true);
  VersionPtr newest = good;
  for (int i = 0; i < 100; ++i) {
    newest = std::make_shared<Version>(1, newest);
    newest->Fail(MakeRoot());
  }
  EXPECT_EQ(newest->previous, good);
}

class ProgressTest : public testing::Test {
 protected:
  int64_t now = 100;
  TestObserver observer;
  Progress progress{observer, 4, [this] { return now; }};
};

TEST_F(ProgressTest, RetirementIsInOrder) {
  const auto one = progress.Enter(0, 1), two = progress.Enter(0, 2), three = progress.Enter(0, 5);
  progress.RetireNow(0, 6);
  EXPECT_EQ(progress.backlog(), 3);
  progress.Retire(0, two);
  EXPECT_EQ(observer.completed(0), 0u);
  progress.Retire(0, one);
  EXPECT_EQ(observer.completed(0), 2u);
  EXPECT_TRUE(progress.Retired(0, 4));
  EXPECT_FALSE(progress.Retired(0, 5));
  progress.Retire(0, three);
  EXPECT_EQ(observer.completed(0), 6u);
  EXPECT_EQ(progress.backlog(), 0);
  progress.RetireNow(0, 7);
  EXPECT_EQ(observer.completed(0), 7u);
}

TEST_F(ProgressTest, AnEventIsStampedWhenWhatIsBeforeItRetired) {
  const auto one = progress.Enter(0, 1);
  progress.RetireEvent(0, 2, 9);
  progress.RetireNow(0, 3);
  EXPECT_FALSE(progress.EventTime(9));
  now = 200;
  progress.Retire(0, one);
  EXPECT_EQ(progress.EventTime(9), 200);
  EXPECT_EQ(observer.completed(0), 3u);
}

TEST_F(ProgressTest, ManyThreadsNeverTellANumberTwiceOrBackwards) {
  for (int round = 0; round < 200; ++round) {
    std::vector<Progress::Ticket> tickets;
    for (int i = 0; i < 8; ++i) tickets.push_back(progress.Enter(0, 8 * round + i + 1));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        progress.Retire(0, tickets[7 - 2 * t]);
        progress.Retire(0, tickets[6 - 2 * t]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(observer.completed(0), static_cast<uint64_t>(8 * round + 8));
  }
  EXPECT_TRUE(observer.monotonic());
}

TEST_F(ProgressTest, NothingIsToldAfterClose) {
  const auto one = progress.Enter(0, 1);
  ASSERT_TRUE(progress.BeginAccess());
  std::thread other([&] { progress.EndAccess(); });
  progress.Close();  // waits for it
  other.join();
  progress.Retire(0, one);
  progress.Wake();
  EXPECT_FALSE(progress.BeginAccess());
  EXPECT_EQ(observer.completed(0), 0u);
  EXPECT_EQ(observer.wakes(), 0);
}

}  // namespace
}  // namespace neurond
