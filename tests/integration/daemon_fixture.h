// A real daemon on a temporary socket, started by the client as a user's first `import torch`
// would.
//
// CMake names the daemon and its plugin (DAEMON_UNDER_TEST, PLUGIN_UNDER_TEST). The daemon ends
// with the fixture.

#ifndef NEUROND_TESTS_INTEGRATION_DAEMON_FIXTURE_H_
#define NEUROND_TESTS_INTEGRATION_DAEMON_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "client/ring/client.h"

namespace neurond::client {

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest();
  ~DaemonTest() override;

  ConnectOptions Options() const;
  // Connects, starting the daemon if need be; remembers its pid for the end.
  std::unique_ptr<Client> Connect();
  std::unique_ptr<Client> Connect(const ConnectOptions& options);
  std::string socket() const { return directory_ + "/d.sock"; }
  std::string Log() const;
  // Path of a copy of the daemon with another build id.
  std::string OtherBuild() const;
  // Ends it and waits until it is gone.
  static void Stop(int pid);
  // {"programs": {...}, ...}: what `neuronctl stats --json` prints.
  static nlohmann::json Stats(Client& client);

  static bool IsAlive(int pid);
  // Polls `condition` for at most `ms`.
  static bool Eventually(int ms, const std::function<bool()>& condition);

  std::string directory_;
  std::vector<std::string> daemon_args_;
  std::string daemon_;

 private:
  std::set<int> pids_;
};

// Serialized neurond.v1.Program: c = a + b over float32[elements].
std::string AddProgram(int64_t elements);

// Defines `bytes` and returns the id; fails the test if that is refused.
uint64_t Define(Client& client, const std::string& bytes);

// A float32 Buffer with these values on device 0.
uint64_t MakeBuffer(Client& client, const std::vector<float>& values);
std::vector<float> ReadBuffer(Client& client, uint64_t buffer, size_t elements);

}  // namespace neurond::client

#endif  // NEUROND_TESTS_INTEGRATION_DAEMON_FIXTURE_H_
