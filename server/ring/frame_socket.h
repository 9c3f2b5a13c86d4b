// FrameSocket: one client's socket, never blocking. Bytes in become frames, frames out are kept
// until the client reads them.
//
// Thread-safety: one thread. Lifetime: closes the socket with it.

#ifndef NEUROND_SERVER_RING_FRAME_SOCKET_H_
#define NEUROND_SERVER_RING_FRAME_SOCKET_H_

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/ring/fd.h"
#include "server/wire/frame_parser.h"

namespace neurond::ring {

class FrameSocket {
 public:
  explicit FrameSocket(Fd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  Fd Release() { return std::move(fd_); }
  wire::FrameParser& in() { return in_; }

  // Reads what is there, until a frame is whole. False: the peer has closed. INVALID_ARGUMENT in
  // *status: no stream of frames.
  bool Read(absl::Status* status);

  // A reply to `request`, or with `request` nullptr a frame of our own.
  void SendReply(const FrameHeader* request, FrameType type, std::string_view payload);
  void SendError(const FrameHeader* request, FrameType type, const absl::Status& status);
  // The same with descriptors, at once: only for the first reply, when the socket's buffer is
  // empty.
  bool SendWithFds(FrameType type, std::string_view payload, std::span<const int> fds);

  // Sends what is kept as far as the socket takes it.
  void Flush();
  size_t unsent_bytes() const { return out_.size() - sent_; }

 private:
  void Queue(const FrameHeader* request, FrameType type, uint16_t status, std::string_view payload);

  Fd fd_;
  wire::FrameParser in_;
  std::string out_;
  size_t sent_ = 0;
};

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_FRAME_SOCKET_H_
