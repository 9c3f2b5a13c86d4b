#include "server/ring/ring_server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cerrno>

#include "runtime/base/text.h"
#include "server/ring/limits.h"

namespace neurond::ring {

RingServer::RingServer(uv_loop_t* loop, const DaemonState& state, Fd listener,
                       std::function<void()> on_empty)
    : loop_(loop), state_(state), listener_(std::move(listener)), on_empty_(std::move(on_empty)) {}

RingServer::~RingServer() = default;

absl::Status RingServer::Start() {
  reap_.data = poll_.data = this;
  uv_async_init(loop_, &reap_, [](uv_async_t* a) { static_cast<RingServer*>(a->data)->Reap(); });
  if (int rc = uv_poll_init(loop_, &poll_, listener_.get()); rc != 0) {
    return absl::UnavailableError(std::string("cannot poll the ring socket: ") + uv_strerror(rc));
  }
  uv_timer_init(loop_, &retry_);
  retry_.data = this;
  polling_ = true;
  Poll();
  return absl::OkStatus();
}

void RingServer::Poll() {
  uv_poll_start(&poll_, UV_READABLE,
                [](uv_poll_t* p, int, int) { static_cast<RingServer*>(p->data)->AcceptWaiting(); });
}

void RingServer::Pause(int error) {
  if (!short_of_descriptors_) {
    spdlog::error("cannot accept clients, they wait: {}",
                  uv_strerror(uv_translate_sys_error(error)));
  }
  short_of_descriptors_ = true;
  uv_poll_stop(&poll_);
  uv_timer_start(
      &retry_, [](uv_timer_t* t) { static_cast<RingServer*>(t->data)->Poll(); }, kAcceptRetryMs, 0);
}

int RingServer::AcceptWaiting() {
  int count = 0;
  while (listener_.valid()) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) Pause(errno);
      break;
    }
    short_of_descriptors_ = false;
    ++count;
    Accept(std::move(socket));
  }
  return count;
}

void RingServer::Accept(Fd socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  if (peer.uid != geteuid() && peer.uid != 0) {
    Refuse(std::move(socket), peer.pid,
           absl::PermissionDeniedError(
               Cat("this daemon serves user ", geteuid(), ", not user ", peer.uid)));
    return;
  }
  if (sessions() >= kConnectionsMax) {
    Refuse(
        std::move(socket), peer.pid,
        absl::ResourceExhaustedError(Cat("the daemon has ", sessions(), " connections already")));
    return;
  }
  sessions_.push_back(std::make_unique<RingSession>(state_, std::move(socket),
                                                    RingSession::Peer{peer.uid, peer.pid},
                                                    [this] { uv_async_send(&reap_); }));
  if (absl::Status status = sessions_.back()->Start(); !status.ok()) {
    Refuse(sessions_.back()->ReleaseSocket(), peer.pid, std::move(status));
    sessions_.pop_back();
  }
}

void RingServer::Refuse(Fd socket, int pid, absl::Status why) {
  spdlog::warn("refused pid {}: {}", pid, std::string(why.message()));
  FrameSocket(std::move(socket)).SendError(nullptr, FrameType::kHelloReply, why);
}

void RingServer::Reap() {
  if (sessions_.empty()) return;
  sessions_.remove_if([](const std::unique_ptr<RingSession>& s) { return s->ended(); });
  if (sessions_.empty()) on_empty_();
}

void RingServer::Stop() {
  if (!polling_) return;
  polling_ = false;
  uv_poll_stop(&poll_);
  uv_close(reinterpret_cast<uv_handle_t*>(&poll_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&retry_), nullptr);
  listener_.Reset();
}

void RingServer::Close() {
  Stop();
  uv_close(reinterpret_cast<uv_handle_t*>(&reap_), nullptr);
}

void RingServer::EndAll(const std::string& reason) {
  for (const std::unique_ptr<RingSession>& session : sessions_) session->Close(reason);
}

}  // namespace neurond::ring
