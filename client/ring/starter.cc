#include "client/ring/starter.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "client/ring/address.h"
#include "client/ring/limits.h"
#include "proto/ring/socket_path.h"

extern char** environ;

namespace neurond::client {
namespace {

Status Failed(const std::string& what, int error) {
  return {Code::kUnavailable, what + ": " + std::strerror(error)};
}

// What a daemon may inherit: where things are and how it is configured, nothing of one user's
// shell.
std::vector<std::string> DaemonEnvironment() {
  static constexpr std::string_view kKept[] = {"HOME=", "PATH=", "TMPDIR=", "XDG_", "NEURON_"};
  std::vector<std::string> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    for (std::string_view prefix : kKept) {
      if (std::string_view(*entry).substr(0, prefix.size()) == prefix) kept.emplace_back(*entry);
    }
  }
  kept.emplace_back("LISTEN_FDS=1");
  return kept;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Owns what posix_spawn wants described.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  void Describe(int listener, const std::string& log_path) {
    constexpr int kListenFd = 3;
    // Not blocking: a pipe in the log's place is an error, not a wait for its reader.
    constexpr int kLogFlags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK;
    posix_spawn_file_actions_adddup2(&actions, listener, kListenFd);  // also clears CLOEXEC
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), kLogFlags, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions, kListenFd + 1);
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
};

}  // namespace

Starter::Starter(const ConnectOptions& options, std::string path)
    : options_(options), path_(std::move(path)), log_path_(DirectoryOf(path_) + "/neurond.log") {}

int Starter::TryConnect(Fd* socket_out) const {
  sockaddr_un address;
  if (!SocketAddress(path_, &address).ok()) return ENAMETOOLONG;
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  int rc;
  do {
    rc = connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) return errno;
  ucred peer;
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return errno;
  if (peer.uid != geteuid() && peer.uid != 0) return EPERM;
  *socket_out = std::move(fd);
  return 0;
}

Status Starter::Connect(Deadline deadline, WaitScope& wait, Fd* socket) {
  sockaddr_un address;
  if (Status status = SocketAddress(path_, &address); !status.ok()) return status;
  for (;;) {
    const int error = TryConnect(socket);
    if (error == 0) return {};
    if (error == EPERM) {
      return {Code::kPermissionDenied, "the daemon at " + path_ + " runs as another user"};
    }
    if (error != ENOENT && error != ECONNREFUSED)
      return Failed("cannot connect to " + path_, error);
    if (options_.daemon_path.empty()) {
      return {Code::kUnavailable, "no neurond listens on " + path_ + " and none may be started"};
    }
    if (starts_ >= kStartsMax) {
      return {Code::kUnavailable, "neurond does not stay up on " + path_ + "; the end of " +
                                      log_path_ + ":\n" + LogTail()};
    }
    if (Status status = Start(deadline, wait); !status.ok()) return status;
  }
}

Status Starter::Start(Deadline deadline, WaitScope& wait) {
  if (Status status = CheckPrivateDirectory(DirectoryOf(path_)); !status.ok()) {
    return {status.code,
            "no neurond listens on " + path_ + ", and none is started: " + status.message};
  }
  Fd lock;
  if (Status status = TakeStartLock(deadline, wait, &lock); !status.ok()) return status;
  Fd other;
  if (TryConnect(&other) == 0) return {};  // someone was faster; this probe just closes again
  Fd listener;
  if (Status status = Listen(&listener); !status.ok()) return status;
  ++starts_;
  Status status = Spawn(listener.get());
  if (!status.ok()) unlink(path_.c_str());
  return status;
}

Status Starter::TakeStartLock(Deadline deadline, WaitScope& wait, Fd* lock) const {
  const std::string name = ring::StartLockPath(path_);
  lock->Reset(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock->valid()) return Failed("cannot open " + name, errno);
  while (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Failed("cannot lock " + name, errno);
    if (std::chrono::steady_clock::now() > deadline) {
      return {Code::kDeadlineExceeded, "another process holds the start lock " + name};
    }
    if (Status status = wait.Interrupted(false); !status.ok()) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {};
}

Status Starter::Listen(Fd* listener) const {
  sockaddr_un address;
  if (Status status = SocketAddress(path_, &address); !status.ok()) return status;
  listener->Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener->valid()) return Failed("cannot make a socket", errno);
  // Of a dead daemon: nobody answered, and we hold the start lock.
  const std::string problem = ring::ClearSocketPath(path_);
  if (!problem.empty()) return {Code::kFailedPrecondition, problem};
  if (bind(listener->get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Failed("cannot bind " + path_, errno);
  }
  chmod(path_.c_str(), 0600);
  if (listen(listener->get(), kListenBacklog) != 0)
    return Failed("cannot listen on " + path_, errno);
  return {};
}

Status Starter::Spawn(int listener) {
  struct stat log;
  log_begin_ = stat(log_path_.c_str(), &log) == 0 ? log.st_size : 0;
  SpawnPlan plan;
  plan.Describe(listener, log_path_);
  std::vector<std::string> arguments = {options_.daemon_path, "--detach", "--socket", path_,
                                        "--log-file",         log_path_};
  arguments.insert(arguments.end(), options_.daemon_args.begin(), options_.daemon_args.end());
  std::vector<std::string> environment = DaemonEnvironment();
  std::vector<char*> argv = Pointers(arguments), envp = Pointers(environment);
  pid_t pid;
  const int error = posix_spawn(&pid, options_.daemon_path.c_str(), &plan.actions, &plan.attributes,
                                argv.data(), envp.data());
  if (error != 0) {
    return Failed("cannot start " + options_.daemon_path + " with the log " + log_path_, error);
  }
  // The daemon forks once more and its first process ends at once, so that it is nobody's child
  // here.
  int status;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {};
}

std::string Starter::LogTail() const {
  std::ifstream log(log_path_, std::ios::binary | std::ios::ate);
  if (!log) return "";
  const int64_t size = log.tellg();
  const int64_t from = std::max(size - kLogTailBytes, std::min(size, log_begin_));
  log.seekg(from);
  std::string text(static_cast<size_t>(size - from), '\0');
  log.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

}  // namespace neurond::client
