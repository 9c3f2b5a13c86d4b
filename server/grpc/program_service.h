// ProgramService of neurond.v1: compile and execute for remote clients. Its only state is counts.
//
// Thread-safety: handlers run on gRPC's threads, many at once. Lifetime: outlives the grpc::Server;
// `state` outlives it.

#ifndef NEUROND_SERVER_GRPC_PROGRAM_SERVICE_H_
#define NEUROND_SERVER_GRPC_PROGRAM_SERVICE_H_

#include <memory>

#include "server/daemon/daemon_state.h"
#include "server/grpc/device_service.h"
#include "server/grpc/drain_signal.h"

namespace neurond {

// New calls are refused once `drain` is set.
std::unique_ptr<grpc::Service> MakeProgramService(const DaemonState& state, RemoteCounts& counts,
                                                  DrainSignal& drain);

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_PROGRAM_SERVICE_H_
