#include "server/grpc/socket_name.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "runtime/base/text.h"
#include "server/ring/fd.h"

namespace neurond {
namespace {

std::string OwnName(const std::string& path) {
  if (path.empty()) return path;
  return std::filesystem::path(path).replace_filename(Cat(".grpc-", getpid())).string();
}

// 0: somebody listens there.
int TryConnect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno;
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return 0;
  return errno == EAGAIN ? 0 : errno;  // a full backlog is somebody's
}

}  // namespace

SocketName::SocketName(std::string path) : path_(std::move(path)), own_(OwnName(path_)) {}

absl::Status SocketName::Check() const {
  if (path_.empty()) return absl::OkStatus();
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (std::max(path_.size(), own_.size()) > kLongest) {
    return absl::InvalidArgumentError(
        Cat("gRPC socket path: expected at most ", kLongest, " bytes, saw ", path_));
  }
  struct stat info;
  if (lstat(path_.c_str(), &info) != 0) return absl::OkStatus();  // gRPC says what else is wrong
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        Cat("gRPC socket: ", path_, " exists and is not a socket; it is left as it is"));
  }
  if (const int error = TryConnect(path_); error != ECONNREFUSED && error != ENOENT) {
    return absl::FailedPreconditionError(
        Cat("gRPC socket: ", path_, " is in use",
            error == 0 ? std::string(": somebody listens there") : Cat(": ", strerror(error))));
  }
  return absl::OkStatus();
}

absl::Status SocketName::Publish() {
  if (path_.empty()) return absl::OkStatus();
  struct stat info;
  if (stat(own_.c_str(), &info) != 0 || rename(own_.c_str(), path_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, Cat("gRPC socket: cannot rename ", own_, " to ", path_));
  }
  device_ = info.st_dev;
  inode_ = info.st_ino;
  return absl::OkStatus();
}

void SocketName::Remove() {
  struct stat info;
  const bool ours = inode_ != 0 && lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
                    info.st_ino == inode_;
  if (ours) unlink(path_.c_str());
  inode_ = 0;
}

}  // namespace neurond
