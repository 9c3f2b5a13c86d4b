#include "server/ring/ring_session.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <chrono>
#include <cstring>
#include <system_error>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "server/ring/limits.h"

namespace neurond::ring {
namespace {

using Clock = std::chrono::steady_clock;

Fd OpenPid(int pid) {
  return pid > 0 ? Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) : Fd();
}

void Signal(const Fd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(event.get(), &one, sizeof(one));
}

void Clear(const Fd& event) {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(event.get(), &count, sizeof(count));
}

}  // namespace

RingSession::RingSession(const DaemonState& state, Fd socket, Peer peer,
                         std::function<void()> on_end)
    : state_(state),
      use_(*state.use),
      peer_(peer),
      on_end_(std::move(on_end)),
      socket_(std::move(socket)),
      pid_fd_(OpenPid(peer.pid)),
      ring_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      own_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

RingSession::~RingSession() {
  if (thread_.joinable()) thread_.join();
}

absl::Status RingSession::Start() {
  if (!ring_event_.valid() || !own_event_.valid()) {
    return absl::ResourceExhaustedError("the daemon has no descriptors left for a session");
  }
  try {  // std::thread reports a limit on threads or memory this way
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        Cat("the daemon cannot start a thread for a session: ", error.what()));
  }
  return absl::OkStatus();
}

void RingSession::Run() {
  pthread_setname_np(pthread_self(), "ring-session");
  if (Handshake()) Serve();
  ended_.store(true);
  on_end_();  // nothing after this: the owner may join
}

void RingSession::Serve() {
  while (!over_) {
    bool worked = RunMailbox();
    worked |= ConsumeRing();
    if (over_) break;
    if (++batches_since_look_ >= kBatchesPerLook) Look(0, false);
    worked |= ServeRequest();
    if (worked || over_ || SpinForWork()) continue;
    Sleep();
  }
  LogUnreported();
  state_.sessions->Remove(id_);
  if (!why_.ok()) {
    spdlog::warn("session {} (pid {}) ended: {}", id_, peer_.pid, std::string(why_.message()));
    socket_.SendError(nullptr, FrameType::kBye, why_);
  }
  session_.reset();
  progress_->Ended();
  shutdown(socket_.fd(), SHUT_RDWR);  // a waiter that Ended() woke looks at the socket next
  spdlog::info("session {} (pid {}) closed", id_, peer_.pid);
}

bool RingSession::RunMailbox() {
  if (closing_.load()) {
    std::lock_guard lock(close_mutex_);
    End(absl::CancelledError(close_reason_));
    return true;
  }
  if (!wake_.load() || !wake_.exchange(false)) return false;
  session_->Pump();
  return true;
}

bool RingSession::ConsumeRing() {
  const int64_t backlog = session_->backlog();
  throttled_ = backlog >= kSessionBacklogMax || (throttled_ && backlog > kSessionBacklogLow);
  if (throttled_) return false;
  const uint64_t head = areas_->ring().head.load(std::memory_order_acquire);
  if (head == reader_->tail()) return false;
  int count = 0;
  bool more = true;
  while (more) {
    absl::StatusOr<std::span<const std::byte>> bytes = reader_->Next(head);
    if (!bytes.ok()) {
      End(bytes.status());
      break;
    }
    if (bytes->empty()) break;
    RecordHeader h;
    std::memcpy(&h, bytes->data(), sizeof(h));
    absl::Status status = applier_->Apply(*bytes);
    if (!status.ok()) {
      End(std::move(status));
      break;
    }
    // A chunk of an upload frees staging that the client may be waiting for.
    const bool publish = h.type == static_cast<uint16_t>(RecordType::kWrite);
    more = ++count < kRecordBatch && !publish && session_->backlog() < kSessionBacklogMax;
  }
  progress_->Consumed(reader_->tail(), reader_->last_seq());
  return true;
}

bool RingSession::ServeRequest() {
  if (!socket_.in().HasFrame() || socket_.unsent_bytes() > kUnsentBytesMax) return false;
  const wire::FrameParser::Frame frame = socket_.in().Front();
  const auto type = static_cast<FrameType>(frame.header.type);
  if (type == FrameType::kBye) {
    over_ = true;
    return true;
  }
  if (!RequestHandler::IsRequest(type)) {
    End(absl::InvalidArgumentError(Cat("unexpected frame of type ", frame.header.type)));
    return true;
  }
  if (reader_->last_seq() < frame.header.after_seq) {
    // The client pushes before it asks: what the request follows is in the ring, unless the client
    // is wrong.
    if (throttled_ || HeadMoved()) return false;
    End(absl::InvalidArgumentError(
        Cat("a request follows seq ", frame.header.after_seq, ", which was never pushed")));
    return true;
  }
  absl::StatusOr<std::string> reply = requests_->Handle(type, frame.payload);
  const auto reply_type = static_cast<FrameType>(frame.header.type + 1);
  if (reply.ok()) {
    socket_.SendReply(&frame.header, reply_type, *reply);
  } else {
    socket_.SendError(&frame.header, reply_type, reply.status());
  }
  socket_.in().Pop();
  return true;
}

bool RingSession::HeadMoved() const {
  return areas_->ring().head.load(std::memory_order_acquire) != reader_->tail();
}

bool RingSession::SpinForWork() {
  if (progress_->TakeWoke()) return false;  // the client is about to run, maybe on this core
  const auto end = Clock::now() + std::chrono::nanoseconds(kSpinNs);
  do {
    if ((!throttled_ && HeadMoved()) || wake_.load(std::memory_order_relaxed)) return true;
  } while (Clock::now() < end);
  return false;
}

void RingSession::Sleep() {
  RingHeader& ring = areas_->ring();
  sleeping_.store(true);
  if (!throttled_) ring.daemon_waiting.store(1);
  // Seq_cst on both sides: whoever published after this look sees that we sleep.
  const bool nothing =
      (throttled_ || ring.head.load() == reader_->tail()) && !wake_.load() && !closing_.load();
  if (nothing) Look(-1, !throttled_);
  sleeping_.store(false);
  ring.daemon_waiting.store(0);
}

void RingSession::Look(int timeout_ms, bool want_ring) {
  batches_since_look_ = 0;
  enum { kSocket, kOwn, kPid, kRing, kCount };
  pollfd fds[kCount] = {{socket_.fd(), POLLRDHUP, 0},
                        {own_event_.get(), POLLIN, 0},
                        {pid_fd_.get(), POLLIN, 0},
                        {want_ring ? ring_event_.get() : -1, POLLIN, 0}};
  if (!socket_.in().HasFrame()) fds[kSocket].events |= POLLIN;
  if (socket_.unsent_bytes() > 0) fds[kSocket].events |= POLLOUT;
  if (poll(fds, kCount, timeout_ms) <= 0) return;
  if (fds[kOwn].revents != 0) Clear(own_event_);
  if (fds[kRing].revents != 0) Clear(ring_event_);
  if (fds[kSocket].revents & POLLOUT) socket_.Flush();
  if (fds[kSocket].revents & POLLIN) ReadSocket();
  const bool hung_up = (fds[kSocket].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  if (hung_up || fds[kPid].revents != 0) peer_closed_ = true;
  if (peer_closed_) over_ = true;
}

void RingSession::ReadSocket() {
  absl::Status status;
  if (!socket_.Read(&status)) peer_closed_ = true;
  if (!status.ok()) End(std::move(status));
}

void RingSession::End(absl::Status why) {
  if (!over_) why_ = std::move(why);
  over_ = true;
}

void RingSession::LogUnreported() {
  for (int i = 0; i < kUnreportedLoggedMax; ++i) {
    const DeferredErrorPtr root = session_->TakeError(-1, -1, 0);
    if (root == nullptr) return;
    spdlog::warn("session {} (pid {}) never asked for the error of seq {} ({}): {}", id_, peer_.pid,
                 root->seq, root->op, root->error.message);
  }
  if (const uint64_t more = session_->unreported(); more > 0) {
    spdlog::warn("session {} (pid {}): {} more errors", id_, peer_.pid, more);
  }
}

SessionCounters RingSession::Counters() const { return session_->Counters(); }

void RingSession::Close(const std::string& reason) {
  {
    std::lock_guard lock(close_mutex_);
    close_reason_ = reason;
  }
  closing_.store(true);
  Signal(own_event_);
}

void RingSession::OnCompleted(int stream, uint64_t seq) { progress_->Completed(stream, seq); }

void RingSession::OnUnreported(uint64_t count) { progress_->Unreported(count); }

void RingSession::Wake() {
  if (wake_.exchange(true)) return;
  if (sleeping_.load()) Signal(own_event_);
}

}  // namespace neurond::ring
