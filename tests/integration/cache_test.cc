// What daemons, sessions and builds share through the caches, and what they must not.
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/integration/daemon_fixture.h"

namespace neurond::client {
namespace {

namespace fs = std::filesystem;

class CacheTest : public DaemonTest {
 protected:
  std::string cache() const { return directory_ + "/cache"; }
  // From here on the daemon has the fake plugin, which this script makes fail.
  void UseScript(const std::string& script) {
    const std::string file = directory_ + "/script";
    std::ofstream(file) << script;
    daemon_args_ = {"--plugin-kind",       "fake", "--script-file", file, "--cache-dir", cache(),
                    "--idle-exit-seconds", "60",   "--workers",     "1"};
  }
  // a + a, or an empty list and the error's text.
  static std::vector<float> Double(Client& client, uint64_t program, const std::vector<float>& a,
                                   std::string* error = nullptr) {
    const uint64_t input = MakeBuffer(client, a);
    const uint64_t inputs[] = {input, input}, outputs[] = {client.NewBufferId()};
    uint64_t seq = 0;
    EXPECT_TRUE(client.Execute(0, program, 0, inputs, outputs, {}, &seq).ok());
    EXPECT_TRUE(client.WaitCompleted(0, seq).ok());
    bool found = false;
    DeviceError device_error;
    EXPECT_TRUE(client.TakeError(0, 0, seq, 0, &found, &device_error).ok());
    if (!found) return ReadBuffer(client, outputs[0], a.size());
    if (error != nullptr) *error = device_error.message;
    return {};
  }
};

TEST_F(CacheTest, AnotherBuildOfTheDaemonMeetsNoOldProgram) {
  uint64_t program = 0;
  std::string meta;
  {
    auto client = Connect();
    ASSERT_NE(client, nullptr);
    ASSERT_TRUE(client->Define("key", "meta", AddProgram(4), &program).ok());
    ASSERT_TRUE(client->Define("no such op", "refused", "", &program).ok());
    EXPECT_EQ(program, 0u);
    EXPECT_EQ(Double(*client, Define(*client, AddProgram(4)), {1, 2, 3, 4}),
              (std::vector<float>{2, 4, 6, 8}));
    Stop(client->daemon_pid());
  }
  {
    auto client = Connect();
    ASSERT_NE(client, nullptr);
    EXPECT_TRUE(client->Lookup("key", &program, &meta).ok());
    EXPECT_TRUE(client->Lookup("no such op", &program, &meta).ok());
    EXPECT_EQ(program, 0u);
    EXPECT_EQ(meta, "refused");
    EXPECT_EQ(Stats(*client)["programs"]["lowerings"], 0);
    Stop(client->daemon_pid());
  }
  daemon_ = OtherBuild();
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->Lookup("key", &program, &meta).code, Code::kNotFound);
  EXPECT_EQ(client->Lookup("no such op", &program, &meta).code, Code::kNotFound);
  EXPECT_EQ(Double(*client, Define(*client, AddProgram(4)), {1, 2, 3, 4}),
            (std::vector<float>{2, 4, 6, 8}));
  const auto stats = Stats(*client);
  EXPECT_EQ(stats["programs"]["lowerings"], 1);
  EXPECT_EQ(stats["programs"]["disk_hits"], 0);
  // The same module for the same plugin: no reason to compile it again.
  EXPECT_EQ(stats["executables"]["compiles"], 0);
  EXPECT_EQ(stats["executables"]["disk_hits"], 1);
}

TEST_F(CacheTest, AnotherBuildOfTheClientMeetsNoOldKey) {
  ConnectOptions options = Options();
  uint64_t program = 0, known = 0;
  std::string meta;
  options.settings = "client_build=one\n";
  auto one = Connect(options);
  ASSERT_NE(one, nullptr);
  ASSERT_TRUE(one->Define("key", "meta", AddProgram(4), &program).ok());
  options.settings = "client_build=two\n";
  auto two = Connect(options);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->Lookup("key", &known, &meta).code, Code::kNotFound);
  ASSERT_TRUE(two->Define("key", "other meta", AddProgram(5), &known).ok());
  ASSERT_TRUE(one->Lookup("key", &known, &meta).ok());
  EXPECT_EQ(known, program);
  EXPECT_EQ(meta, "meta");
}

TEST_F(CacheTest, EveryWaitingSessionHearsOfOneFailedCompile) {
  UseScript("compile * * crash\n");
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect());
  std::vector<std::string> errors(clients.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    ASSERT_NE(clients[i], nullptr);
    threads.emplace_back([&, i] {
      EXPECT_TRUE(Double(*clients[i], Define(*clients[i], AddProgram(4)), {1, 2, 3, 4}, &errors[i])
                      .empty());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("aten.add.Tensor"), std::string::npos) << error;
    EXPECT_NE(error.find("crashed"), std::string::npos) << error;
  }
  EXPECT_EQ(Stats(*clients[0])["executables"]["compiles"], 1);  // of two tries, the second alone
  EXPECT_EQ(Stats(*clients[0])["executables"]["compile_failures"], 1);
  // Not on disk: the next daemon, whose compiler is well, compiles it.
  Stop(clients[0]->daemon_pid());
  UseScript("");
  auto next = Connect();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(Double(*next, Define(*next, AddProgram(4)), {1, 2, 3, 4}),
            (std::vector<float>{2, 4, 6, 8}));
}

TEST_F(CacheTest, ACompileOutlivesTheSessionThatAskedForIt) {
  UseScript("compile * * slow 500\n");
  auto first = Connect(), second = Connect();
  ASSERT_TRUE(first != nullptr && second != nullptr);
  const uint64_t program = Define(*first, AddProgram(4));
  const uint64_t a = MakeBuffer(*first, {1, 2, 3, 4});
  const uint64_t inputs[] = {a, a}, outputs[] = {first->NewBufferId()};
  ASSERT_TRUE(first->Execute(0, program, 0, inputs, outputs, {}, nullptr).ok());
  EXPECT_EQ(Define(*second, AddProgram(4)), program);
  EXPECT_EQ(Stats(*second)["executables"]["compiles"], 0);  // still at it
  first.reset();
  EXPECT_EQ(Double(*second, program, {1, 2, 3, 4}), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(Stats(*second)["executables"]["compiles"], 1);
}

TEST_F(CacheTest, DeletingTheCacheUnderADaemonHarmsNothing) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::error_code ignored;
  for (int n = 1; n <= 6; ++n) {
    uint64_t program = 0;
    ASSERT_TRUE(client->Define("key " + std::to_string(n), "meta", AddProgram(n), &program).ok());
    if (n % 2 == 0) fs::remove_all(cache(), ignored);  // while files come and go
    EXPECT_EQ(Double(*client, program, std::vector<float>(n, 1)), std::vector<float>(n, 2));
    if (n % 3 == 0) fs::remove_all(cache(), ignored);  // while files come and go
  }
  uint64_t program = 0;
  std::string meta;
  EXPECT_TRUE(client->Lookup("key 1", &program, &meta).ok());  // from memory
  EXPECT_EQ(Stats(*client)["executables"]["compiles"], 6);
}

TEST_F(CacheTest, ACacheThatCannotBeWrittenHarmsNothing) {
  std::ofstream(cache()) << "a file where the folder should be";
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(Double(*client, Define(*client, AddProgram(2)), {1, 2}), (std::vector<float>{2, 4}));
  EXPECT_NE(Log().find("cache: cannot write"), std::string::npos);
}

// The kernel lets no file grow, as on a full disk; its signal must not end the daemon.
TEST_F(CacheTest, AFullDiskUnderADaemonHarmsNothing) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const int pid = client->daemon_pid();
  rlimit before;
  ASSERT_EQ(prlimit(pid, RLIMIT_FSIZE, nullptr, &before), 0);
  const rlimit tiny{100, before.rlim_max};
  ASSERT_EQ(prlimit(pid, RLIMIT_FSIZE, &tiny, nullptr), 0);
  for (int n = 1; n <= 3; ++n) {
    uint64_t program = 0;
    ASSERT_TRUE(client->Define("key " + std::to_string(n), "meta", AddProgram(n), &program).ok());
    EXPECT_EQ(Double(*client, program, std::vector<float>(n, 1)), std::vector<float>(n, 2));
  }
  ASSERT_EQ(prlimit(pid, RLIMIT_FSIZE, &before, nullptr), 0);
  EXPECT_EQ(Double(*client, Define(*client, AddProgram(4)), {1, 2, 3, 4}),
            (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(Stats(*client)["executables"]["corrupt_entries"], 0);
}

TEST_F(CacheTest, DamagedFilesAreMadeAgain) {
  uint64_t program = 0;
  std::string meta;
  {
    auto client = Connect();
    ASSERT_NE(client, nullptr);
    ASSERT_TRUE(client->Define("key", "meta", AddProgram(3), &program).ok());
    Double(*client, program, {1, 2, 3});
    Stop(client->daemon_pid());
  }
  int damaged = 0;
  for (const auto& file : fs::recursive_directory_iterator(cache())) {
    if (!file.is_regular_file()) continue;
    const auto size = static_cast<std::streamoff>(file.file_size());
    if (damaged++ % 2 == 0) {
      fs::resize_file(file.path(), static_cast<uintmax_t>(size / 2));
      continue;
    }
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(size / 2);
    const int old = bytes.get();
    bytes.seekp(size / 2);
    bytes.put(static_cast<char>(old ^ 4));
  }
  EXPECT_GE(damaged, 3);  // the Program, its alias, its Executable; the plugin's fingerprint
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->Lookup("key", &program, &meta).code, Code::kNotFound);
  EXPECT_EQ(Double(*client, Define(*client, AddProgram(3)), {1, 2, 3}),
            (std::vector<float>{2, 4, 6}));
  const auto stats = Stats(*client);
  EXPECT_EQ(stats["programs"]["lowerings"], 1);
  EXPECT_EQ(stats["executables"]["compiles"], 1);
  EXPECT_EQ(stats["executables"]["corrupt_entries"], 1);
  EXPECT_NE(Log().find("removed"), std::string::npos);
}

TEST_F(CacheTest, TwoDaemonsShareOneCache) {
  ConnectOptions other = Options();
  other.address = directory_ + "/other.sock";
  std::unique_ptr<Client> clients[] = {Connect(), Connect(other)};
  ASSERT_TRUE(clients[0] != nullptr && clients[1] != nullptr);
  ASSERT_NE(clients[0]->daemon_pid(), clients[1]->daemon_pid());
  std::vector<std::thread> threads;
  for (auto& client : clients) {
    threads.emplace_back([&client] {
      for (int n = 1; n <= 12; ++n) {
        uint64_t program = 0;
        const std::string key = "key " + std::to_string(n);
        EXPECT_TRUE(client->Define(key, "meta", AddProgram(n), &program).ok());
        EXPECT_EQ(Double(*client, program, std::vector<float>(n, 1)), std::vector<float>(n, 2));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& client : clients) {
    EXPECT_EQ(Stats(*client)["executables"]["corrupt_entries"], 0);
    Stop(client->daemon_pid());
  }
  // Whatever either wrote, a third one finds whole.
  auto third = Connect();
  ASSERT_NE(third, nullptr);
  for (int n = 1; n <= 12; ++n) {
    uint64_t program = 0;
    std::string meta;
    ASSERT_TRUE(third->Lookup("key " + std::to_string(n), &program, &meta).ok()) << n;
    EXPECT_EQ(Double(*third, program, std::vector<float>(n, 1)), std::vector<float>(n, 2));
  }
  EXPECT_EQ(Stats(*third)["programs"]["lowerings"], 0);
  EXPECT_EQ(Stats(*third)["executables"]["compiles"], 0);
}

}  // namespace
}  // namespace neurond::client
