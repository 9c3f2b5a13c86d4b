// What a client makes of a daemon that answers wrongly, or not to the end.
#include "client/ring/connection.h"

#include <dirent.h>

#include <functional>

#include "client/ring/areas.h"
#include "tests/unit/client_ring/scripted_daemon.h"

namespace neurond::client {
namespace {

using ring::FrameType;

int OpenFds() {
  DIR* directory = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

std::string HelloReply(uint32_t build_id_bytes, const std::string& build_id) {
  return ScriptedDaemon::Frame(
      FrameType::kHelloReply,
      Bytes(ring::HelloReplyFrame{1, 4, 42, 7, build_id_bytes, 0}) + build_id, 0);
}

// --- Hello ---------------------------------------------------------------------------------------

TEST(ConnectionHelloTest, TakesTheAreasInTheirOrder) {
  ScriptedDaemon daemon;
  const Fd ring = Memfd(1), staging = Memfd(2), progress = Memfd(3), event = Memfd(4);
  daemon.Say(HelloReply(4, "beef"), {ring.get(), staging.get(), progress.get(), event.get()});
  Greeting greeting;
  WaitScope wait{WaitHooks{}};
  ASSERT_TRUE(daemon.Connect()->Hello({}, 1000, wait, &greeting).ok());
  EXPECT_EQ(greeting.build_id, "beef");
  EXPECT_EQ(lseek(greeting.ring.get(), 0, SEEK_END), 1);
  EXPECT_EQ(lseek(greeting.staging.get(), 0, SEEK_END), 2);
  EXPECT_EQ(lseek(greeting.progress.get(), 0, SEEK_END), 3);
  EXPECT_EQ(lseek(greeting.event.get(), 0, SEEK_END), 4);
}

TEST(ConnectionHelloTest, AMalformedReplyIsAnErrorAndLeaksNoDescriptor) {
  const Fd file = Memfd(1);
  const std::string good = HelloReply(4, "beef");
  const int before = OpenFds();
  for (int fds : {0, 1, 3, 4, 5, 16}) {
    for (const std::string& reply :
         {good, good.substr(0, good.size() - 1), HelloReply(5, "beef"), HelloReply(3, "beef"),
          HelloReply(0xffffffff, "beef"), ScriptedDaemon::Frame(FrameType::kHelloReply, "x", 0),
          ScriptedDaemon::Frame(FrameType::kBye, "bye", 0), std::string("HTTP/1.1 400 Bad Request"),
          std::string("x")}) {
      ScriptedDaemon daemon;
      daemon.Say(reply, std::vector<int>(fds, file.get()));
      daemon.Die();
      Greeting greeting;
      WaitScope wait{WaitHooks{}};
      const Status status = daemon.Connect()->Hello({}, 1000, wait, &greeting);
      // What comes beyond the four is closed.
      EXPECT_EQ(status.ok(), reply == good && fds >= 4) << fds << " " << reply.size();
    }
    EXPECT_EQ(OpenFds(), before);
  }
}

TEST(ConnectionHelloTest, ARefusalKeepsItsCodeAndWords) {
  ScriptedDaemon daemon;
  daemon.Say(ScriptedDaemon::Frame(FrameType::kHelloReply, "another build", 0, 9));
  Greeting greeting;
  WaitScope wait{WaitHooks{}};
  const Status status = daemon.Connect()->Hello({}, 1000, wait, &greeting);
  EXPECT_EQ(status.code, Code::kFailedPrecondition);
  EXPECT_EQ(status.message, "another build");
}

TEST(AreasTest, AnAreaOfAnotherSizeOrLayoutIsRefused) {
  const Fd ring = RingMemfd(), staging = Memfd(ring::kStagingBytes),
           progress = Memfd(ring::kProgressBytes);
  EXPECT_TRUE(Areas().Map(ring.get(), staging.get(), progress.get()).ok());
  const Fd short_ring = RingMemfd(ring::kRingDataOffset + ring::kRingBytes - 1),
           short_staging = Memfd(ring::kStagingBytes - 4096), empty = Memfd(0),
           zeros = Memfd(ring::kRingDataOffset + ring::kRingBytes);
  const auto message = [&](const Fd& r, const Fd& s, const Fd& p) {
    return Areas().Map(r.get(), s.get(), p.get()).message;
  };
  EXPECT_EQ(message(short_ring, staging, progress), "the daemon's ring area is too small");
  EXPECT_EQ(message(ring, short_staging, progress), "the daemon's staging area is too small");
  EXPECT_EQ(message(ring, staging, empty), "the daemon's progress area is too small");
  EXPECT_EQ(message(zeros, staging, progress), "the daemon's ring header has an unknown layout");
  EXPECT_EQ(Areas().Map(-1, -1, -1).code, Code::kInternal);
}

// --- Requests ------------------------------------------------------------------------------------

struct Question {
  const char* name;
  FrameType reply;
  std::string good;  // a reply's payload
  int lengths;       // how many of its words say how much follows
  std::function<Status(Client&)> ask;
};
void PrintTo(const Question& question, std::ostream* out) { *out << question.name; }

std::vector<Question> Questions() {
  ring::TakeErrorReplyFrame error{};
  error.found = 1;
  error.op_bytes = error.detail_bytes = error.stack_bytes = error.message_bytes = 2;
  const auto take_error = [](Client& c) {
    bool found = false;
    DeviceError taken;
    return c.TakeError(-1, -1, 0, 0, &found, &taken);
  };
  const auto lookup = [](Client& c) {
    uint64_t program = 0;
    std::string meta;
    return c.Lookup("key", &program, &meta);
  };
  const auto define = [](Client& c) {
    uint64_t program = 0;
    return c.Define("key", "meta", "program", &program);
  };
  const auto grant = [](Client& c) { return c.ChangeGrant(0, 1, nullptr, nullptr, nullptr); };
  const auto event_time = [](Client& c) {
    int64_t time = 0;
    return c.EventTime(1, &time);
  };
  const auto devices = [](Client& c) {
    std::vector<DeviceInfo> list;
    return c.Devices(&list);
  };
  return {
      {"TakeError", FrameType::kTakeErrorReply, Bytes(error) + "opdestme", 4, take_error},
      {"Lookup", FrameType::kLookupReply, Bytes(ring::LookupReplyFrame{5, 4, 0}) + "meta", 1,
       lookup},
      {"Define", FrameType::kDefineReply, Bytes(ring::DefineReplyFrame{5}), 0, define},
      {"Grant", FrameType::kGrantReply, Bytes(ring::GrantReplyFrame{1, 2, 3}), 0, grant},
      {"EventTime", FrameType::kEventTimeReply, Bytes(ring::EventTimeReplyFrame{9}), 0, event_time},
      {"Devices", FrameType::kDevicesReply,
       Bytes(ring::DevicesReplyFrame{1, 0}) + Bytes(ring::DeviceFrame{}), 1, devices},
  };
}

class ReplyTest : public ::testing::TestWithParam<Question> {
 protected:
  // What the Client says when the socket says `bytes` and no more.
  static Status Answer(const std::string& bytes) {
    ScriptedDaemon daemon;
    auto client = daemon.ConnectClient();
    daemon.Say(bytes);
    daemon.Die();
    return GetParam().ask(*client);
  }
  static std::string Frame(std::string_view payload, uint32_t request = 1) {
    return ScriptedDaemon::Frame(GetParam().reply, payload, request);
  }
};

TEST_P(ReplyTest, OnlyTheRightLengthIsTaken) {
  const std::string& good = GetParam().good;
  EXPECT_TRUE(Answer(Frame(good)).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Answer(Frame(good.substr(0, size))).code, Code::kInternal) << size;
  }
  EXPECT_EQ(Answer(Frame(good + "x")).code, Code::kInternal);
}

TEST_P(ReplyTest, LengthsWithinThatLieAreRefused) {
  int refused = 0;
  for (size_t at = 0; at + 4 <= GetParam().good.size(); at += 4) {
    std::string lie = GetParam().good;
    std::memset(lie.data() + at, 0xff, 4);
    const Status status = Answer(Frame(lie));
    EXPECT_TRUE(status.ok() || status.code == Code::kInternal) << at << " " << status.message;
    if (!status.ok()) ++refused;
  }
  EXPECT_EQ(refused, GetParam().lengths);
}

TEST_P(ReplyTest, ADaemonThatDiesWithinItsReplyIsGone) {
  const std::string frame = Frame(GetParam().good);
  for (size_t size : {size_t{1}, size_t{23}, size_t{24}, frame.size() - 1}) {
    const Status status = Answer(frame.substr(0, size));
    EXPECT_EQ(status.code, Code::kUnavailable) << size;
    EXPECT_NE(status.message.find("pid"), std::string::npos);
  }
}

TEST_P(ReplyTest, AnAnswerToAnotherQuestionEndsTheConnection) {
  ScriptedDaemon daemon;
  auto client = daemon.ConnectClient();
  daemon.Say(Frame(GetParam().good, 2));
  EXPECT_EQ(GetParam().ask(*client).code, Code::kUnavailable);
  EXPECT_TRUE(client->dead());
  EXPECT_EQ(Answer(ScriptedDaemon::Frame(FrameType::kStatsReply, GetParam().good, 1)).code,
            Code::kUnavailable);
}

TEST_P(ReplyTest, AnErrorKeepsItsCodeAndWords) {
  const Status status = Answer(ScriptedDaemon::Frame(GetParam().reply, "no such thing", 1, 5));
  EXPECT_EQ(status.code, Code::kNotFound);
  EXPECT_EQ(status.message, "no such thing");
}

TEST_P(ReplyTest, ALengthBeyondTheLargestFrameIsNotBelieved) {
  for (uint16_t status : {0, 13}) {
    const ring::FrameHeader header{
        ring::kMagic, static_cast<uint16_t>(GetParam().reply), status, 0xffffffff, 1, 0};
    EXPECT_EQ(Answer(Bytes(header)).code, Code::kUnavailable);
  }
}

TEST_P(ReplyTest, TheDaemonsLastWordsAreTold) {
  const Status status = Answer(ScriptedDaemon::Frame(FrameType::kBye, "out of patience", 0, 3));
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_NE(status.message.find("out of patience"), std::string::npos) << status.message;
}

// Whether the waits of this test's clients are interrupted.
bool interrupt = false;
const WaitHooks kInterruptible{nullptr, nullptr, [] { return interrupt; }};

TEST_P(ReplyTest, AReplyThatNobodyWaitsForAnyMoreIsDropped) {
  if (GetParam().reply == FrameType::kTakeErrorReply) {
    GTEST_SKIP() << "an error is taken once: its reply is waited for";
  }
  ScriptedDaemon daemon;
  auto client = daemon.ConnectClient(kInterruptible);
  interrupt = true;
  EXPECT_EQ(GetParam().ask(*client).code, Code::kCancelled);
  EXPECT_EQ(GetParam().ask(*client).code, Code::kCancelled);
  daemon.Say(Frame("a late answer", 1) + ScriptedDaemon::Frame(GetParam().reply, "no", 2, 5) +
             Frame(GetParam().good, 3));
  interrupt = false;
  EXPECT_TRUE(GetParam().ask(*client).ok());
  daemon.Say(Frame("the same again", 1));
  EXPECT_EQ(GetParam().ask(*client).code, Code::kUnavailable);
}

TEST(InterruptedReadTest, ItsStagingIsUsedAgainOnceTheDaemonIsDoneWithIt) {
  ScriptedDaemon daemon;
  auto client = daemon.ConnectClient(kInterruptible);
  std::string data(16 << 20, '\0');
  const auto read = [&] { return client->Read(0, 1, 0, data.data(), data.size(), 0).code; };
  interrupt = true;
  // More than the staging area holds.
  for (uint64_t i = 0; i < 2 * ring::kStagingBytes / data.size(); ++i) {
    EXPECT_EQ(read(), Code::kCancelled);
  }
  const uint64_t all = ~uint64_t{0};
  ASSERT_EQ(
      pwrite(daemon.progress_fd(), &all, sizeof(all), offsetof(ring::ProgressPage, completed_seq)),
      static_cast<ssize_t>(sizeof(all)));
  EXPECT_EQ(read(), Code::kOk);
}

TEST(InterruptedSubmissionTest, AFullRingIsWaitedForBeforeAnythingBegins) {
  ScriptedDaemon daemon;
  auto client = daemon.ConnectClient(kInterruptible);
  interrupt = true;
  uint64_t records = 0;
  while (client->AwaitRoom().ok()) {
    ASSERT_TRUE(client->Alloc(++records, ring::DType::kF32, 1, 0).ok());
  }
  EXPECT_EQ(client->AwaitRoom().code, Code::kCancelled);
  EXPECT_GT(records, ring::kRingBytes / 2 / sizeof(ring::AllocRecord));
  // What was begun before goes in nevertheless.
  EXPECT_TRUE(client->Alloc(++records, ring::DType::kF32, 1, 0).ok());
}

INSTANTIATE_TEST_SUITE_P(Requests, ReplyTest, ::testing::ValuesIn(Questions()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace neurond::client
