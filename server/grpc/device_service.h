// DeviceService of neurond.v1: what operators see and steer. Its only state is the number of
// watchers.
//
// Thread-safety: handlers run on gRPC's threads, many at once. Lifetime: outlives the grpc::Server;
// `state` outlives it.

#ifndef NEUROND_SERVER_GRPC_DEVICE_SERVICE_H_
#define NEUROND_SERVER_GRPC_DEVICE_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "server/daemon/daemon_state.h"
#include "server/grpc/drain_signal.h"
#include "server/grpc/grpc_server.h"

namespace grpc {
class Service;
}

namespace neurond {

struct RemoteCounts {  // of ProgramService
  std::atomic<int64_t> compiles{0}, executes{0}, refused{0}, active{0};
  std::atomic<int64_t> bytes_received{0}, bytes_sent{0};
};

// Watchers end when `drain` is set.
std::unique_ptr<grpc::Service> MakeDeviceService(const DaemonState& state,
                                                 std::function<WorkerCounters()> workers,
                                                 const RemoteCounts& remote, DrainSignal& drain);

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_DEVICE_SERVICE_H_
