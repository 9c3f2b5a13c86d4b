// A whole RingSession against clients that lie, die and change their memory while it is read. Every
// test ends with RingFixture's look at what is left: nothing.
#include "server/ring/ring_session.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "runtime/base/limits.h"
#include "server/ring/limits.h"
#include "tests/unit/ring/ring_fixture.h"

namespace neurond::ring {
namespace {

using ::testing::HasSubstr;

class RingSessionTest : public RingFixture {};

uint16_t Code(absl::StatusCode code) { return static_cast<uint16_t>(code); }

TEST_F(RingSessionTest, ServesAClientThatKeepsTheContract) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  const float values[] = {1, 2, 3, 4};
  std::memcpy(client_->staging(), values, sizeof(values));
  const auto failed = [this] {
    return reinterpret_cast<uint64_t*>(client_->staging() + 64 + ReadStatusOffset(16));
  };
  *failed() = 7;  // of an earlier Read that failed
  ExecuteRecord execute{};
  execute.program = host_.programs.inc;
  execute.input_count = execute.word_count = 1;
  client_->Push(
      RecordBytes(AllocOf(1), RecordType::kAlloc, 1) +
      RecordBytes(WriteOf(1), RecordType::kWrite, 2) +
      RecordBytes(execute, RecordType::kExecute, 3, Bytes(uint64_t{1}) + Bytes(int64_t{5})) +
      RecordBytes(ReadOf(1, 64), RecordType::kRead, 4) +
      RecordBytes(EventRecord{{}, 9}, RecordType::kRecord, 5));
  EXPECT_EQ(client_->Ask(FrameType::kEventTime, Bytes(EventTimeFrame{9}), 5).header.status, 0);
  float read[4];
  std::memcpy(read, client_->staging() + 64, sizeof(read));
  EXPECT_THAT(read, ::testing::ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(*failed(), 0u);
  client_->Send(RawClient::FrameBytes(FrameType::kBye, ""));
  Join();
}

// --- Hello ---------------------------------------------------------------------------------------

TEST_F(RingSessionTest, AHelloOfAnotherAbiOrBuildIsRefusedByName) {
  const auto reply = client_->Hello({kAbiMax + 1, kAbiMax + 1, 1, 0, 0});
  EXPECT_EQ(reply.header.status, Code(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(reply.payload, HasSubstr("speaks ring ABI"));
  Join();
  EXPECT_TRUE(client_->Receive().closed);
}

TEST_F(RingSessionTest, AHelloOfAnotherBuildIsRefusedByName) {
  const auto reply = client_->Hello({kAbiMin, kAbiMax, 1, 4, 0}, "cafe");
  EXPECT_EQ(reply.header.status, Code(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(reply.payload, ::testing::AllOf(HasSubstr("cafe"), HasSubstr("beef")));
}

TEST_F(RingSessionTest, AHelloWhoseLengthsLieIsRefused) {
  const auto reply = client_->Hello({kAbiMin, kAbiMax, 1, 0xffffffff, 0xffffffff}, "A=1");
  EXPECT_EQ(reply.header.status, Code(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(reply.payload, HasSubstr("Hello frame"));
}

TEST_F(RingSessionTest, SettingsThatCannotBeUsedAreRefused) {
  const std::string text = "NEURON_RT_VISIBLE_CORES=5";
  const auto reply =
      client_->Hello({kAbiMin, kAbiMax, 1, 0, static_cast<uint32_t>(text.size())}, text);
  EXPECT_EQ(reply.header.status, Code(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(reply.payload, HasSubstr(text.substr(0, 23)));
}

TEST_F(RingSessionTest, NothingIsServedBeforeHello) {
  const auto reply = client_->Ask(FrameType::kStats);
  EXPECT_EQ(reply.header.status, Code(absl::StatusCode::kInvalidArgument));
  Join();
  EXPECT_TRUE(client_->Receive().closed);
}

TEST_F(RingSessionTest, AHugeHelloIsRefusedBeforeItIsRead) {
  client_->Send(Bytes(FrameHeader{kMagic, static_cast<uint16_t>(FrameType::kHello), 0,
                                  static_cast<uint32_t>(kFrameBytesMax / 2), 1, 0}));
  Join();
  EXPECT_TRUE(client_->Receive().closed);
}

TEST_F(RingSessionTest, ForeignBytesEndTheConnection) {
  client_->Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Join();
  EXPECT_TRUE(client_->Receive().closed);
}

TEST_F(RingSessionTest, APeerMayDieWithinItsHello) {
  client_->Send(RawClient::FrameBytes(FrameType::kHello, "half").substr(0, 26));
  client_->Close();
  Join();
}

TEST_F(RingSessionTest, ARetiringClientStopsADaemonWithoutSessions) {
  EXPECT_EQ(client_->Ask(FrameType::kRetire).header.status, 0);
  client_->Close();
  Join();
  EXPECT_EQ(host_.stop_reason, "replaced by another build");
}

// --- The ring ------------------------------------------------------------------------------------

class RingHeadTest : public RingFixture, public ::testing::WithParamInterface<uint64_t> {};

TEST_P(RingHeadTest, AHeadThatFitsNoTailEndsTheSession) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  client_->Push(RecordBytes(AllocOf(1), RecordType::kAlloc, 1) +
                RecordBytes(AllocOf(2), RecordType::kAlloc, 2));
  ASSERT_EQ(client_->Ask(FrameType::kDevices, "", 2).header.status, 0);  // both are consumed
  client_->SetHead(GetParam());
  EXPECT_THAT(client_->LastWords(), HasSubstr("head"));
}

INSTANTIATE_TEST_SUITE_P(Heads, RingHeadTest,
                         ::testing::Values(0,                    // moved backwards
                                           40,                   // to a record consumed already
                                           83,                   // no multiple of 8
                                           88,                   // within a header
                                           80 + kRingBytes + 8,  // beyond what the ring holds
                                           ~uint64_t{0} - 7));

TEST_F(RingSessionTest, ATailThatTheClientMovesIsNotRead) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  uint64_t seq = 0;
  for (uint64_t lie : {uint64_t{0}, uint64_t{1} << 20, ~uint64_t{0}}) {
    client_->ring().tail.store(lie);
    client_->ring().magic = 0;
    client_->ring().data_bytes = 1 << 30;
    ++seq;
    client_->Push(RecordBytes(AllocOf(seq), RecordType::kAlloc, seq));
    EXPECT_EQ(client_->Ask(FrameType::kDevices, "", seq).header.status, 0);
    EXPECT_EQ(client_->ring().tail.load(), client_->head());
  }
}

struct BadRecord {
  const char* name;
  std::string bytes;  // follows Alloc of Buffer 1, of 4 float32
  const char* words;  // in the Bye
};
void PrintTo(const BadRecord& bad, std::ostream* out) { *out << bad.name; }

template <class Record, class Change>
std::string Changed(Record record, RecordType type, Change change) {
  change(record);
  return RecordBytes(record, type, 2);
}

std::vector<BadRecord> BadRecords() {
  const auto alloc = [](auto change) { return Changed(AllocOf(2), RecordType::kAlloc, change); };
  const auto write = [](auto change) { return Changed(WriteOf(1), RecordType::kWrite, change); };
  const auto read = [](auto change) { return Changed(ReadOf(1, 0), RecordType::kRead, change); };
  const auto execute = [](auto change) {
    return Changed(ExecuteRecord{}, RecordType::kExecute, change);
  };
  std::string short_header = RecordBytes(FreeRecord{{}, 1}, RecordType::kFree, 2);
  short_header[0] = 8;
  const std::string kept = RecordBytes(FreeRecord{{}, 1}, RecordType::kFree, 2);
  return {
      {"AHeaderShorterThanItself", short_header, "of 8 bytes"},
      {"ALengthBeyondTheHead", Bytes(RecordHeader{1 << 16, 3, 0, 2}) + Bytes(uint64_t{1}),
       "of 65536 bytes"},
      {"AGapInTheSequence", RecordBytes(FreeRecord{{}, 1}, RecordType::kFree, 3),
       "expected sequence"},
      {"ANumberUsedTwice", RecordBytes(FreeRecord{{}, 1}, RecordType::kFree, 1),
       "expected sequence"},
      {"AnUnknownType", RecordBytes(FreeRecord{{}, 1}, static_cast<RecordType>(99), 2), "type 99"},
      {"TheReservedType", RecordBytes(FreeRecord{{}, 1}, RecordType::kCollective, 2), "Collective"},
      {"PaddingInTheMiddle", RecordBytes(FreeRecord{{}, 1}, RecordType::kPad, 0), "padding"},
      {"AStreamOutOfRange", RecordBytes(FreeRecord{{}, 1}, RecordType::kFree, 2, "", kStreamsMax),
       "stream 256"},
      {"FreeOfAnUnknownBuffer", RecordBytes(FreeRecord{{}, 4711}, RecordType::kFree, 2), "4711"},
      {"FreeTwice",
       RecordBytes(FreeManyRecord{{}, 2, 0}, RecordType::kFreeMany, 2,
                   Bytes(uint64_t{1}) + Bytes(uint64_t{1})),
       "no Buffer 1"},
      {"AllocOfAnIdInUse", alloc([](auto& r) { r.buffer = 1; }), "exists already"},
      {"AllocOnAnUnknownDevice", alloc([](auto& r) { r.device = 200; }), "not device 200"},
      {"AllocOfMoreElementsThanThereAre", alloc([](auto& r) { r.elements = uint64_t{1} << 62; }),
       "elements"},
      {"AllocBeyondTheDevice", alloc([](auto& r) { r.elements = uint64_t{1} << 33; }),
       "out of memory"},
      {"WriteBeyondStaging", write([](auto& r) { r.staging_offset = kStagingBytes - 8; }),
       "staging"},
      {"WriteBeyondItsBuffer", write([](auto& r) { r.buffer_offset = 8; }), "leaves Buffer 1"},
      {"WriteOfHalfATransferAsTheLast", write([](auto& r) { r.bytes = 8; }), "without a gap"},
      {"WriteThatOverflows", write([](auto& r) { r.buffer_offset = INT64_MAX - 15; }),
       "of a transfer of 16"},
      {"ReadBeyondItsBuffer", read([](auto& r) { r.buffer_offset = 1; }), "leaves Buffer 1"},
      {"ReadIntoTheEndOfStaging", read([](auto& r) { r.staging_offset = kStagingBytes - 16; }),
       "staging"},
      {"ReadOfMoreThanStaging", read([](auto& r) { r.bytes = ~uint64_t{0}; }), "staging"},
      {"CopyToItsOwnKindOnly", RecordBytes(CopyRecord{{}, 1, 99, 0}, RecordType::kCopy, 2),
       "no Buffer 99"},
      {"WaitForItself", RecordBytes(WaitRecord{{}, 2, 0, {}}, RecordType::kWait, 2), "cannot wait"},
      {"WaitForAnUnknownStream", RecordBytes(WaitRecord{{}, 1, 9999, {}}, RecordType::kWait, 2),
       "9999"},
      {"ExecuteOfAnUnknownProgram", execute([](auto& r) { r.program = 4711; }), "4711"},
      {"ExecuteWithCountsThatLie", execute([](auto& r) { r.input_count = 0xffffffff; }),
       "do not fill"},
      {"LargeBeyondStaging",
       RecordBytes(LargeRecord{{}, kStagingBytes - 8, 16}, RecordType::kLarge, 2), "staging"},
      {"LargeOfNothing", RecordBytes(LargeRecord{{}, 0, 0}, RecordType::kLarge, 2), "staging"},
      {"LargeOverAnotherRecord", RecordBytes(LargeRecord{{}, 0, 24}, RecordType::kLarge, 2),
       "is another"},
  };
}

class BadRecordTest : public RingFixture, public ::testing::WithParamInterface<BadRecord> {};

TEST_P(BadRecordTest, EndsTheSessionAndIsNamed) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  client_->Push(RecordBytes(AllocOf(1), RecordType::kAlloc, 1) + GetParam().bytes);
  EXPECT_THAT(client_->LastWords(), HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(Records, BadRecordTest, ::testing::ValuesIn(BadRecords()),
                         [](const auto& info) { return info.param.name; });

TEST_F(RingSessionTest, ALargeRecordDoesNotStandForALargeOne) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  const std::string inner = RecordBytes(LargeRecord{{}, 0, 32}, RecordType::kLarge, 1);
  std::memcpy(client_->staging(), inner.data(), inner.size());
  client_->Push(RecordBytes(LargeRecord{{}, 0, inner.size()}, RecordType::kLarge, 1));
  EXPECT_THAT(client_->LastWords(), HasSubstr("is another"));
}

// Whatever mix of old and new bytes the session copied, it checks and uses that copy.
TEST_F(RingSessionTest, RecordsMayChangeWhileTheyAreRead) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  client_->Push(RecordBytes(AllocOf(1), RecordType::kAlloc, 1));
  ASSERT_EQ(client_->Ask(FrameType::kDevices, "", 1).header.status, 0);
  // Behind each Large record stands a FreeMany of 1,000 ids, which all change without a pause.
  constexpr uint32_t kIds = 1000;
  const auto inner = [](uint64_t seq, uint32_t count) {
    return RecordBytes(FreeManyRecord{{}, count, 0}, RecordType::kFreeMany, seq,
                       std::string(8 * kIds, '\0'));
  };
  const uint64_t bytes = inner(2, kIds).size();
  std::atomic<bool> stop = false;
  std::thread changer([&] {
    auto* words = reinterpret_cast<volatile uint64_t*>(client_->staging());
    for (uint64_t round = 0; !stop; ++round) {
      for (uint64_t i = 0; i < bytes / 8; ++i) words[i] = round % 3 == 0 ? ~uint64_t{0} : round;
      const std::string good = inner(2, round % 2 == 0 ? kIds : kIds + 1);
      std::memcpy(client_->staging(), good.data(), good.size());
    }
  });
  client_->Push(RecordBytes(LargeRecord{{}, 0, bytes}, RecordType::kLarge, 2));
  EXPECT_THAT(client_->LastWords(),
              ::testing::AnyOf(HasSubstr("is another"), HasSubstr("no Buffer"),
                               HasSubstr("do not fill"), HasSubstr("malformed")));
  stop = true;
  changer.join();
}

// --- Backpressure
// ---------------------------------------------------------------------------------

TEST_F(RingSessionTest, ASessionWithTooMuchQueuedLeavesTheRingAloneUntilItIsDone) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  constexpr uint64_t kExecutes = kSessionBacklogMax + 500;
  uint64_t seq = 2;
  client_->Push(RecordBytes(AllocOf(1), RecordType::kAlloc, 1) +
                RecordBytes(WriteOf(1), RecordType::kWrite, 2));
  ASSERT_EQ(client_->Ask(FrameType::kDevices, "", seq).header.status, 0);
  host_.host.plugin.Hold(true);
  ExecuteRecord execute{};
  execute.program = host_.programs.inc;
  execute.input_count = execute.word_count = 1;
  // One more, so that the last batch of records would end beyond the limit.
  std::string records = RecordBytes(AllocOf(2), RecordType::kAlloc, ++seq);
  for (uint64_t i = 0; i < kExecutes; ++i) {
    records +=
        RecordBytes(execute, RecordType::kExecute, ++seq, Bytes(uint64_t{1}) + Bytes(int64_t{1}));
  }
  client_->Push(records);
  const auto backlog = [this] { return host_.registry.List().at(0).backlog; };
  while (backlog() < kSessionBacklogMax) std::this_thread::yield();
  // The session looks at the ring before each answer.
  for (int i = 0; i < 3; ++i) ASSERT_EQ(client_->Ask(FrameType::kDevices).header.status, 0);
  EXPECT_EQ(backlog(), kSessionBacklogMax);
  EXPECT_LT(client_->ring().tail.load(), client_->head());
  while (client_->ring().tail.load() != client_->head() || backlog() > 0) {
    if (!host_.host.plugin.RunNext()) std::this_thread::yield();
  }
  host_.host.plugin.Hold(false);
  client_->Push(RecordBytes(ReadOf(1, 64), RecordType::kRead, ++seq));
  ASSERT_EQ(client_->Ask(FrameType::kDevices, "", seq).header.status, 0);
  float read[4];
  std::memcpy(read, client_->staging() + 64, sizeof(read));
  EXPECT_EQ(read[3] - read[0], 0);
  EXPECT_EQ(read[0], static_cast<float>(kExecutes));
}

TEST_F(RingSessionTest, AClientThatReadsNoRepliesIsServedNoMoreRequests) {
  constexpr int kRequests = 400;  // their replies are more than socket and session hold
  std::atomic<int> served = 0;
  host_.state.decode_program = [&served](std::string_view) -> absl::StatusOr<Graph> {
    ++served;
    return absl::InvalidArgumentError(std::string(200'000, 'x'));  // the longest reply
  };
  ASSERT_EQ(client_->Hello().header.status, 0);
  std::string requests;  // at once: a socket holds few small ones, and nobody may read them
  for (int i = 0; i < kRequests; ++i) {
    requests += RawClient::FrameBytes(FrameType::kDefine, Bytes(DefineFrame{0, 0, 1}) + "p");
  }
  client_->Send(requests);
  while (served == 0) std::this_thread::yield();
  // With each record that it takes the session looks at its requests once more.
  for (uint64_t seq = 1; seq <= 2 * kRequests; ++seq) {
    client_->Push(RecordBytes(AllocOf(seq), RecordType::kAlloc, seq));
    while (client_->ring().tail.load() != client_->head()) std::this_thread::yield();
  }
  EXPECT_LT(served, kRequests);
  for (int i = 0; i < kRequests; ++i) EXPECT_FALSE(client_->Receive().closed);
  EXPECT_EQ(served, kRequests);
}

// --- The socket ----------------------------------------------------------------------------------

TEST_F(RingSessionTest, APeerMayDieWithinAFrame) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  client_->Push(RecordBytes(AllocOf(1), RecordType::kAlloc, 1) +
                RecordBytes(WriteOf(1), RecordType::kWrite, 2));
  const std::string frame = RawClient::FrameBytes(FrameType::kLookup, std::string(1000, 'x'));
  client_->Send(std::string_view(frame).substr(0, 500));
  client_->Close();
  Join();
}

TEST_F(RingSessionTest, APeerMayDieWithinAnUpload) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  WriteRecord half = WriteOf(1, 4096);
  half.bytes = 64;
  half.flags = 0;
  client_->Push(RecordBytes(AllocOf(1, 1024), RecordType::kAlloc, 1) +
                RecordBytes(half, RecordType::kWrite, 2));
  ASSERT_EQ(client_->Ask(FrameType::kDevices, "", 2).header.status, 0);
  client_->Close();
  Join();
}

TEST_F(RingSessionTest, APeerMayDieWithoutReadingItsReplies) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  const std::string ask = RawClient::FrameBytes(FrameType::kStats, "");
  // More than the socket and the session keep: then it stops reading, and the sender would block.
  ASSERT_EQ(fcntl(client_->fd(), F_SETFL, O_NONBLOCK), 0);
  for (int i = 0; i < 20000; ++i) client_->Send(ask);
  client_->Close();
  Join();
}

TEST_F(RingSessionTest, AFrameTooLargeEndsTheSession) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  client_->Send(
      Bytes(FrameHeader{kMagic, static_cast<uint16_t>(FrameType::kDefine), 0, 0xffffffff, 1, 0}));
  EXPECT_THAT(client_->LastWords(), HasSubstr("a frame of 4294967295 bytes"));
}

TEST_F(RingSessionTest, AFrameThatIsNoRequestEndsTheSession) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  client_->Send(RawClient::FrameBytes(FrameType::kHello, ""));
  EXPECT_THAT(client_->LastWords(), HasSubstr("unexpected frame of type 1"));
}

TEST_F(RingSessionTest, ARequestThatFollowsWhatWasNeverPushedEndsTheSession) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  client_->Send(RawClient::FrameBytes(FrameType::kDevices, "", 12));
  EXPECT_THAT(client_->LastWords(), HasSubstr("seq 12"));
}

TEST_F(RingSessionTest, AMalformedRequestIsAnsweredAndTheSessionGoesOn) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  for (FrameType type : {FrameType::kLookup, FrameType::kDefine, FrameType::kGrant,
                         FrameType::kTakeError, FrameType::kEventTime}) {
    EXPECT_EQ(client_->Ask(type, "xyz").header.status, Code(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(client_->Ask(FrameType::kDevices).header.status, 0);
}

TEST_F(RingSessionTest, CloseSaysWhy) {
  ASSERT_EQ(client_->Hello().header.status, 0);
  ASSERT_EQ(client_->Ask(FrameType::kDevices).header.status, 0);
  host_.registry.CloseAll("the operator said so");
  EXPECT_EQ(client_->LastWords(), "the operator said so");
  Join();
}

}  // namespace
}  // namespace neurond::ring
