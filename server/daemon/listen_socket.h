// ListenSocket: the ring socket's path and its listening descriptor, either inherited (LISTEN_FDS,
// from a client that starts us or from systemd) or bound here.
//
// Whoever binds or unlinks the path holds the start lock meanwhile. A path that by then belongs to
// another daemon is left alone.
//
// Thread-safety: one thread.

#ifndef NEUROND_SERVER_DAEMON_LISTEN_SOCKET_H_
#define NEUROND_SERVER_DAEMON_LISTEN_SOCKET_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/ring/fd.h"

namespace neurond {

// Descriptor 3 if LISTEN_FDS hands one to this process, else -1. Removes the variables from the
// environment. Must be asked before
// --detach forks: LISTEN_PID, where it is set, names the process that was started.
int InheritedListenFd();

class ListenSocket {
 public:
  // `inherited`: from InheritedListenFd.
  static absl::StatusOr<ListenSocket> Open(const std::string& path, int inherited);

  // The descriptor, non-blocking. Once.
  Fd TakeFd() { return std::move(fd_); }

  // Takes the path away, so that nobody new comes.
  void Unlink();
  // Takes the path away and asks `still_idle`, which accepts what is queued; puts the path back if
  // it says no. True: it is gone.
  bool UnlinkIfIdle(const std::function<bool()>& still_idle);

 private:
  ListenSocket(std::string path, Fd fd, bool ours)
      : path_(std::move(path)), fd_(std::move(fd)), ours_(ours) {}
  void RememberInode();
  bool PathIsOurs() const;

  std::string path_;
  Fd fd_;
  bool ours_;  // false: systemd made it and keeps it
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_LISTEN_SOCKET_H_
