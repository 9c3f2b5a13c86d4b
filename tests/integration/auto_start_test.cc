// Starting, sharing, replacing and ending a daemon that nobody installed.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/integration/daemon_fixture.h"

namespace neurond::client {
namespace {

class AutoStartTest : public DaemonTest {
 protected:
  std::string ProbeCommand() const {
    std::string command = std::string(RING_PROBE) + " " + socket() + " " + daemon_;
    for (const std::string& argument : daemon_args_) command += " '" + argument + "'";
    return command;
  }
  // What `command` prints until nobody holds its stdout any more.
  static std::string Output(const std::string& command) {
    FILE* pipe = popen(command.c_str(), "r");
    std::string text;
    char buffer[256];
    while (fgets(buffer, sizeof(buffer), pipe) != nullptr) text += buffer;
    pclose(pipe);
    return text;
  }
};

TEST_F(AutoStartTest, EightProcessesAtOnceStartOneDaemon) {
  std::string command;
  for (int i = 0; i < 8; ++i) command += ProbeCommand() + " & ";
  const std::string output = Output(command + "wait");
  std::set<std::string> pids;
  int lines = 0;
  size_t at = 0;
  for (size_t end; (end = output.find('\n', at)) != std::string::npos; at = end + 1, ++lines) {
    pids.insert(output.substr(at, end - at));
  }
  EXPECT_EQ(lines, 8) << output;
  EXPECT_EQ(pids.size(), 1u) << output;
  auto client = Connect();  // so that the fixture ends it
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(pids.count(std::to_string(client->daemon_pid())), 1u);
}

TEST_F(AutoStartTest, TheDaemonHoldsNobodysOutput) {
  // Output() reads until every holder of the pipe is gone: with an inherited stdout this would last
  // as long as the daemon.
  const std::string output = Output("x=$(" + ProbeCommand() + "); echo got $x");
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(output, "got " + std::to_string(client->daemon_pid()) + "\n");
}

TEST_F(AutoStartTest, TheDaemonIsDetached) {
  setenv("NEUROND_TEST_SECRET", "1", 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const std::string proc = "/proc/" + std::to_string(client->daemon_pid());
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/cwd"), "/");
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/fd/0"), "/dev/null");
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/fd/2"), directory_ + "/neurond.log");
  EXPECT_NE(getsid(client->daemon_pid()), getsid(0));
  std::ifstream environment(proc + "/environ");
  const std::string text((std::istreambuf_iterator<char>(environment)), {});
  EXPECT_EQ(text.find("NEUROND_TEST_SECRET"), std::string::npos);
  EXPECT_NE(text.find("PATH="), std::string::npos);
}

TEST_F(AutoStartTest, TheLogOfALongLifeIsBounded) {
  const std::string log = directory_ + "/neurond.log", old = directory_ + "/neurond.1.log";
  std::ofstream(log) << "the oldest line\n";
  std::filesystem::resize_file(log, 16 << 20);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_GE(std::filesystem::file_size(old), 16u << 20);
  EXPECT_LT(std::filesystem::file_size(log), 1u << 20);
  EXPECT_NE(Log().find("session 1 opened"), std::string::npos);
  const std::string proc = "/proc/" + std::to_string(client->daemon_pid());
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/fd/2"), log) << "a crash would be told here";
}

TEST_F(AutoStartTest, AnIdleDaemonOfAnotherBuildIsReplaced) {
  ConnectOptions other = Options();
  other.daemon_path = OtherBuild();
  other.build_id = BuildId(other.daemon_path);
  ASSERT_NE(other.build_id, Options().build_id);
  auto old = Connect(other);
  ASSERT_NE(old, nullptr);
  const int old_pid = old->daemon_pid();

  std::unique_ptr<Client> refused;
  const Status status = Client::Connect(Options(), {}, &refused);  // `old` still uses it
  EXPECT_EQ(status.code, Code::kFailedPrecondition);
  for (const std::string& part : {other.build_id, Options().build_id, std::to_string(old_pid),
                                  std::string("neuronctl stop")}) {
    EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
  }
  old.reset();
  ASSERT_TRUE(Eventually(5000, [&] {
    const Status s = Client::Connect(Options(), {}, &refused);
    return s.ok();
  }));
  EXPECT_NE(refused->daemon_pid(), old_pid);
  EXPECT_EQ(refused->daemon_build_id(), Options().build_id);
  EXPECT_TRUE(Eventually(5000, [old_pid] { return !IsAlive(old_pid); }));
  Connect();  // remembers the new one's pid
}

TEST_F(AutoStartTest, AnIdleDaemonEndsAndTheNextUseStartsAnew) {
  daemon_args_.insert(daemon_args_.end(), {"--idle-exit-seconds", "1"});
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const int pid = client->daemon_pid();
  client.reset();
  EXPECT_TRUE(Eventually(10'000, [pid] { return !IsAlive(pid); }));
  EXPECT_NE(access(socket().c_str(), F_OK), 0);
  client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_NE(client->daemon_pid(), pid);
}

TEST_F(AutoStartTest, ADaemonThatCannotStartShowsItsLog) {
  ConnectOptions options = Options();
  options.daemon_args[1] = "/no/such/plugin.so";
  std::unique_ptr<Client> client;
  const Status status = Client::Connect(options, {}, &client);
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_NE(status.message.find("/no/such/plugin.so"), std::string::npos) << status.message;
}

TEST_F(AutoStartTest, NothingIsStartedInADirectoryOpenToOthers) {
  chmod(directory_.c_str(), 0755);
  std::unique_ptr<Client> client;
  const Status status = Client::Connect(Options(), {}, &client);
  EXPECT_EQ(status.code, Code::kFailedPrecondition);
  EXPECT_NE(status.message.find("0700"), std::string::npos) << status.message;
}

// A mistyped address must not cost a file.
TEST_F(AutoStartTest, AFileInTheSocketsPlaceIsLeftAlone) {
  const auto content = [this] {
    std::ifstream file(socket());
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  std::ofstream(socket()) << "a model's weights";
  std::unique_ptr<Client> client;
  const Status status = Client::Connect(Options(), {}, &client);
  EXPECT_EQ(status.code, Code::kFailedPrecondition);
  EXPECT_NE(status.message.find(socket()), std::string::npos) << status.message;
  const std::string output =
      Output(daemon_ + " --socket " + socket() + " --plugin-kind fake --cache-dir '' 2>&1");
  EXPECT_NE(output.find("is not a socket"), std::string::npos) << output;
  EXPECT_EQ(content(), "a model's weights");
}

TEST_F(AutoStartTest, WithoutADaemonPathNoneIsStarted) {
  ConnectOptions options = Options();
  options.daemon_path.clear();
  std::unique_ptr<Client> client;
  EXPECT_EQ(Client::Connect(options, {}, &client).code, Code::kUnavailable);
}

TEST_F(AutoStartTest, ASecondDaemonOnTheSocketRefuses) {
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const std::string output = Output(daemon_ + " --socket " + socket() + " --plugin " +
                                    daemon_args_[1] + " --idle-exit-seconds 1 2>&1; echo rc $?");
  EXPECT_NE(output.find(std::to_string(client->daemon_pid())), std::string::npos) << output;
  EXPECT_NE(output.find("rc 1"), std::string::npos) << output;
  EXPECT_EQ(ReadBuffer(*client, MakeBuffer(*client, {1}), 1), std::vector<float>{1});
}

}  // namespace
}  // namespace neurond::client
