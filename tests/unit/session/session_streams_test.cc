// Streams, events, the device gate, and the end of a Session while work is under way.

#include <thread>

#include "gmock/gmock.h"
#include "runtime/base/limits.h"
#include "tests/unit/session/session_fixture.h"

namespace neurond {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SessionStreamsTest : public testing::Test {
 protected:
  TestHost host;
  TestPrograms programs{host};
  TestSession s{host, programs};
};

TEST_F(SessionStreamsTest, AStreamRetiresInOrder) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Add(a, a);
  const uint64_t first = s.seq;
  s.Add(a, a);
  s.session->Retire(++s.seq, 0);
  s.session->Retire(++s.seq, 0);
  host.plugin.RunLast();
  EXPECT_LT(s.observer->completed(0), first);
  host.plugin.RunNext();
  EXPECT_EQ(s.observer->completed(0), s.seq);
  EXPECT_TRUE(s.observer->monotonic());
}

TEST_F(SessionStreamsTest, CompletionNeedsNoHopOverTheOwner) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Inc(a);
  const auto reading = s.StartRead(a);
  std::thread device([&] { host.plugin.RunNext(); });
  device.join();
  EXPECT_EQ(s.observer->completed(0), s.seq);  // nobody pumped
  EXPECT_EQ(s.observer->wakes(), 0);
  EXPECT_THAT(*reading.values, ElementsAre(2, 3, 4, 5));
}

TEST_F(SessionStreamsTest, StreamsDoNotWaitForEachOther) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({1, 1, 1, 1});
  host.compiler.Hold(true);
  host.plugin.Register(
      "slow", {{kVector}, [](const auto& in) { return std::vector<std::vector<char>>{in[0]}; }});
  Program slow = Reads("slow", 1);
  slow.module = "slow";
  const auto stored = host.programs->DefineModule(slow);
  ASSERT_TRUE(stored.ok());
  const uint64_t compiled_later = ++s.last_id;
  ASSERT_TRUE(s.Execute((*stored)->id, {a}, {compiled_later}).ok());
  const uint64_t behind = s.Add(compiled_later, b);
  const uint64_t beside = s.Add(b, b, 1);
  EXPECT_THAT(s.Read(beside, 1), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(s.session->backlog(), 2);
  while (!host.compiler.AnswerNext()) std::this_thread::yield();
  EXPECT_THAT(s.Read(behind), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(s.session->backlog(), 0);
}

TEST_F(SessionStreamsTest, AWaitHoldsItsStreamOnly) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({1, 1, 1, 1});
  host.plugin.Hold(true);
  s.Inc(a);
  const uint64_t awaited = s.seq;
  host.plugin.Hold(false);
  ASSERT_TRUE(s.session->Wait(++s.seq, 1, 0, awaited).ok());
  const uint64_t after = s.Add(b, b, 1);
  const uint64_t waiting_seq = s.seq;
  EXPECT_LT(s.observer->completed(1), waiting_seq);
  s.Add(b, b, 2);
  EXPECT_EQ(s.observer->completed(2), s.seq);
  host.plugin.RunNext();
  s.observer->PumpUntil(*s.session, 1, waiting_seq);
  EXPECT_THAT(s.Read(after, 1), ElementsAre(2, 2, 2, 2));
  ++s.seq;
  EXPECT_TRUE(absl::IsInvalidArgument(s.session->Wait(s.seq, 1, 0, s.seq + 5)));
}

TEST_F(SessionStreamsTest, AnEventHasItsTimeOnceAllBeforeItRetired) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Inc(a);
  ASSERT_TRUE(s.session->RecordEvent(++s.seq, 0, 5).ok());
  EXPECT_TRUE(absl::IsNotFound(s.session->EventTime(5).status()));
  EXPECT_TRUE(absl::IsNotFound(s.session->EventTime(6).status()));
  host.plugin.RunNext();
  const absl::StatusOr<int64_t> first = s.session->EventTime(5);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(s.observer->completed(0), s.seq);
  s.Inc(a);
  ASSERT_TRUE(s.session->RecordEvent(++s.seq, 0, 5).ok());
  EXPECT_TRUE(absl::IsNotFound(s.session->EventTime(5).status()));
  host.plugin.RunNext();
  EXPECT_GE(*s.session->EventTime(5), *first);
}

TEST_F(SessionStreamsTest, BackpressureIsLiftedWithAWake) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  TestHost narrow(false, 1);
  TestPrograms narrow_programs{narrow};
  TestSession t{narrow, narrow_programs};
  const uint64_t b = t.NewBuffer({0, 0, 0, 0});
  narrow.plugin.Hold(true);
  while (t.session->backlog() < kSessionBacklogMax) t.Inc(b);
  const int64_t wakes = t.observer->wakes();
  while (narrow.plugin.RunNext()) t.observer->PumpIfWoken(*t.session);
  EXPECT_GT(t.observer->wakes(), wakes);
  EXPECT_EQ(t.session->backlog(), 0);
  EXPECT_THAT(t.Read(b), testing::Each(static_cast<float>(kSessionBacklogMax)));
  EXPECT_THAT(s.Read(a), ElementsAre(1, 2, 3, 4));
}

TEST(SessionGateTest, SessionsShareADeviceInTurn) {
  TestHost host(false, 1);
  TestPrograms programs{host};
  TestSession s{host, programs}, t{host, programs};
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = t.NewBuffer({5, 6, 7, 8});
  host.plugin.Hold(true);
  s.Inc(a);
  t.Inc(b);
  EXPECT_EQ(host.plugin.executes, 1);
  EXPECT_EQ(t.session->backlog(), 1);
  host.plugin.RunNext();
  t.observer->PumpIfWoken(*t.session);
  EXPECT_EQ(host.plugin.executes, 2);
  host.plugin.RunNext();
  EXPECT_THAT(t.Read(b), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(host.devices.at(0).counters().inflight, 0);
}

TEST(SessionGateTest, ASessionThatDiesWaitingLetsOthersIn) {
  TestHost host(false, 1);
  TestPrograms programs{host};
  TestSession s{host, programs}, u{host, programs};
  auto t = std::make_unique<TestSession>(host, programs);
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = t->NewBuffer({5, 6, 7, 8});
  const uint64_t c = u.NewBuffer({1, 1, 1, 1});
  host.plugin.Hold(true);
  s.Inc(a);
  t->Inc(b);
  u.Inc(c);
  t.reset();
  host.plugin.RunNext();
  u.observer->PumpIfWoken(*u.session);
  host.plugin.RunNext();
  EXPECT_THAT(u.Read(c), ElementsAre(2, 2, 2, 2));
}

TEST(SessionMemoryTest, ACommandWaitsForEarlierOnesAndThenFails) {
  constexpr BufferSpec kMega{DType::kU8, 1 << 20};
  TestHost host(false, 4, 5 << 19);  // room for two and a half
  TestPrograms programs{host};
  host.plugin.Register("big", {{kMega}, [](const auto&) {
                                 return std::vector<std::vector<char>>{std::vector<char>(1 << 20)};
                               }});
  Program big;
  big.name = "big";
  big.created = {kMega};
  big.created_results = {0};
  big.result_count = 1;
  const uint64_t id = host.Define(big);
  TestSession s{host, programs};
  host.plugin.Hold(true);
  const uint64_t first = ++s.last_id, second = ++s.last_id;
  ASSERT_TRUE(s.Execute(id, {}, {first}).ok());
  ASSERT_TRUE(s.Execute(id, {}, {second}).ok());
  ASSERT_TRUE(s.session->Free(first).ok());  // its Version dies: the next one fits
  const uint64_t third = ++s.last_id;
  ASSERT_TRUE(s.Execute(id, {}, {third}).ok());
  EXPECT_EQ(host.plugin.executes, 3);
  // Logically there is room, physically another Session's copy takes it.
  host.devices.at(0).AddPhysical(1 << 20);
  ASSERT_TRUE(s.session->Free(second).ok());
  const uint64_t fourth = ++s.last_id;
  ASSERT_TRUE(s.Execute(id, {}, {fourth}).ok());
  const uint64_t failed_seq = s.seq;
  EXPECT_EQ(host.plugin.executes, 3);
  EXPECT_EQ(s.session->unreported(), 0u);
  while (host.plugin.RunNext()) s.observer->PumpIfWoken(*s.session);
  s.observer->PumpUntil(*s.session, 0, failed_seq);
  const DeferredErrorPtr error = s.session->TakeError(0, -1, failed_seq);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->error.kind, ErrorKind::kOutOfMemory);
  host.devices.at(0).AddPhysical(-(1 << 20));
  ASSERT_TRUE(s.session->Free(third).ok());
  ASSERT_TRUE(s.session->Free(fourth).ok());
  ASSERT_TRUE(s.Execute(id, {}, {++s.last_id}).ok());
  EXPECT_EQ(host.plugin.executes, 4);
}

TEST(SessionMemoryTest, AnExecuteThatThePluginHasNoRoomForIsTriedAgainBehindEarlierOnes) {
  TestHost host;
  TestPrograms programs{host};
  TestSession s{host, programs};
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Add(a, a);
  host.plugin.FailNextExecute(absl::ResourceExhaustedError("full"));
  const uint64_t sum = s.Add(a, a);
  EXPECT_EQ(s.session->unreported(), 0u);
  while (host.plugin.RunNext()) s.observer->PumpIfWoken(*s.session);
  EXPECT_THAT(s.Read(sum), ElementsAre(2, 4, 6, 8));
  host.plugin.FailNextExecute(absl::ResourceExhaustedError("full"));
  s.Add(a, a);  // nothing is under way that could make room
  EXPECT_EQ(s.session->unreported(), 1u);
  EXPECT_EQ(s.session->TakeError(0, -1, s.seq)->error.kind, ErrorKind::kOutOfMemory);
}

TEST(SessionEndTest, WorkUnderWayEndsWithoutTheSession) {
  TestHost host;
  TestPrograms programs{host};
  auto s = std::make_unique<TestSession>(host, programs);
  const uint64_t a = s->NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s->Inc(a);
  ASSERT_TRUE(s->Execute(programs.checked, {a}, {}).ok());
  const auto reading = s->StartRead(a);
  ASSERT_TRUE(s->Write(a, {3}, 2).ok());
  s->session.reset();
  const Floats untouched = *reading.values;
  EXPECT_EQ(host.devices.at(0).counters().inflight, 2);
  while (host.plugin.RunNext()) {
  }
  EXPECT_EQ(*reading.values, untouched);  // the destination was not the Session's to use any more
  EXPECT_EQ(host.devices.at(0).counters().inflight, 0);
  EXPECT_EQ(host.devices.at(0).counters().physical_bytes, 0);
  EXPECT_EQ(host.plugin.live_buffers, 0);
  EXPECT_EQ(host.devices.at(0).granted_bytes(), 0);
}

TEST(SessionEndTest, AReadUnderWayAloneLeavesItsDestination) {
  TestHost host;
  TestPrograms programs{host};
  auto s = std::make_unique<TestSession>(host, programs);
  const uint64_t a = s->NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s->Inc(a);
  const auto reading = s->StartRead(a);
  s->session.reset();
  host.plugin.RunNext();
  EXPECT_THAT(*reading.values, testing::Each(-1.0f));
  EXPECT_EQ(host.plugin.live_buffers, 0);
}

TEST(SessionEndTest, LateErrorsAfterTheEndAreDropped) {
  TestHost host(true);
  TestPrograms programs{host};
  auto s = std::make_unique<TestSession>(host, programs);
  const uint64_t a = s->NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  ASSERT_TRUE(s->Execute(programs.broken_write, {a}, {}).ok());
  s->Inc(a);
  s->session.reset();
  while (host.plugin.RunNext()) {
  }
  EXPECT_EQ(host.plugin.live_buffers, 0);
}

}  // namespace
}  // namespace neurond
