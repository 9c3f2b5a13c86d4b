// Connection: the socket to the daemon. Says Hello, then carries requests and replies.
//
// Any number of requests may be under way; the daemon answers in their order. Whoever waits reads
// for the others too. Callers enter their WaitScope before.
//
// Thread-safety: Request and the accessors, from any thread. Hello belongs to the connecting
// thread. Errors: once a call returned kUnavailable the connection is over, and so is every later
// call.

#ifndef NEUROND_CLIENT_RING_CONNECTION_H_
#define NEUROND_CLIENT_RING_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "client/ring/client.h"
#include "client/ring/fd.h"
#include "client/ring/wait_scope.h"

namespace neurond::client {

struct Greeting {
  ring::HelloReplyFrame reply;
  std::string build_id;
  Fd ring, staging, progress, event;
};

class Connection {
 public:
  explicit Connection(Fd socket);

  // kUnavailable with `refused` false: the daemon went away before it answered.
  // kFailedPrecondition: another build or ABI.
  Status Hello(const ConnectOptions& options, int timeout_ms, WaitScope& wait, Greeting* greeting);
  // Asks a daemon of another build to end. Ok: it ends, and the socket was closed by it.
  Status Retire(int timeout_ms, WaitScope& wait);

  // Sends `parts` as one payload and returns the reply's payload. A reply with a status becomes
  // that Status. `wait`: may give up the wait for the reply (kCancelled), which is dropped when it
  // comes; nullptr: nobody may.
  Status Request(ring::FrameType type, uint64_t after_seq,
                 std::initializer_list<std::string_view> parts, WaitScope* wait,
                 std::string* reply);
  // No reply.
  void SendBye();

  // Looks whether the daemon is still there; cheap enough for every slice of a wait.
  bool Alive();
  // After Alive() said no or a call failed with kUnavailable.
  Status DeathStatus();
  void set_daemon_pid(int pid) { daemon_pid_ = pid; }
  bool dead() const { return dead_.load(std::memory_order_relaxed); }

 private:
  struct Frame {
    ring::FrameHeader header;
    std::string payload;
  };
  bool SendFrame(const ring::FrameHeader& header, std::initializer_list<std::string_view> parts);
  // `fds`: receives up to four descriptors that come with the frame.
  bool ReceiveFrame(Frame* frame, Fd* fds);
  bool ReceiveExactly(void* data, size_t bytes, Fd* fds);
  // Reads one frame, if one comes within a slice, and keeps it for whom it answers. False: a slice
  // has passed. Ends the connection if that is over.
  bool ReceiveReplyLocked(bool* signalled);
  void Die(const std::string& why);
  void SetReceiveTimeout(int ms);
  // Until there is something to receive, the timeout is over, or the wait is interrupted.
  Status AwaitReply(int timeout_ms, WaitScope& wait);

  Fd socket_;
  std::mutex mutex_;  // sending and receiving; never held for more than a slice without traffic
  uint32_t next_request_ = 1;
  std::map<uint32_t, std::optional<Frame>> replies_;  // by request under way: its reply, once here
  std::set<uint32_t> given_up_;                       // requests whose replies are dropped
  std::atomic<bool> dead_{false};
  std::mutex reason_mutex_;
  std::string reason_;
  int daemon_pid_ = 0;
  bool timed_out_ = false;
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_CONNECTION_H_
