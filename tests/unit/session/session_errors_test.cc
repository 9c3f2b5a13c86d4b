// How failures travel: roots, what does not run, what is reported when, and what Buffers hold
// afterwards.

#include <functional>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "tests/unit/session/session_fixture.h"

namespace neurond {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Every rule must hold whether a device can fail after dispatch or not, and whether it runs inline
// or late.
struct Mode {
  bool may_fail_late = false;
  bool held = false;
};

class SessionErrorsTest : public testing::TestWithParam<Mode> {
 protected:
  SessionErrorsTest() : host(GetParam().may_fail_late), programs(host), s(host, programs) {}

  // Lets what is held run, and the Session see it.
  void Settle(int stream = 0) {
    s.observer->PumpIfWoken(*s.session);
    while (host.plugin.RunNext()) s.observer->PumpIfWoken(*s.session);
    s.Sync(stream);
  }
  // A write to `buffer` that fails: at dispatch, or when it runs.
  void BreakWrite(uint64_t buffer) {
    if (!GetParam().may_fail_late) {
      host.plugin.FailNextExecute(absl::InternalError("the device broke"));
      s.Inc(buffer);
      return;
    }
    ASSERT_TRUE(s.Execute(programs.broken_write, {buffer}, {}).ok());
  }
  uint64_t BreakNew(uint64_t input) {
    const uint64_t made = ++s.last_id;
    if (!GetParam().may_fail_late) {
      host.plugin.FailNextExecute(absl::InternalError("the device broke"));
      EXPECT_TRUE(s.Execute(programs.add, {input, input}, {made}).ok());
    } else {
      EXPECT_TRUE(s.Execute(programs.broken, {input}, {made}).ok());
    }
    return made;
  }

  TestHost host;
  TestPrograms programs;
  TestSession s;
};

// Between the failure and this session's look at it, another one has asked for another try.
TEST_P(SessionErrorsTest, WhoeverWaitedForAFailedCompileWaitsForTheNextTry) {
  host.plugin.Register("late", {{kVector}, [](const auto& in) {
                                  return absl::StatusOr<std::vector<std::vector<char>>>({in[0]});
                                }});
  Program late = Reads("late", 1);
  late.module = "late";
  host.compiler.Hold(true);
  const StoredProgramPtr stored = *host.programs->DefineModule(late);
  TestSession other(host, programs);
  const uint64_t input = s.NewBuffer({1, 2, 3, 4}), output = ++s.last_id;
  ASSERT_TRUE(s.Execute(stored->id, {input}, {output}).ok());
  const TestSession::Reading reading = s.StartRead(output);

  host.compiler.FailNext({absl::StatusCode::kInternal, ErrorKind::kRuntime, "worker killed"},
                         false);
  std::promise<void> failed;
  stored->executable->OnResolved([&failed] { failed.set_value(); });
  while (!host.compiler.AnswerNext()) std::this_thread::yield();
  failed.get_future().wait();
  const uint64_t same = other.NewBuffer({5, 6, 7, 8}), result = ++other.last_id;
  ASSERT_TRUE(other.Execute(stored->id, {same}, {result}).ok());
  s.observer->PumpIfWoken(*s.session);

  while (!host.compiler.AnswerNext()) std::this_thread::yield();
  EXPECT_THAT(other.Read(result), ElementsAre(5, 6, 7, 8));
  s.observer->PumpUntil(*s.session, 0, reading.seq);
  EXPECT_THAT(*reading.values, ElementsAre(1, 2, 3, 4));
}

TEST_P(SessionErrorsTest, TheRootNamesTheFailedCommand) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(GetParam().held);
  BreakWrite(a);
  const uint64_t failed_seq = s.seq;
  Settle();
  EXPECT_EQ(s.observer->unreported(), 1u);
  const DeferredErrorPtr error = s.session->TakeError(0, -1, s.seq);
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(error->error.message, HasSubstr("the device broke"));
  EXPECT_EQ(error->error.code, absl::StatusCode::kInternal);
  EXPECT_EQ(error->seq, failed_seq);
  EXPECT_EQ(error->origin, 100 + failed_seq);
  EXPECT_EQ(error->op, GetParam().may_fail_late ? "broken_" : "inc_");
  EXPECT_EQ(error->detail, "float32[4]");
  EXPECT_EQ(error->stream, 0);
  EXPECT_EQ(error->device, 0);
  EXPECT_EQ(s.observer->unreported(), 0u);
  EXPECT_EQ(s.session->TakeError(0, -1, s.seq), nullptr);
}

TEST_P(SessionErrorsTest, DependentsCarryTheSameRootAndIndependentWorkGoesOn) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({5, 5, 5, 5});
  host.plugin.Hold(GetParam().held);
  const uint64_t broken = BreakNew(a);
  const uint64_t next = s.Add(broken, b);
  const uint64_t last = s.Add(next, next);
  const uint64_t independent = s.Add(b, b);
  Settle();
  EXPECT_EQ(s.session->unreported(), 1u);
  EXPECT_THAT(s.Read(independent), ElementsAre(10, 10, 10, 10));
  const DeferredErrorPtr root = s.session->TakeError(-1, -1, 0);
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(s.session->TakeError(-1, -1, 0), nullptr);
  for (uint64_t buffer : {broken, next, last}) {
    EXPECT_THAT(s.Read(buffer), IsEmpty());
    EXPECT_EQ(s.session->TakeBufferError(buffer), root);
    EXPECT_EQ(s.session->unreported(), 0u);
  }
}

TEST_P(SessionErrorsTest, WhoReadsTwoFailuresCarriesTheOlder) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(GetParam().held);
  const uint64_t older = BreakNew(a), older_seq = s.seq;
  const uint64_t younger = BreakNew(a);
  Settle();
  const uint64_t sums[] = {s.Add(older, younger), s.Add(younger, older)};
  Settle();
  for (uint64_t sum : sums) {
    const DeferredErrorPtr root = s.session->TakeBufferError(sum);
    ASSERT_NE(root, nullptr);
    EXPECT_EQ(root->seq, older_seq);
  }
}

TEST_P(SessionErrorsTest, DependentsDoNotRun) {
  if (GetParam().may_fail_late) GTEST_SKIP() << "a late device may have dispatched them already";
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  const uint64_t broken = BreakNew(a);
  const int64_t before = host.plugin.executes;
  s.Add(broken, broken);
  EXPECT_EQ(host.plugin.executes, before);
}

TEST_P(SessionErrorsTest, ParametersReadBackWithTheirLastGoodValuesAfterTheReport) {
  const uint64_t weights = s.NewBuffer({1, 2, 3, 4}), moments = s.NewBuffer({0, 0, 0, 0});
  s.Inc(weights);
  host.plugin.Hold(GetParam().held);
  const uint64_t gradient = BreakNew(moments);
  // The step that depends on the failure writes nothing.
  Program step;
  step.name = "step";
  step.buffers = {kVector, kVector};
  step.parameters = {0, 1};
  step.written = {0};
  step.written_results = {0};
  step.result_count = 1;
  host.plugin.Register(
      "step", {{kVector}, [](const auto& in) { return std::vector<std::vector<char>>{in[1]}; }});
  const uint64_t id = host.Define(step);
  ASSERT_TRUE(s.Execute(id, {weights, gradient}, {}).ok());
  ASSERT_TRUE(s.Execute(id, {weights, gradient}, {}).ok());
  BreakWrite(moments);
  s.Inc(moments);
  Settle();
  EXPECT_NE(s.session->TakeError(0, -1, s.seq), nullptr);
  EXPECT_NE(s.session->TakeError(0, -1, s.seq), nullptr);
  EXPECT_EQ(s.session->TakeError(0, -1, s.seq), nullptr);
  EXPECT_THAT(s.Read(weights), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(s.Read(moments), ElementsAre(0, 0, 0, 0));
  s.Inc(weights);
  Settle();
  EXPECT_THAT(s.Read(weights), ElementsAre(3, 4, 5, 6));
}

TEST_P(SessionErrorsTest, UntilTheReportTheBufferIsTheError) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(GetParam().held);
  BreakWrite(a);
  Settle();
  EXPECT_THAT(s.Read(a), IsEmpty());
  EXPECT_NE(s.session->TakeBufferError(a), nullptr);
  EXPECT_THAT(s.Read(a), ElementsAre(1, 2, 3, 4));
}

TEST_P(SessionErrorsTest, AFullWriteHealsABuffer) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(GetParam().held);
  const uint64_t broken = BreakNew(a);
  Settle();
  ASSERT_TRUE(s.Write(broken, {6, 7, 8, 9}).ok());
  EXPECT_THAT(s.Read(broken), ElementsAre(6, 7, 8, 9));
}

TEST_P(SessionErrorsTest, ABufferMadeByAFailedCommandRaisesAtEachUse) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(GetParam().held);
  const uint64_t broken = BreakNew(a);
  Settle();
  const DeferredErrorPtr root = s.session->TakeError(-1, -1, 0);
  ASSERT_NE(root, nullptr);
  s.Add(broken, a);  // submitted by somebody who thinks that all is well
  Settle();
  EXPECT_EQ(s.session->unreported(), 1u);
  EXPECT_EQ(s.session->TakeError(0, -1, s.seq), root);
  EXPECT_THAT(s.Read(broken), IsEmpty());
  EXPECT_EQ(s.session->unreported(), 1u);
  EXPECT_EQ(s.session->TakeBufferError(broken), root);
}

TEST_P(SessionErrorsTest, OldestFirstAndOnlyInScope) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({1, 2, 3, 4}, 1);
  host.plugin.Hold(GetParam().held);
  BreakWrite(a);
  const uint64_t first = s.seq;
  Settle();
  BreakWrite(b);
  const uint64_t second = s.seq;
  Settle();
  EXPECT_EQ(s.session->TakeError(3, -1, s.seq), nullptr);
  EXPECT_EQ(s.session->TakeError(0, -1, first - 1), nullptr);
  const DeferredErrorPtr on_second_device = s.session->TakeError(-1, 1, 0);
  ASSERT_NE(on_second_device, nullptr);
  EXPECT_EQ(on_second_device->seq, second);
  BreakWrite(b);
  Settle();
  EXPECT_EQ(s.session->TakeError(0, -1, s.seq)->seq, first);
  EXPECT_EQ(s.session->TakeError(0, -1, s.seq)->seq, s.seq);
}

TEST_P(SessionErrorsTest, AFailedCheckIsAnErrorInItsOwnWordsAndChangesNothing) {
  const uint64_t a = s.NewBuffer({8, 2, 3, 4});
  host.plugin.Hold(GetParam().held);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(s.Execute(programs.checked, {a}, {}).ok());
  Settle();
  EXPECT_THAT(host.plugin.last_donated(), ElementsAre(false));
  const DeferredErrorPtr error = s.session->TakeError(0, -1, s.seq);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->error.kind, ErrorKind::kIndex);
  EXPECT_EQ(error->error.message, "value 10 is too large");
  EXPECT_EQ(s.session->TakeError(0, -1, s.seq), nullptr);
  EXPECT_THAT(s.Read(a), ElementsAre(10, 4, 5, 6));
}

TEST_P(SessionErrorsTest, ReadsOfAFailedPartialWriteFail) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.Hold(GetParam().held);
  BreakWrite(a);
  ASSERT_TRUE(s.Write(a, {9}, 0).ok());
  Settle();
  EXPECT_THAT(s.Read(a), IsEmpty());
  EXPECT_EQ(s.session->unreported(), 1u);
  EXPECT_NE(s.session->TakeError(0, -1, s.seq), nullptr);
  EXPECT_THAT(s.Read(a), ElementsAre(1, 2, 3, 4));
}

TEST_P(SessionErrorsTest, CopiesPassTheRootOnAndRevertOnTheirOwn) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4}), b = s.NewBuffer({5, 6, 7, 8});
  const uint64_t far = s.NewBuffer({9, 9, 9, 9}, 1);
  host.plugin.Hold(GetParam().held);
  BreakWrite(a);
  ASSERT_TRUE(s.session->Copy(++s.seq, 0, a, b, 0).ok());
  ASSERT_TRUE(s.session->Copy(++s.seq, 0, a, far, 0).ok());
  Settle();
  EXPECT_EQ(s.session->unreported(), 1u);
  EXPECT_NE(s.session->TakeError(0, -1, s.seq), nullptr);
  EXPECT_THAT(s.Read(a), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(s.Read(b), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(s.Read(far), ElementsAre(9, 9, 9, 9));
}

TEST_P(SessionErrorsTest, TheQueueIsBoundedAndReadersStillSeeTheRest) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  uint64_t newest = 0;
  for (int i = 0; i < 1100; ++i) newest = BreakNew(a);
  Settle();
  EXPECT_EQ(s.session->unreported(), 1024u);
  const DeferredErrorPtr oldest = s.session->TakeError(-1, -1, 0);
  ASSERT_NE(oldest, nullptr);
  EXPECT_THAT(s.Read(newest), IsEmpty());
  EXPECT_NE(s.session->TakeBufferError(newest), nullptr);
}

TEST_P(SessionErrorsTest, UploadFailuresAreDeferredErrorsToo) {
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  host.plugin.FailNextUpload(absl::ResourceExhaustedError("full"));
  ASSERT_TRUE(s.Write(a, {5, 6, 7, 8}).ok());
  const DeferredErrorPtr error = s.session->TakeError(0, -1, s.seq);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->error.kind, ErrorKind::kOutOfMemory);
  EXPECT_EQ(error->op, "write");
  EXPECT_THAT(s.Read(a), ElementsAre(1, 2, 3, 4));
}

INSTANTIATE_TEST_SUITE_P(Modes, SessionErrorsTest,
                         testing::Values(Mode{false, false}, Mode{false, true}, Mode{true, false},
                                         Mode{true, true}),
                         [](const testing::TestParamInfo<Mode>& mode) {
                           return std::string(mode.param.may_fail_late ? "MayFailLate" : "Prompt") +
                                  (mode.param.held ? "Held" : "Inline");
                         });

TEST(SessionLateErrorsTest, AConsumersFailureSeenFirstStillNamesTheProducer) {
  TestHost host(true);
  TestPrograms programs(host);
  TestSession s(host, programs);
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  // Both are dispatched; the consumer's completion is processed before the producer's is seen.
  host.plugin.Hold(true);
  const uint64_t broken = ++s.last_id;
  ASSERT_TRUE(s.Execute(programs.broken, {a}, {broken}, {}, 0).ok());
  const uint64_t producer = s.seq;
  const uint64_t sum = s.Add(broken, a, 1);
  host.plugin.RunLast();  // the consumer fails: its input is not there
  s.session->Pump();
  EXPECT_EQ(s.session->unreported(), 0u);
  EXPECT_LT(s.observer->completed(1), s.seq);
  host.plugin.RunNext();
  s.session->Pump();
  EXPECT_EQ(s.observer->completed(1), s.seq);
  EXPECT_EQ(s.session->unreported(), 1u);
  const DeferredErrorPtr root = s.session->TakeError(1, -1, s.seq);
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root->seq, producer);
  EXPECT_EQ(s.session->TakeBufferError(sum), root);
}

TEST(SessionLateErrorsTest, AReportDoesNotHideAWriteThatWasQueuedBehindTheError) {
  TestHost host;
  TestPrograms programs(host);
  TestSession s(host, programs);
  const uint64_t a = s.NewBuffer({20, 2, 3, 4});
  host.plugin.Hold(true);
  ASSERT_TRUE(s.Execute(programs.checked, {a}, {}).ok());  // will fail
  s.Inc(a, 1, 1);                                          // waits for it, in another stream
  const uint64_t queued = s.seq;
  host.plugin.RunNext();
  s.session->Pump();
  ASSERT_NE(s.session->TakeError(0, -1, s.seq), nullptr);
  EXPECT_EQ(s.observer->completed(1), queued);
  EXPECT_EQ(s.session->unreported(), 0u);
  host.plugin.Hold(false);
  EXPECT_THAT(s.Read(a), ElementsAre(20, 2, 3, 4));
}

// The error of a's content was reported; stream 1 still waits to start.
class SessionReportedErrorTest : public testing::Test {
 protected:
  void FailAndReport(const std::function<void()>& submit_to_stream_1) {
    host.plugin.Hold(true);
    ASSERT_TRUE(s.Execute(programs.checked, {a}, {}).ok());  // will fail
    s.Add(b, b, 2);
    const uint64_t awaited = s.seq;
    ASSERT_TRUE(s.session->Wait(++s.seq, 1, 2, awaited).ok());
    submit_to_stream_1();
    host.plugin.RunNext();
    s.session->Pump();
    root = s.session->TakeError(0, -1, s.seq);
    ASSERT_NE(root, nullptr);
    EXPECT_LT(s.observer->completed(1), s.seq);
    host.plugin.Hold(false);
    host.plugin.RunNext();
    s.Sync(1);
  }

  TestHost host;
  TestPrograms programs{host};
  TestSession s{host, programs};
  const uint64_t a = s.NewBuffer({20, 2, 3, 4}), b = s.NewBuffer({1, 1, 1, 1});
  DeferredErrorPtr root;
};

TEST_F(SessionReportedErrorTest, AWriteThatStartsAfterTheReportLeavesTheLastGoodContent) {
  FailAndReport([this] { s.Inc(a, 1, 1); });
  EXPECT_EQ(s.session->unreported(), 0u);
  EXPECT_THAT(s.Read(a), ElementsAre(20, 2, 3, 4));
}

TEST_F(SessionReportedErrorTest, AReaderThatStartsAfterTheReportHearsWhyThereIsNothing) {
  TestSession::Reading reading;
  FailAndReport([&] { reading = s.StartRead(a, 1); });
  EXPECT_NE(*reading.failed, 0u);
  EXPECT_EQ(s.session->unreported(), 1u);
  EXPECT_EQ(s.session->TakeError(1, -1, s.seq), root);
}

TEST(SessionLateErrorsTest, AFailedCompileIsADeferredError) {
  TestHost host;
  TestPrograms programs(host);
  TestSession s(host, programs);
  host.compiler.FailNext({absl::StatusCode::kInternal, ErrorKind::kRuntime, "compiler crashed"},
                         true);
  host.plugin.Register(
      "late", {{kVector}, [](const auto& in) { return std::vector<std::vector<char>>{in[0]}; }});
  const uint64_t id = host.Define(Reads("late", 1));
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  ASSERT_TRUE(s.Execute(id, {a}, {++s.last_id}).ok());
  const DeferredErrorPtr error = s.session->TakeError(0, -1, s.seq);
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(error->error.message, HasSubstr("compiler crashed"));
  EXPECT_EQ(error->op, "late");
}

TEST(SessionLateErrorsTest, ACompileThatFailedByAccidentIsTriedAgain) {
  TestHost host;
  TestPrograms programs(host);
  TestSession s(host, programs);
  host.compiler.FailNext({absl::StatusCode::kInternal, ErrorKind::kRuntime, "worker killed"},
                         false);
  host.plugin.Register(
      "late", {{kVector}, [](const auto& in) { return std::vector<std::vector<char>>{in[0]}; }});
  const uint64_t id = host.Define(Reads("late", 1));
  const uint64_t a = s.NewBuffer({1, 2, 3, 4});
  const uint64_t made = ++s.last_id;
  ASSERT_TRUE(s.Execute(id, {a}, {made}).ok());
  EXPECT_THAT(s.Read(made), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(s.session->unreported(), 0u);
}

}  // namespace
}  // namespace neurond
