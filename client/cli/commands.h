// The commands of neuronctl. Each asks the daemon, prints to standard output and returns the exit
// code; errors go to standard error in one line.
//
// Thread-safety: one thread.

#ifndef NEUROND_CLIENT_CLI_COMMANDS_H_
#define NEUROND_CLIENT_CLI_COMMANDS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "neurond/v1/device_service.grpc.pb.h"

namespace neurond::cli {

// Exit codes. A usage error is 2.
inline constexpr int kExitOk = 0;
inline constexpr int kExitRefused = 1;  // the daemon answered with an error
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;  // nothing answers at the address
inline constexpr int kExitNotHealthy =
    4;  // health: not serving. stop: still running after the timeout

struct Options {
  std::string address;  // resolved
  bool json = false;
  bool colour = false;
  int timeout_s = 30;  // of the whole command, watching excepted
};

class Commands {
 public:
  explicit Commands(Options options);
  ~Commands();

  int Devices();
  int WatchDevices(int interval_ms);
  int Sessions();
  int CloseSession(uint64_t id);
  int CacheList();
  int CacheClear();
  int Stats();
  int Health();
  int Info();
  int Stop();

 private:
  int Fail(const grpc::Status& status) const;
  void PrintDevices(const google::protobuf::RepeatedPtrField<v1::Device>& devices) const;
  void PrintSessions(const google::protobuf::RepeatedPtrField<v1::Session>& sessions) const;
  void PrintCounters(const v1::GetCountersResponse& counters) const;

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::DeviceService::Stub> stub_;
};

}  // namespace neurond::cli

#endif  // NEUROND_CLIENT_CLI_COMMANDS_H_
