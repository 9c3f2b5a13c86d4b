#include "client/ring/address.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace neurond::client {
namespace {

bool IsOurDirectory(const char* path) {
  struct stat info;
  return path != nullptr && path[0] == '/' && stat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == geteuid();
}

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
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return {Code::kFailedPrecondition,
            "cannot make the directory " + directory + ": " + std::strerror(errno)};
  }
  struct stat info;
  if (lstat(directory.c_str(), &info) != 0) {
    return {Code::kFailedPrecondition,
            "cannot look at the directory " + directory + ": " + std::strerror(errno)};
  }
  std::string wrong;
  if (!S_ISDIR(info.st_mode)) {
    wrong = "is not a directory";
  } else if (info.st_uid != geteuid()) {
    wrong = "belongs to user " + std::to_string(info.st_uid) + ", not to us (" +
            std::to_string(geteuid()) + ")";
  } else if ((info.st_mode & 077) != 0) {
    wrong = "is open to other users; expected mode 0700";
  }
  if (wrong.empty()) return {};
  return {Code::kFailedPrecondition, "the socket directory " + directory + " " + wrong};
}

Status DefaultAddress(std::string* path) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string directory = IsOurDirectory(runtime)
                                    ? std::string(runtime) + "/neurond"
                                    : "/tmp/neurond-" + std::to_string(geteuid());
  if (Status status = CheckPrivateDirectory(directory); !status.ok()) return status;
  *path = directory + "/neurond.sock";
  return {};
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
