// RingSession: one local client, one thread. Says Hello, then consumes the client's ring and
// answers its requests until the client goes (EOF, or its pidfd fires while a forked child still
// holds the socket), breaks the contract, or is closed.
//
// The thread never waits for a device: what cannot run yet is queued in the runtime Session, and
// while that has too much queued the ring is not read (backpressure on this client alone). When
// there is nothing to do it sleeps in poll().
//
// Lifetime: owned by the RingServer, which joins the thread after `on_end`. The Session dies on the
// thread, before `on_end`. Thread-safety: Start and the destructor belong to the owner; Counters,
// Close and the SessionObserver methods: any thread.

#ifndef NEUROND_SERVER_RING_RING_SESSION_H_
#define NEUROND_SERVER_RING_RING_SESSION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/session/session.h"
#include "server/daemon/daemon_state.h"
#include "server/ring/frame_socket.h"
#include "server/ring/progress_publisher.h"
#include "server/ring/record_applier.h"
#include "server/ring/request_handler.h"
#include "server/ring/shared_areas.h"
#include "server/wire/ring_reader.h"

namespace neurond::ring {

class RingSession final : public LiveSession, private SessionObserver {
 public:
  struct Peer {
    uint32_t uid = 0;
    int pid = 0;  // 0: in another pid namespace, unknown
  };
  RingSession(const DaemonState& state, Fd socket, Peer peer, std::function<void()> on_end);
  ~RingSession() override;

  // RESOURCE_EXHAUSTED: no descriptors or no thread for it; nothing runs then.
  absl::Status Start();
  // After a failed Start, for the last words.
  Fd ReleaseSocket() { return socket_.Release(); }
  bool ended() const { return ended_.load(); }

  SessionCounters Counters() const override;
  void Close(const std::string& reason) override;

 private:
  void Run();
  void Serve();
  // True once the session exists.
  bool Handshake();
  bool OnHello(const wire::FrameParser::Frame& frame);
  bool Greet();
  void OnRetire();
  absl::Status CheckVersions(const wire::Hello& hello) const;

  // Each returns whether there was something to do.
  bool RunMailbox();
  bool ConsumeRing();
  bool ServeRequest();
  bool SpinForWork();
  void Sleep();

  // Polls everything that can wake this thread; takes in what the socket has.
  void Look(int timeout_ms, bool want_ring);
  void ReadSocket();
  bool HeadMoved() const;
  void End(absl::Status why);
  void LogUnreported();

  void OnCompleted(int stream, uint64_t seq) override;
  void OnUnreported(uint64_t count) override;
  void Wake() override;

  const DaemonState& state_;
  const UseClock::Use use_;
  const Peer peer_;
  const std::function<void()> on_end_;
  FrameSocket socket_;
  Fd pid_fd_;
  Fd ring_event_;  // the client writes it
  Fd own_event_;   // completions, Close
  std::thread thread_;

  std::unique_ptr<SharedAreas> areas_;
  std::unique_ptr<ProgressPublisher> progress_;
  std::unique_ptr<wire::RingReader> reader_;
  std::unique_ptr<RecordApplier> applier_;
  std::unique_ptr<RequestHandler> requests_;
  std::unique_ptr<Session> session_;
  uint64_t id_ = 0;
  int device_count_ = 0;

  bool over_ = false;  // the client is gone or wrong: leave the loop
  bool peer_closed_ = false;
  bool throttled_ = false;  // the Session has too much queued
  int batches_since_look_ = 0;
  absl::Status why_;

  std::atomic<bool> wake_{false};
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> ended_{false};
  std::mutex close_mutex_;
  std::string close_reason_;
};

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_RING_SESSION_H_
