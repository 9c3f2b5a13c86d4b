// Where a daemon's gRPC server is, and a channel to it.
//
// Thread-safety: functions over the environment; a grpc::Channel may be used from any thread.

#ifndef NEUROND_CLIENT_CPP_CHANNEL_H_
#define NEUROND_CLIENT_CPP_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace neurond::client {

// "unix:/path" or "host:port" for `address` ("", "/path", "unix:/path", "host:port"). Empty:
// NEURON_RT_GRPC_ADDRESS, else neurond.grpc.sock beside the ring socket neurond.sock which
// NEURON_RT_ADDRESS or the per-user default names. FAILED_PRECONDITION: the per-user directory is
// not ours or open to others.
absl::StatusOr<std::string> ResolveGrpcAddress(const std::string& address);

// Connects at the first call. `address` as ResolveGrpcAddress returned it. No TLS.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address);

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_CPP_CHANNEL_H_
