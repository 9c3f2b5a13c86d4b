// GrpcServer: the daemon's gRPC front end. DeviceService, ProgramService, health and reflection on a Unix socket, and on a TCP
// address if one is given.
//
// It holds no state of its own but counts: every answer comes from the runtime objects in GrpcServerDeps. Calls run on gRPC's
// threads (synchronous API, at most kGrpcThreadsMax); every handler that waits looks at its call's cancellation and at the drain at
// least every 50 ms, so Shutdown ends by its deadline.
//
// The daemon must hold its lock file first: gRPC replaces a Unix socket that is in the way. This header includes no gRPC.

#ifndef NEUROND_SERVER_GRPC_GRPC_SERVER_H_
#define NEUROND_SERVER_GRPC_GRPC_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/executable/executable_cache.h"
#include "runtime/program/program_store.h"
#include "server/daemon/session_registry.h"

namespace neurond {

struct WorkerCounters {
  int64_t workers = 0, busy = 0, queued = 0, started = 0, crashed = 0, killed = 0;
};

// The daemon's parts. All references must outlive the GrpcServer; all functions may be called from any thread.
struct GrpcServerDeps {
  DeviceSet& devices;
  ProgramStore& programs;
  ExecutableCache& executables;
  SessionRegistry& sessions;
  ProgramStore::Decode decode;              // Program bytes -> Graph (server/wire)
  std::function<WorkerCounters()> workers;  // empty: no worker pool
  std::function<void()> shutdown;           // starts the daemon's drain; returns at once; may be called more than once
  std::string version;
  std::string build_id;
  std::chrono::system_clock::time_point start_time;
  std::vector<std::pair<std::string, std::string>> config;  // effective settings
};

struct GrpcServerOptions {
  std::string unix_path;    // created with mode 0600; empty: none
  std::string tcp_address;  // "127.0.0.1:0" ...; empty: none. Whoever reaches it may compile and execute, but change nothing else
};

// Thread-safety: all methods, from any thread.
// Lifetime: the destructor shuts down with a deadline of 0.
class GrpcServer {
 public:
  virtual ~GrpcServer() = default;
  // Health turns NOT_SERVING; new calls fail with UNAVAILABLE; running calls may end until `deadline` from now, then they are
  // cancelled. Returns when the last handler has returned, at most ~100 ms after the deadline. Idempotent.
  virtual void Shutdown(std::chrono::milliseconds deadline) = 0;
  // 0 if there is no TCP address.
  virtual int tcp_port() const = 0;
};

// UNAVAILABLE names the address that cannot be bound. Changes the process's umask for the moment of binding: call it
// before other threads create files.
absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(GrpcServerDeps deps, GrpcServerOptions options);

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_GRPC_SERVER_H_
