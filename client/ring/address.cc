#include "client/ring/address.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "proto/ring/socket_path.h"

namespace neurond::client {
namespace {

std::string Absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char directory[4096];
  if (getcwd(directory, sizeof(directory)) == nullptr) return path;
  return std::string(directory) + "/" + path;
}

}  // namespace

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status CheckPrivateDirectory(const std::string& directory) {
  const std::string problem = ring::PrivateDirectoryProblem(directory);
  if (problem.empty()) return {};
  return {Code::kFailedPrecondition, problem};
}

Status DefaultAddress(std::string* path) {
  *path = ring::DefaultSocketPath();
  return CheckPrivateDirectory(DirectoryOf(*path));
}

Status ResolveAddress(const std::string& address, std::string* path) {
  std::string text = address;
  if (text.empty()) {
    const char* named = std::getenv("NEURON_RT_ADDRESS");
    if (named != nullptr) text = named;
  }
  if (text.empty()) return DefaultAddress(path);
  for (const std::string prefix : {"unix://", "unix:"}) {
    if (text.rfind(prefix, 0) == 0) {
      text = text.substr(prefix.size());
      break;
    }
  }
  // Another kind of address is no name for a file, which would be made here without a word.
  const bool host_and_port = text.find('/') == std::string::npos && text.find(':') != text.npos;
  if (host_and_port || text.find("://") != std::string::npos) {
    return {Code::kInvalidArgument,
            "NEURON_RT_ADDRESS: expected the path of a daemon's socket, saw '" + text +
                "'; a ring has no other addresses"};
  }
  *path = Absolute(text);
  return {};
}

Status SocketAddress(const std::string& path, sockaddr_un* address) {
  std::memset(address, 0, sizeof(*address));
  address->sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address->sun_path)) {
    return {Code::kInvalidArgument, "the socket path '" + path + "' has " +
                                        std::to_string(path.size()) + " bytes; expected 1 to " +
                                        std::to_string(sizeof(address->sun_path) - 1)};
  }
  std::memcpy(address->sun_path, path.data(), path.size());
  return {};
}

}  // namespace neurond::client
