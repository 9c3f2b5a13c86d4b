// DaemonState: the parts of a running daemon, as its front ends (ring, gRPC) see them. The
// composition root (daemon.h) owns all of them and outlives every front end.
//
// Thread-safety: the struct is immutable once the daemon serves; each part is thread-safe by its
// own contract.

#ifndef NEUROND_SERVER_DAEMON_DAEMON_STATE_H_
#define NEUROND_SERVER_DAEMON_DAEMON_STATE_H_

#include <chrono>
#include <functional>
#include <string>

#include "runtime/device/device.h"
#include "runtime/executable/executable_cache.h"
#include "runtime/program/program_store.h"
#include "server/daemon/session_registry.h"
#include "server/daemon/use_clock.h"

namespace neurond {

struct DaemonState {
  Plugin* plugin = nullptr;
  DeviceSet* devices = nullptr;
  ExecutableCache* cache = nullptr;
  ProgramStore* programs = nullptr;
  SessionRegistry* sessions = nullptr;
  UseClock* use = nullptr;
  ProgramStore::Decode decode_program;  // Program bytes -> Graph

  std::string build_id;  // GNU build id (hex) of this neurond
  std::string version;   // of the project
  std::string socket;    // ring socket path
  std::string grpc_address;
  std::string cache_dir;  // empty: memory only
  std::string log_file;   // empty: stderr
  std::chrono::steady_clock::time_point started;
  // Asks the daemon to drain and exit. Any thread.
  std::function<void(const std::string& reason)> request_stop;
};

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_DAEMON_STATE_H_
