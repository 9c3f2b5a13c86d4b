// Starter: finds the daemon of a socket path, or starts one.
//
// Starting: take the start lock (<socket>.start), look once more whether someone listens, bind and
// listen here, spawn neurond with the listening socket as descriptor 3 (LISTEN_FDS, as systemd does
// it), unlock. From the moment of listen() on, everybody else connects and queues in the backlog.
// The daemon detaches itself (--detach); its stdio is /dev/null and neurond.log beside the socket
// (which it rotates), every other descriptor is closed, and its environment is HOME, PATH, TMPDIR,
// XDG_* and NEURON_*.
//
// Thread-safety: one thread per object.

#ifndef NEUROND_CLIENT_RING_STARTER_H_
#define NEUROND_CLIENT_RING_STARTER_H_

#include <chrono>
#include <string>

#include "client/ring/client.h"
#include "client/ring/fd.h"
#include "client/ring/wait_scope.h"

namespace neurond::client {

class Starter {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // `path` is the resolved socket path.
  Starter(const ConnectOptions& options, std::string path);

  // A connected socket, from the running daemon or from one started now. kUnavailable if none runs
  // and none may be started.
  Status Connect(Deadline deadline, WaitScope& wait, Fd* socket);

  // How many daemons this object started.
  int starts() const { return starts_; }
  // What the daemons started here have logged, or the end of that, for messages.
  std::string LogTail() const;

 private:
  // errno of connect(), 0 if connected.
  int TryConnect(Fd* socket) const;
  Status Start(Deadline deadline, WaitScope& wait);
  Status Spawn(int listener);
  Status Listen(Fd* listener) const;
  Status TakeStartLock(Deadline deadline, WaitScope& wait, Fd* lock) const;

  const ConnectOptions& options_;
  const std::string path_;
  const std::string log_path_;
  int starts_ = 0;
  int64_t log_begin_ = 0;  // of what the last daemon started here logs
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_STARTER_H_
