// What Commands do to Buffers: versions, donation, reads, writes, copies, grants, and what is
// refused.

#include "gmock/gmock.h"
#include "runtime/base/limits.h"
#include "tests/unit/session/session_fixture.h"

namespace neurond {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SessionCommandsTest : public testing::Test {
 protected:
  TestHost host;
  TestPrograms programs{host};
  TestSession s{host, programs};
};

TEST_F(SessionCommandsTest, AProgramThatRunsInlineIsCompleteWhenSubmitReturns) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({10, 20, 30, 40});
  const uint64_t c = s.Add(a, b);
  EXPECT_EQ(s.observer->completed(0), s.seq);
  EXPECT_EQ(s.session->backlog(), 0);
  EXPECT_EQ(s.observer->wakes(), 0);
  EXPECT_THAT(s.Read(c), ElementsAre(11, 22, 33, 44));
}

TEST_F(SessionCommandsTest, AReaderSeesTheVersionOfItsSubmission) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Inc(a);
  const auto after_one = s.StartRead(a, 1);
  s.Inc(a);
  s.Inc(a);
  const auto after_three = s.StartRead(a, 2);
  while (host.plugin.RunNext()) {
  }
  s.observer->PumpUntil(*s.session, 1, after_one.seq);
  s.observer->PumpUntil(*s.session, 2, after_three.seq);
  EXPECT_THAT(*after_one.values, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(*after_three.values, ElementsAre(4, 5, 6, 7));
}

TEST_F(SessionCommandsTest, AnInPlaceWriteDonatesWhenNobodyElseReads) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  s.Inc(a);
  EXPECT_THAT(host.plugin.last_donated(), ElementsAre(true, false));
  EXPECT_THAT(s.Read(a), ElementsAre(2, 3, 4, 5));
}

TEST_F(SessionCommandsTest, AChainOfInPlaceWritesDonatesWhileItIsUnderWay) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Inc(a);
  s.Inc(a);
  EXPECT_THAT(host.plugin.last_donated(), ElementsAre(true, false));
  while (host.plugin.RunNext()) {
  }
  EXPECT_THAT(s.Read(a), ElementsAre(3, 4, 5, 6));
}

TEST_F(SessionCommandsTest, AReadUnderWayForbidsDonation) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Inc(a);
  const auto reading = s.StartRead(a);
  s.Inc(a);
  EXPECT_THAT(host.plugin.last_donated(), ElementsAre(false, false));
  while (host.plugin.RunNext()) {
  }
  s.Sync();
  EXPECT_THAT(*reading.values, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(s.Read(a), ElementsAre(3, 4, 5, 6));
}

TEST_F(SessionCommandsTest, AQueuedReaderForbidsDonation) {
  TestHost narrow(false, 1);
  TestPrograms narrow_programs{narrow};
  TestSession t{narrow, narrow_programs};
  const uint64_t a = t.NewBuffer({1, 2, 3, 4}), b = t.NewBuffer({1, 1, 1, 1});
  narrow.plugin.Hold(true);
  t.Add(b, b);                       // takes the only place
  const uint64_t sum = t.Add(a, b);  // queued, reads a
  t.Inc(a, 5, 1);                    // another stream; queued too
  while (narrow.plugin.RunNext()) t.session->Pump();
  EXPECT_THAT(t.Read(sum), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(t.Read(a), ElementsAre(6, 7, 8, 9));
}

TEST_F(SessionCommandsTest, AReaderThatWaitsInAnotherStreamForbidsDonation) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({1, 1, 1, 1});
  host.plugin.Hold(true);
  s.Add(b, b, 2);
  const uint64_t awaited = s.seq;
  ASSERT_TRUE(s.session->Wait(++s.seq, 0, 2, awaited).ok());
  const uint64_t sum = s.Add(a, b);  // has not started, and reads a
  s.Inc(a, 5, 1);                    // has started
  EXPECT_EQ(host.plugin.executes, 2);
  EXPECT_THAT(host.plugin.last_donated(), ElementsAre(false, false));
  while (host.plugin.RunNext()) s.observer->PumpIfWoken(*s.session);
  EXPECT_THAT(s.Read(sum), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(s.Read(a), ElementsAre(6, 7, 8, 9));
}

TEST_F(SessionCommandsTest, ACopyOnOneDeviceSharesContentAndForbidsDonation) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer();
  ASSERT_TRUE(s.session->Copy(++s.seq, 0, a, b, 0).ok());
  s.Inc(a);
  EXPECT_THAT(host.plugin.last_donated(), ElementsAre(false, false));
  EXPECT_THAT(s.Read(a), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(s.Read(b), ElementsAre(1, 2, 3, 4));
}

TEST_F(SessionCommandsTest, ACopyReachesAnotherDevice) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}, 0), b = s.NewBuffer(1);
  host.plugin.Hold(true);
  s.Inc(a);
  ASSERT_TRUE(s.session->Copy(++s.seq, 1, a, b, 0).ok());
  EXPECT_LT(s.observer->completed(1), s.seq);
  host.plugin.RunNext();
  EXPECT_THAT(s.Read(b, 1), ElementsAre(2, 3, 4, 5));
}

TEST_F(SessionCommandsTest, ABufferNeverWrittenReadsAsZeros) {
  const uint64_t a = s.NewBuffer(), b = s.NewBuffer({1, 2, 3, 4}), c = s.NewBuffer();
  EXPECT_THAT(s.Read(a), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(s.Read(s.Add(c, b)), ElementsAre(1, 2, 3, 4));
  s.Inc(a, 7);
  EXPECT_THAT(s.Read(a), ElementsAre(7, 7, 7, 7));
}

TEST_F(SessionCommandsTest, APartialWriteKeepsTheRest) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), fresh = s.NewBuffer();
  ASSERT_TRUE(s.Write(a, {20, 30}, 1).ok());
  ASSERT_TRUE(s.Write(fresh, {9}, 3).ok());
  EXPECT_THAT(s.Read(a), ElementsAre(1, 20, 30, 4));
  EXPECT_THAT(s.Read(fresh), ElementsAre(0, 0, 0, 9));
}

TEST_F(SessionCommandsTest, APartialWriteWaitsForTheContentItKeeps) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Inc(a);
  ASSERT_TRUE(s.Write(a, {50}, 0).ok());
  s.Inc(a);
  const auto reading = s.StartRead(a);
  while (host.plugin.RunNext()) s.observer->PumpIfWoken(*s.session);
  s.Sync();
  EXPECT_THAT(*reading.values, ElementsAre(51, 4, 5, 6));
}

TEST_F(SessionCommandsTest, AWholeWriteDoesNotWaitForTheOldContent) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(true);
  s.Inc(a);
  ASSERT_TRUE(s.Write(a, {9, 9, 9, 9}, 0, 1).ok());
  EXPECT_THAT(s.Read(a, 1), ElementsAre(9, 9, 9, 9));
  EXPECT_TRUE(host.plugin.RunNext());
}

TEST_F(SessionCommandsTest, ChunksMakeOneVersion) {
  const Floats values(1 << 16, 3.0f);
  const uint64_t a = s.NewBuffer(0, {DType::kF32, 1 << 16});
  const int64_t half = static_cast<int64_t>(values.size() * sizeof(float) / 2);
  Session::WriteCommand chunk;
  chunk.buffer = a;
  chunk.transfer = 77;
  chunk.total_bytes = 2 * half;
  chunk.bytes = half;
  chunk.data = values.data();
  chunk.seq = ++s.seq;
  ASSERT_TRUE(s.session->Write(chunk).ok());
  EXPECT_EQ(host.plugin.adopts, 0);
  chunk.seq = ++s.seq;
  chunk.buffer_offset = half;
  chunk.last = true;
  ASSERT_TRUE(s.session->Write(chunk).ok());
  EXPECT_EQ(host.plugin.adopts, 1);
  EXPECT_EQ(s.observer->completed(0), s.seq);
}

TEST_F(SessionCommandsTest, ChunksWithAGapAreRefused) {
  const uint64_t a = s.NewBuffer();
  const Floats values(4, 1.0f);
  Session::WriteCommand chunk;
  chunk.buffer = a;
  chunk.transfer = 1;
  chunk.total_bytes = 16;
  chunk.bytes = 4;
  chunk.data = values.data();
  chunk.seq = ++s.seq;
  ASSERT_TRUE(s.session->Write(chunk).ok());
  chunk.seq = ++s.seq;
  chunk.buffer_offset = 8;
  EXPECT_TRUE(absl::IsInvalidArgument(s.session->Write(chunk)));
  EXPECT_THAT(s.Read(a), ElementsAre(0, 0, 0, 0));
}

TEST_F(SessionCommandsTest, WritesUnderWayAreBounded) {
  const uint64_t a = s.NewBuffer();
  const Floats values(4, 1.0f);
  Session::WriteCommand chunk;
  chunk.buffer = a;
  chunk.total_bytes = 16;
  chunk.bytes = 4;
  chunk.data = values.data();
  for (int i = 0; i < kSessionTransfersMax; ++i) {
    chunk.seq = ++s.seq;
    ++chunk.transfer;
    ASSERT_TRUE(s.session->Write(chunk).ok());
  }
  chunk.seq = ++s.seq;
  ++chunk.transfer;
  EXPECT_TRUE(absl::IsResourceExhausted(s.session->Write(chunk)));
}

TEST_F(SessionCommandsTest, FreeDropsTheNameOnly) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({1, 1, 1, 1});
  host.plugin.Hold(true);
  s.Inc(a);
  const uint64_t sum = s.Add(a, b);
  ASSERT_TRUE(s.session->Free(a).ok());
  EXPECT_TRUE(absl::IsNotFound(s.session->Free(a)));
  while (host.plugin.RunNext()) {
  }
  EXPECT_THAT(s.Read(sum), ElementsAre(3, 4, 5, 6));
}

TEST_F(SessionCommandsTest, NothingIsHeldOnceTheSessionIsGone) {
  {
    TestSession other{host, programs};
    const uint64_t a = other.NewBuffer({1, 2, 3, 4}), b = other.NewBuffer({1, 1, 1, 1});
    other.Inc(a);
    EXPECT_TRUE(other.session->Free(other.Add(a, b)).ok());
    EXPECT_GT(host.devices.at(0).counters().physical_bytes, 0);
    EXPECT_GT(host.devices.at(0).granted_bytes(), 0);
  }
  EXPECT_EQ(host.plugin.live_buffers, 0);
  EXPECT_EQ(host.devices.at(0).counters().physical_bytes, 0);
  EXPECT_EQ(host.devices.at(0).granted_bytes(), 0);
}

TEST_F(SessionCommandsTest, PhysicalBytesFollowDonationAndFree) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  EXPECT_EQ(host.devices.at(0).counters().physical_bytes, 16);
  s.Inc(a);
  EXPECT_EQ(host.devices.at(0).counters().physical_bytes, 16);
  const uint64_t b = s.Add(a, a);
  EXPECT_EQ(host.devices.at(0).counters().physical_bytes, 32);
  ASSERT_TRUE(s.session->Free(b).ok());
  ASSERT_TRUE(s.session->Free(a).ok());
  EXPECT_EQ(host.devices.at(0).counters().physical_bytes, 0);
}

TEST_F(SessionCommandsTest, MalformedCommandsChangeNothing) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), other = s.NewBuffer({1, 1, 1, 1}, 1);
  const uint64_t wide = s.NewBuffer(0, {DType::kF32, 5});
  EXPECT_TRUE(absl::IsNotFound(s.Execute(programs.add, {a, 999}, {50})));
  EXPECT_TRUE(absl::IsNotFound(s.Execute(999, {a}, {50})));
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(programs.add, {a}, {50})));
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(programs.add, {a, wide}, {50})));
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(programs.add, {a, other}, {50})));
  EXPECT_TRUE(absl::IsAlreadyExists(s.Execute(programs.add, {a, a}, {a})));
  Program two = Reads("two", 1);
  two.created = {kVector, kVector};
  two.created_results = {0, 1};
  two.result_count = 2;
  EXPECT_TRUE(absl::IsAlreadyExists(s.Execute(host.Define(two), {a}, {77, 77})));
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(programs.inc, {a}, {}, {1, 2})));
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(programs.inc, {a}, {}, {1}, 9999)));
  EXPECT_TRUE(absl::IsInvalidArgument(s.Write(a, {1, 2}, 3)));
  EXPECT_TRUE(absl::IsInvalidArgument(s.session->Copy(++s.seq, 0, a, wide, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(s.session->Alloc(60, DType::kF32, 0, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(s.session->Alloc(60, DType::kF32, 1, 2)));
  EXPECT_TRUE(absl::IsAlreadyExists(s.session->Alloc(a, DType::kF32, 1, 0)));
  EXPECT_TRUE(absl::IsNotFound(s.session->Free(50)));
  EXPECT_THAT(s.Read(a), ElementsAre(1, 2, 3, 4));
}

TEST_F(SessionCommandsTest, ABufferWrittenTwiceInOneExecuteIsRefused) {
  Program twice;
  twice.name = "twice";
  twice.buffers = {kVector, kVector};
  twice.parameters = {0, 1};
  twice.written = {0, 1};
  twice.written_results = {0, 1};
  twice.result_count = 2;
  host.plugin.Register("twice", {{kVector, kVector}, [](const auto& in) {
                                   return std::vector<std::vector<char>>{in[1], in[0]};
                                 }});
  const uint64_t id = host.Define(twice);
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({5, 6, 7, 8});
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(id, {a, a}, {})));
  ASSERT_TRUE(s.Execute(id, {a, b}, {}).ok());
  EXPECT_THAT(s.Read(a), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(s.Read(b), ElementsAre(1, 2, 3, 4));
}

TEST_F(SessionCommandsTest, OffsetsAreCheckedAtSubmission) {
  Program bounded = Writes("inc_");
  bounded.detail = "bounded";
  bounded.word_count = 1;
  bounded.bounds = {{0, 0, 3, 4}};
  const uint64_t id = host.Define(bounded);
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  EXPECT_TRUE(s.Execute(id, {a}, {}, {1}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(id, {a}, {}, {2})));
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(id, {a}, {}, {-1})));
  EXPECT_TRUE(absl::IsInvalidArgument(s.Execute(id, {a}, {}, {INT64_MAX})));
  EXPECT_THAT(s.Read(a), ElementsAre(2, 3, 4, 5));
}

TEST_F(SessionCommandsTest, AProgramWithoutInputsRunsOnItsStreamsDevice) {
  for (int stream : {0, 1, 3, 4}) {
    const uint64_t id = ++s.last_id;
    ASSERT_TRUE(s.Execute(programs.fill, {}, {id}, {stream}, stream).ok());
    const int64_t before = host.devices.at(stream % 2).counters().executes;
    s.Add(id, id, stream);
    EXPECT_EQ(host.devices.at(stream % 2).counters().executes, before + 1);
  }
}

TEST_F(SessionCommandsTest, RepeatedWordsAreUploadedOnce) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  const int64_t before = host.plugin.uploads;
  for (int i = 0; i < 5; ++i) s.Inc(a, 3);
  s.Inc(a, 4);
  EXPECT_EQ(host.plugin.uploads, before + 2);
  EXPECT_THAT(s.Read(a), ElementsAre(20, 21, 22, 23));
}

TEST_F(SessionCommandsTest, GrantsAreBoundedByQuotaAndDevice) {
  TestHost small(false, 4, 1000);
  TestPrograms small_programs{small};
  TestSession t{small, small_programs, 600};
  const absl::StatusOr<Session::Grant> grant = t.session->ChangeGrant(0, 500);
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(grant->granted_bytes, 500);
  EXPECT_EQ(grant->free_bytes, 100);
  EXPECT_EQ(grant->total_bytes, 600);
  const absl::Status refused = t.session->ChangeGrant(0, 200).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("neuron:0"));
  EXPECT_TRUE(absl::IsResourceExhausted(t.session->Alloc(1, DType::kU8, 700, 0)));
  EXPECT_TRUE(t.session->Alloc(1, DType::kU8, 600, 0).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(t.session->Alloc(2, DType::kU8, 1, 0)));
  ASSERT_TRUE(t.session->Free(1).ok());
  EXPECT_TRUE(t.session->Alloc(2, DType::kU8, 600, 0).ok());
  EXPECT_EQ(t.session->ChangeGrant(0, -600)->granted_bytes, 600);  // in use
  TestSession u{small, small_programs};
  EXPECT_TRUE(absl::IsResourceExhausted(u.session->Alloc(1, DType::kU8, 401, 0)));
  EXPECT_TRUE(u.session->Alloc(1, DType::kU8, 400, 0).ok());
}

TEST_F(SessionCommandsTest, AnExecuteWhoseResultsAreBeyondTheQuotaIsRefusedAtOnce) {
  TestSession t{host, programs, 40};
  const uint64_t a = t.NewBuffer({1, 2, 3, 4});
  const uint64_t sum = t.Add(a, a);
  const int64_t before = host.plugin.executes;
  EXPECT_TRUE(absl::IsResourceExhausted(t.Execute(programs.add, {a, a}, {50})));
  EXPECT_EQ(host.plugin.executes, before);
  EXPECT_TRUE(absl::IsNotFound(t.session->Free(50)));
  ASSERT_TRUE(t.session->Free(sum).ok());
  EXPECT_TRUE(t.Execute(programs.add, {a, a}, {50}).ok());
  EXPECT_THAT(t.Read(50), ElementsAre(2, 4, 6, 8));
}

TEST_F(SessionCommandsTest, CountersSaySoFromAnyThread) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  s.Inc(a);
  s.Read(a);
  const SessionCounters counters = s.session->Counters();
  EXPECT_EQ(counters.buffers, 1);
  EXPECT_EQ(counters.buffer_bytes, 16);
  EXPECT_EQ(counters.executes, 1);
  EXPECT_EQ(counters.writes, 1);
  EXPECT_EQ(counters.reads, 1);
  EXPECT_EQ(counters.bytes_read, 16);
}

}  // namespace
}  // namespace neurond
