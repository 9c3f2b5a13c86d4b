#include "client/cpp/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/ring/socket_path.h"

namespace neurond::client {
namespace {

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string UnixPath(std::string path) {
  for (const char* prefix : {"unix://", "unix:"}) {
    if (absl::StartsWith(path, prefix)) return path.substr(std::string(prefix).size());
  }
  return path;
}

}  // namespace

absl::StatusOr<std::string> ResolveGrpcAddress(const std::string& address) {
  std::string named = address.empty() ? FromEnvironment("NEURON_RT_GRPC_ADDRESS") : address;
  if (absl::StartsWith(named, "unix:") || absl::StrContains(named, '/')) {
    return absl::StrCat("unix:", std::filesystem::absolute(UnixPath(named)).string());
  }
  if (!named.empty()) return named;
  std::filesystem::path ring = UnixPath(FromEnvironment("NEURON_RT_ADDRESS"));
  if (ring.empty()) {
    ring = ring::DefaultSocketPath();
    const std::string problem = ring::PrivateDirectoryProblem(ring.parent_path().string());
    if (!problem.empty()) return absl::FailedPreconditionError(problem);
  }
  const std::filesystem::path path =
      std::filesystem::absolute(ring).replace_extension(".grpc.sock");
  return absl::StrCat("unix:", path.string());
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy for the web is no way to a daemon
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace neurond::client
