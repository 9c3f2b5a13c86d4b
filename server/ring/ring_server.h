// RingServer: accepts local clients on a listening Unix socket and owns their RingSessions.
//
// A client must run as the daemon's user, or as root; the kernel says who it is (SO_PEERCRED)
// before it has said anything. Who cannot be served is told why, in place of the answer to Hello.
// While the process has no descriptors left, clients wait in the backlog.
//
// Thread-safety: the loop thread. Sessions run on their own threads and report their end through a
// uv_async. Lifetime: Stop, then run the loop until `sessions()` is 0, then Close, then run the
// loop once more and destroy.

#ifndef NEUROND_SERVER_RING_RING_SERVER_H_
#define NEUROND_SERVER_RING_RING_SERVER_H_

#include <uv.h>

#include <functional>
#include <list>
#include <memory>

#include "absl/status/status.h"
#include "server/daemon/daemon_state.h"
#include "server/ring/fd.h"
#include "server/ring/ring_session.h"

namespace neurond::ring {

class RingServer {
 public:
  // `listener`: bound, listening. `on_empty` runs on the loop when the last connection has ended.
  RingServer(uv_loop_t* loop, const DaemonState& state, Fd listener,
             std::function<void()> on_empty);
  ~RingServer();

  absl::Status Start();
  // Takes what waits in the backlog; returns how many connections that were.
  int AcceptWaiting();
  // Accepts nobody any more and closes the listening socket.
  void Stop();
  // Closes what it has on the loop.
  void Close();
  // Ends every connection, also those that have no session yet.
  void EndAll(const std::string& reason);

  int sessions() const { return static_cast<int>(sessions_.size()); }

 private:
  void Accept(Fd socket);
  static void Refuse(Fd socket, int pid, absl::Status why);
  void Poll();
  // Leaves the backlog alone for a while: `error` does not pass at once.
  void Pause(int error);
  void Reap();

  uv_loop_t* const loop_;
  const DaemonState& state_;
  Fd listener_;
  const std::function<void()> on_empty_;
  std::list<std::unique_ptr<RingSession>> sessions_;
  uv_poll_t poll_{};
  uv_async_t reap_{};
  uv_timer_t retry_{};
  bool polling_ = false;
  bool short_of_descriptors_ = false;  // and said so
};

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_RING_SERVER_H_
