// TestDaemon: the parts of a daemon that gRPC serves, in this process: a real plugin, session code
// and cache, compiles on a thread instead of in workers.

#ifndef NEUROND_TESTS_UNIT_GRPC_TEST_DAEMON_H_
#define NEUROND_TESTS_UNIT_GRPC_TEST_DAEMON_H_

#include <memory>
#include <string>

#include "plugins/registry/registry.h"
#include "runtime/executable/compiler.h"
#include "server/daemon/daemon_state.h"
#include "server/grpc/grpc_server.h"

namespace neurond {

class TestDaemon {
 public:
  explicit TestDaemon(const PluginConfig& plugin);
  ~TestDaemon();

  DaemonState& state() { return state_; }
  SessionRegistry& sessions() { return sessions_; }
  GrpcServer& server() { return *server_; }
  std::string unix_address() const { return "unix:" + directory_ + "/grpc.sock"; }
  std::string tcp_address() const { return "127.0.0.1:" + std::to_string(server_->tcp_port()); }
  int stops() const { return stops_; }

 private:
  std::string directory_;
  std::unique_ptr<Plugin> plugin_;
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<ExecutableCache> cache_;
  std::unique_ptr<ProgramStore> programs_;
  SessionRegistry sessions_;
  UseClock use_;
  std::atomic<int> stops_{0};
  DaemonState state_;
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace neurond

#endif  // NEUROND_TESTS_UNIT_GRPC_TEST_DAEMON_H_
