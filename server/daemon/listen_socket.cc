#include "server/daemon/listen_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "proto/ring/socket_path.h"
#include "runtime/base/text.h"
#include "server/daemon/lock_file.h"

namespace neurond {
namespace {

constexpr int kFirstListenFd = 3;  // SD_LISTEN_FDS_START
constexpr int kBacklog = 512;
constexpr int kStartLockMs = 5'000;

absl::StatusOr<Fd> Bind(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(Cat("the socket path ", path, " has ", path.size(),
                                          " bytes; at most ", sizeof(address.sun_path) - 1,
                                          " are possible"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  // Of a daemon that is gone: the caller holds both locks.
  const std::string problem = ring::ClearSocketPath(path);
  if (!problem.empty()) return absl::FailedPreconditionError(problem);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(fd.get(), kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, Cat("cannot listen on ", path));
  }
  return fd;
}

}  // namespace

int InheritedListenFd() {
  const char* count = std::getenv("LISTEN_FDS");
  const char* pid = std::getenv("LISTEN_PID");
  int fds = 0, for_pid = getpid();
  if (count != nullptr && !absl::SimpleAtoi(count, &fds)) fds = 0;
  if (pid != nullptr && !absl::SimpleAtoi(pid, &for_pid)) for_pid = -1;
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_PID");
  if (fds != 1 || for_pid != getpid()) return -1;
  fcntl(kFirstListenFd, F_SETFD, FD_CLOEXEC);
  return kFirstListenFd;
}

absl::StatusOr<ListenSocket> ListenSocket::Open(const std::string& path, int inherited) {
  Fd fd(inherited);
  bool ours = true;
  if (!fd.valid()) {
    absl::StatusOr<LockFile> lock = LockFile::Take(ring::StartLockPath(path), kStartLockMs);
    if (!lock.ok()) return lock.status();
    absl::StatusOr<Fd> bound = Bind(path);
    if (!bound.ok()) return bound.status();
    fd = *std::move(bound);
  } else {
    // systemd binds as itself, outside our directory's rules; a client that started us gives the
    // path to us.
    struct stat lock;
    ours = stat(ring::StartLockPath(path).c_str(), &lock) == 0;
  }
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  ListenSocket socket(path, std::move(fd), ours);
  socket.RememberInode();
  return socket;
}

void ListenSocket::RememberInode() {
  struct stat info;
  if (stat(path_.c_str(), &info) == 0) {
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }
}

bool ListenSocket::PathIsOurs() const {
  struct stat info;
  return ours_ && stat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
         info.st_ino == inode_;
}

void ListenSocket::Unlink() {
  absl::StatusOr<LockFile> lock = LockFile::Take(ring::StartLockPath(path_), kStartLockMs);
  if (lock.ok() && PathIsOurs()) unlink(path_.c_str());
}

bool ListenSocket::UnlinkIfIdle(const std::function<bool()>& still_idle) {
  absl::StatusOr<LockFile> lock = LockFile::Take(ring::StartLockPath(path_), 0);
  if (absl::IsAlreadyExists(lock.status())) return false;  // somebody is about to come
  // Without a lock file the directory is gone or no longer ours, and with it every way to come.
  if (!lock.ok()) return still_idle();
  const std::string aside = path_ + ".closing";
  const bool moved = PathIsOurs() && rename(path_.c_str(), aside.c_str()) == 0;
  if (!still_idle()) {
    if (moved) rename(aside.c_str(), path_.c_str());
    return false;
  }
  if (moved) unlink(aside.c_str());
  return true;
}

}  // namespace neurond
