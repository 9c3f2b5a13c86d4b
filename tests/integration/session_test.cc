// What one client sees of a real daemon: submission, transfers, errors, the end of either side.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "neurond/v1/program.pb.h"
#include "tests/integration/daemon_fixture.h"

namespace neurond::client {
namespace {

TEST_F(DaemonTest, AnAddGoesThereAndBack) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->device_count(), 2);
  const uint64_t program = Define(*client, AddProgram(4));
  const uint64_t a = MakeBuffer(*client, {1, 2, 3, 4}), b = MakeBuffer(*client, {10, 20, 30, 40});
  const uint64_t inputs[] = {a, b}, outputs[] = {client->NewBufferId()};
  uint64_t seq = 0;
  ASSERT_TRUE(client->Execute(0, program, 0, inputs, outputs, {}, &seq).ok());
  EXPECT_EQ(client->last_seq(0), seq);
  EXPECT_EQ(ReadBuffer(*client, outputs[0], 4), (std::vector<float>{11, 22, 33, 44}));
  EXPECT_GE(client->completed_seq(0), seq);
  EXPECT_EQ(client->unreported(), 0u);
}

TEST_F(DaemonTest, AThousandDependentCommandsKeepTheirOrder) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const uint64_t program = Define(*client, AddProgram(16));
  const uint64_t one = MakeBuffer(*client, std::vector<float>(16, 1));
  uint64_t sum = MakeBuffer(*client, std::vector<float>(16, 0));
  for (int i = 0; i < 1000; ++i) {
    const uint64_t inputs[] = {sum, one}, outputs[] = {client->NewBufferId()};
    ASSERT_TRUE(client->Execute(0, program, 0, inputs, outputs, {}, nullptr).ok());
    client->Free(sum);
    sum = outputs[0];
  }
  EXPECT_EQ(ReadBuffer(*client, sum, 16), std::vector<float>(16, 1000));
}

TEST_F(DaemonTest, ManyChunksMakeOneUploadAndOneDownload) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::vector<float> values(9'000'001);  // no multiple of any chunk
  std::iota(values.begin(), values.end(), 0.f);
  const uint64_t buffer = MakeBuffer(*client, values);
  EXPECT_EQ(ReadBuffer(*client, buffer, values.size()), values);
  // A part, written and read at odd places.
  const std::vector<float> part(700'000, -2);
  ASSERT_TRUE(client->Write(0, buffer, 4 * 1001, part.data(), 4 * part.size(), 0, nullptr).ok());
  std::copy(part.begin(), part.end(), values.begin() + 1001);
  std::vector<float> read(800'000);
  ASSERT_TRUE(client->Read(0, buffer, 4 * 999, read.data(), 4 * read.size(), 0).ok());
  EXPECT_TRUE(std::equal(read.begin(), read.end(), values.begin() + 999));
}

TEST_F(DaemonTest, ThreadsShareOneClient) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const uint64_t program = Define(*client, AddProgram(1000));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto value = static_cast<float>(t * 100 + i);
        const uint64_t a = MakeBuffer(*client, std::vector<float>(1000, value));
        const uint64_t inputs[] = {a, a}, outputs[] = {client->NewBufferId()};
        if (!client->Execute(0, program, 0, inputs, outputs, {}, nullptr).ok()) ++wrong;
        if (ReadBuffer(*client, outputs[0], 1000) != std::vector<float>(1000, 2 * value)) ++wrong;
        client->Free(a);
        client->Free(outputs[0]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(DaemonTest, ASecondProcessMeetsTheKnownProgram) {
  auto first = Connect();
  ASSERT_NE(first, nullptr);
  uint64_t program = 0, known = 0;
  std::string meta;
  EXPECT_EQ(first->Lookup("key", &known, &meta).code, Code::kNotFound);
  ASSERT_TRUE(first->Define("key", "meta", AddProgram(4), &program).ok());
  auto second = Connect();
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second->session(), first->session());
  ASSERT_TRUE(second->Lookup("key", &known, &meta).ok());
  EXPECT_EQ(known, program);
  EXPECT_EQ(meta, "meta");
}

TEST_F(DaemonTest, AnOpWithoutLoweringIsRefusedByName) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::string bytes = AddProgram(4);
  const std::string from = "aten.add.Tensor", to = "aten.zzz.Tensor";
  bytes.replace(bytes.rfind(from), from.size(), to);
  uint64_t program;
  const Status status = client->Define("", "", bytes, &program);
  EXPECT_EQ(status.code, Code::kUnimplemented) << status.message;
  EXPECT_NE(status.message.find(to), std::string::npos) << status.message;
  EXPECT_EQ(client->Define("", "", "no program at all", &program).code, Code::kInvalidArgument);
}

// A text beyond what a client takes would end its connection.
TEST_F(DaemonTest, AnErrorOfAnyLengthIsAnAnswer) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  v1::Program parsed;
  ASSERT_TRUE(parsed.ParseFromString(AddProgram(4)));
  parsed.mutable_nodes(0)->set_op(std::string(3'000'000, 'o'));
  uint64_t program;
  const Status status = client->Define("", "", parsed.SerializeAsString(), &program);
  EXPECT_EQ(status.code, Code::kUnimplemented) << status.message;
  EXPECT_NE(status.message.find("bytes more"), std::string::npos) << status.message;
  EXPECT_FALSE(client->dead());
  EXPECT_EQ(ReadBuffer(*client, MakeBuffer(*client, {1}), 1), std::vector<float>{1});
}

TEST_F(DaemonTest, AClientThatBreaksTheContractEndsAlone) {
  auto good = Connect();
  auto bad = Connect();
  ASSERT_TRUE(good != nullptr && bad != nullptr);
  const uint64_t outputs[] = {bad->NewBufferId()};
  ASSERT_TRUE(bad->Execute(0, 4711, 0, {}, outputs, {}, nullptr).ok());
  const Status status = bad->WaitCompleted(0, bad->last_seq(0));
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_NE(status.message.find("4711"), std::string::npos) << status.message;
  EXPECT_TRUE(bad->dead());
  EXPECT_EQ(bad->Alloc(bad->NewBufferId(), ring::DType::kF32, 1, 0).code, Code::kUnavailable);
  EXPECT_EQ(ReadBuffer(*good, MakeBuffer(*good, {5}), 1), std::vector<float>{5});
}

TEST_F(DaemonTest, AKilledDaemonIsSeenAndReplaced) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const int first = client->daemon_pid();
  MakeBuffer(*client, {1});
  kill(first, SIGKILL);
  std::string json;
  EXPECT_EQ(client->Stats(&json).code, Code::kUnavailable);
  EXPECT_EQ(client->WaitCompleted(0, client->last_seq(0) + 1).code, Code::kUnavailable);
  EXPECT_TRUE(client->dead());
  client->Free(1);  // no-op
  auto next = Connect();
  ASSERT_NE(next, nullptr);
  EXPECT_NE(next->daemon_pid(), first);
  EXPECT_EQ(ReadBuffer(*next, MakeBuffer(*next, {7}), 1), std::vector<float>{7});
}

TEST_F(DaemonTest, AWaiterThatSleepsSeesTheDaemonDie) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  MakeBuffer(*client, {1});
  Status status;
  std::thread waiter([&] { status = client->WaitCompleted(0, client->last_seq(0) + 1); });
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // until it sleeps; either way must pass
  kill(client->daemon_pid(), SIGKILL);
  waiter.join();
  EXPECT_EQ(status.code, Code::kUnavailable);
}

TEST_F(DaemonTest, SettingsChooseDevicesAndTag) {
  ConnectOptions options = Options();
  options.settings = "NEURON_RT_VISIBLE_CORES=1\nNEURON_PROCESS_TAG=rank one";
  auto client = Connect(options);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->device_count(), 1);
  std::string json;
  ASSERT_TRUE(client->Stats(&json).ok());
  const auto stats = nlohmann::json::parse(json);
  EXPECT_EQ(stats["sessions"][0]["tag"], "rank one");
  options.settings = "NEURON_RT_VISIBLE_CORES=1-2";
  std::unique_ptr<Client> refused;
  const Status status = Client::Connect(options, {}, &refused);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_NE(status.message.find("1-2"), std::string::npos) << status.message;
}

TEST_F(DaemonTest, AForkedChildIsRefusedAndHarmsNobody) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const uint64_t buffer = MakeBuffer(*client, {3});
  const pid_t child = fork();
  if (child == 0) {
    const Status status = client->Alloc(client->NewBufferId(), ring::DType::kF32, 1, 0);
    client->Free(buffer);
    client.reset();
    _exit(status.code == Code::kFailedPrecondition ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ReadBuffer(*client, buffer, 1), std::vector<float>{3});
}

TEST_F(DaemonTest, AKilledClientIsForgottenEvenIfItsChildHoldsTheSocket) {
  auto watcher = Connect();
  ASSERT_NE(watcher, nullptr);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t victim = fork();
  if (victim == 0) {
    std::unique_ptr<Client> own;
    if (!Client::Connect(Options(), {}, &own).ok()) _exit(1);
    const std::vector<float> values(1 << 20, 1.f);
    const uint64_t buffer = own->NewBufferId();
    if (!own->Alloc(buffer, ring::DType::kF32, values.size(), 0).ok()) _exit(1);
    if (!own->Write(0, buffer, 0, values.data(), values.size() * 4, 0, nullptr).ok()) _exit(1);
    if (!own->WaitCompleted(0, own->last_seq(0)).ok()) _exit(1);
    const pid_t holder = fork();
    if (holder == 0) {
      pause();
      _exit(0);
    }
    if (write(ready[1], &holder, sizeof(holder)) != sizeof(holder)) _exit(1);
    pause();
    _exit(0);
  }
  pid_t holder = 0;
  ASSERT_EQ(read(ready[0], &holder, sizeof(holder)), static_cast<ssize_t>(sizeof(holder)));
  const auto sessions = [&] {
    std::string json;
    EXPECT_TRUE(watcher->Stats(&json).ok());
    const auto stats = nlohmann::json::parse(json);
    return std::pair(stats["sessions"].size(),
                     stats["devices"][0]["physical_bytes"].get<int64_t>());
  };
  EXPECT_EQ(sessions().first, 2u);
  EXPECT_GE(sessions().second, 4 << 20);
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  EXPECT_TRUE(Eventually(1000, [&] { return sessions() == std::pair<size_t, int64_t>(1, 0); }));
  EXPECT_TRUE(IsAlive(holder));
  kill(holder, SIGKILL);
}

TEST_F(DaemonTest, TermDrainsAndTakesTheSocketAway) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const int pid = client->daemon_pid();
  const uint64_t program = Define(*client, AddProgram(4));
  const uint64_t a = MakeBuffer(*client, {1, 2, 3, 4});
  const uint64_t inputs[] = {a, a}, outputs[] = {client->NewBufferId()};
  ASSERT_TRUE(client->Execute(0, program, 0, inputs, outputs, {}, nullptr).ok());
  kill(pid, SIGTERM);
  EXPECT_TRUE(Eventually(10'000, [pid] { return !IsAlive(pid); }));
  EXPECT_NE(access(socket().c_str(), F_OK), 0);
  const Status status = client->WaitCompleted(0, client->last_seq(0) + 1);
  EXPECT_NE(status.message.find("stopping"), std::string::npos) << status.message;
}

}  // namespace
}  // namespace neurond::client
