// GrpcServer: the daemon's gRPC front end. DeviceService, ProgramService, health and reflection on
// a Unix socket, and on a TCP address if one is given.
//
// It owns no state but counts: every answer comes from the runtime objects in DaemonState. Calls
// run on gRPC's threads (synchronous API, at most kGrpcThreadsMax); every handler that waits looks
// at its call's cancellation and at the drain at least every kGrpcPollMs, so Shutdown ends by its
// deadline.
//
// This header includes no gRPC.

#ifndef NEUROND_SERVER_GRPC_GRPC_SERVER_H_
#define NEUROND_SERVER_GRPC_GRPC_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/daemon/daemon_state.h"

namespace neurond {

struct WorkerCounters {
  int64_t workers = 0, busy = 0, queued = 0, started = 0, crashed = 0, killed = 0;
};

struct GrpcServerOptions {
  std::string unix_path;    // created with mode 0600; empty: none
  std::string tcp_address;  // "127.0.0.1:0"; empty: none. Who reaches it may compile and execute,
                            // not close or stop
  std::function<WorkerCounters()> workers;  // any thread; empty: no worker pool
};

// Thread-safety: all methods, from any thread.
// Lifetime: `state` and everything it points to outlive the GrpcServer. The destructor shuts down
// with a deadline of 0.
class GrpcServer {
 public:
  virtual ~GrpcServer() = default;
  // Health turns NOT_SERVING; new calls fail with UNAVAILABLE; running calls may end until
  // `deadline` from now, then they are cancelled. Returns when the last handler has returned, at
  // most ~100 ms after the deadline. Idempotent. Not from a handler.
  virtual void Shutdown(std::chrono::milliseconds deadline) = 0;
  // 0 if there is no TCP address.
  virtual int tcp_port() const = 0;
};

// UNAVAILABLE names the address that cannot be bound, FAILED_PRECONDITION what is in the way of the
// Unix socket: it replaces only one that nobody listens on. Changes the process's umask for the
// moment of binding: call it before other threads create files.
absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(const DaemonState& state,
                                                            GrpcServerOptions options);

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_GRPC_SERVER_H_
