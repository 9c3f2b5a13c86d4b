#include "server/ring/frame_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond::ring {
namespace {

FrameHeader Header(const FrameHeader* request, FrameType type, uint16_t status, size_t bytes) {
  return {kMagic,
          static_cast<uint16_t>(type),
          status,
          static_cast<uint32_t>(bytes),
          request != nullptr ? request->request : 0,
          0};
}

}  // namespace

bool FrameSocket::Read(absl::Status* status) {
  std::string chunk;
  while (const size_t wanted = in_.Wanted()) {
    chunk.resize(wanted);
    const ssize_t got = recv(fd_.get(), chunk.data(), wanted, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    *status = in_.Append(std::string_view(chunk.data(), static_cast<size_t>(got)));
    if (!status->ok()) return true;
  }
  return true;
}

void FrameSocket::Queue(const FrameHeader* request, FrameType type, uint16_t status,
                        std::string_view payload) {
  const FrameHeader header = Header(request, type, status, payload.size());
  out_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  out_.append(payload);
  Flush();
}

void FrameSocket::SendReply(const FrameHeader* request, FrameType type, std::string_view payload) {
  Queue(request, type, 0, payload);
}

void FrameSocket::SendError(const FrameHeader* request, FrameType type,
                            const absl::Status& status) {
  const std::string_view text(status.message().data(), status.message().size());
  Queue(request, type, static_cast<uint16_t>(status.code()), Shortened(text, kErrorTextBytesMax));
}

bool FrameSocket::SendWithFds(FrameType type, std::string_view payload, std::span<const int> fds) {
  FrameHeader header = Header(nullptr, type, 0, payload.size());
  iovec parts[] = {{&header, sizeof(header)}, {const_cast<char*>(payload.data()), payload.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  if (fds.size() > 8) return false;
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(sizeof(header) + payload.size());
}

void FrameSocket::Flush() {
  while (sent_ < out_.size()) {
    const ssize_t sent =
        send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;  // full, or the peer is gone, which the next Read sees
    sent_ += static_cast<size_t>(sent);
  }
  out_.clear();
  sent_ = 0;
}

}  // namespace neurond::ring
