#include "server/ring/ring_server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cerrno>

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
  polling_ = true;
  uv_poll_start(&poll_, UV_READABLE,
                [](uv_poll_t* p, int, int) { static_cast<RingServer*>(p->data)->AcceptWaiting(); });
  return absl::OkStatus();
}

int RingServer::AcceptWaiting() {
  int count = 0;
  while (listener_.valid()) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) spdlog::error("accept: {}", uv_strerror(uv_translate_sys_error(errno)));
      break;
    }
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
    spdlog::warn("refused pid {} of user {}: this daemon serves user {}", peer.pid, peer.uid,
                 geteuid());
    return;
  }
  if (sessions() >= kConnectionsMax) {
    spdlog::warn("refused pid {}: {} connections already", peer.pid, sessions());
    return;
  }
  sessions_.push_back(std::make_unique<RingSession>(state_, std::move(socket),
                                                    RingSession::Peer{peer.uid, peer.pid},
                                                    [this] { uv_async_send(&reap_); }));
  sessions_.back()->Start();
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
