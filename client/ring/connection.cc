#include "client/ring/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "client/ring/limits.h"

namespace neurond::client {
namespace {

constexpr int kPassedFds = 4;

template <class T>
std::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// Takes the descriptors out of a received message; closes what there is no room for.
void TakeFds(msghdr& message, Fd* fds) {
  int next = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      Fd owned(fd);
      if (fds != nullptr && next < kPassedFds) fds[next++] = std::move(owned);
    }
  }
}

Status FromFrame(const ring::FrameHeader& header, std::string text) {
  return {static_cast<Code>(header.status), std::move(text)};
}

}  // namespace

Connection::Connection(Fd socket) : socket_(std::move(socket)) {}

bool Connection::SendFrame(const ring::FrameHeader& header,
                           std::initializer_list<std::string_view> parts) {
  std::vector<iovec> pieces;
  pieces.push_back({const_cast<ring::FrameHeader*>(&header), sizeof(header)});
  for (std::string_view part : parts) {
    if (!part.empty()) pieces.push_back({const_cast<char*>(part.data()), part.size()});
  }
  size_t first = 0;
  while (first < pieces.size()) {
    msghdr message{};
    message.msg_iov = pieces.data() + first;
    message.msg_iovlen = pieces.size() - first;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      // The daemon may have said why before it closed: the caller reads that next.
      return false;
    }
    auto left = static_cast<size_t>(sent);
    while (first < pieces.size() && left >= pieces[first].iov_len) left -= pieces[first++].iov_len;
    if (left > 0) {
      pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + left;
      pieces[first].iov_len -= left;
    }
  }
  return true;
}

bool Connection::ReceiveExactly(void* data, size_t bytes, Fd* fds) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    alignas(cmsghdr) char control[CMSG_SPACE(kPassedFds * sizeof(int))];
    iovec piece{at, bytes};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) timed_out_ = true;
    if (got <= 0) return false;
    TakeFds(message, fds);
    fds = nullptr;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool Connection::ReceiveFrame(Frame* frame, Fd* fds) {
  if (!ReceiveExactly(&frame->header, sizeof(frame->header), fds)) return false;
  const ring::FrameHeader& header = frame->header;
  const uint64_t limit = header.status != 0 ? kErrorTextBytesMax : ring::kFrameBytesMax;
  if (header.magic != ring::kMagic || header.bytes > limit) return false;
  // Memory grows with what has arrived, not with what was announced.
  for (size_t at = 0; at < header.bytes; at = frame->payload.size()) {
    frame->payload.resize(at + std::min<size_t>(header.bytes - at, kReceiveStepBytes));
    if (!ReceiveExactly(frame->payload.data() + at, frame->payload.size() - at, nullptr)) {
      return false;
    }
  }
  return true;
}

void Connection::SetReceiveTimeout(int ms) {
  const timeval time{ms / 1000, (ms % 1000) * 1000};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

Status Connection::AwaitReply(int timeout_ms, WaitScope& wait) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  pollfd entry{socket_.get(), POLLIN, 0};
  while (std::chrono::steady_clock::now() < end) {
    const int ready = poll(&entry, 1, static_cast<int>(kWaitSliceNs / 1'000'000));
    if (ready > 0) return {};
    const bool signalled = ready < 0 && errno == EINTR;
    if (Status status = wait.Interrupted(signalled); !status.ok()) return status;
  }
  return {};  // the timeout is seen by whoever receives
}

Status Connection::Hello(const ConnectOptions& options, int timeout_ms, WaitScope& wait,
                         Greeting* greeting) {
  ring::HelloFrame hello{};
  hello.abi_min = ring::kAbiMin;
  hello.abi_max = ring::kAbiMax;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.build_id_bytes = static_cast<uint32_t>(options.build_id.size());
  hello.settings_bytes = static_cast<uint32_t>(options.settings.size());
  ring::FrameHeader header{
      ring::kMagic, static_cast<uint16_t>(ring::FrameType::kHello), 0, 0, 0, 0};
  header.bytes =
      static_cast<uint32_t>(sizeof(hello) + options.build_id.size() + options.settings.size());
  SetReceiveTimeout(timeout_ms);
  SendFrame(header, {Bytes(hello), options.build_id, options.settings});
  if (Status status = AwaitReply(timeout_ms, wait); !status.ok()) return status;
  Frame reply;
  Fd fds[kPassedFds];
  if (!ReceiveFrame(&reply, fds)) {
    if (timed_out_) return {Code::kDeadlineExceeded, "the daemon does not answer Hello"};
    return {Code::kUnavailable, "the daemon closed the connection before it answered Hello"};
  }
  SetReceiveTimeout(0);
  if (reply.header.type != static_cast<uint16_t>(ring::FrameType::kHelloReply)) {
    return {Code::kInternal,
            "the daemon answered Hello with a frame of type " + std::to_string(reply.header.type)};
  }
  if (reply.header.status != 0) return FromFrame(reply.header, std::move(reply.payload));
  ring::HelloReplyFrame& fixed = greeting->reply;
  if (reply.payload.size() < sizeof(fixed)) return {Code::kInternal, "HelloReply is too short"};
  std::memcpy(&fixed, reply.payload.data(), sizeof(fixed));
  if (reply.payload.size() != sizeof(fixed) + fixed.build_id_bytes ||
      !fds[kPassedFds - 1].valid()) {
    return {Code::kInternal, "HelloReply is malformed"};
  }
  greeting->build_id = reply.payload.substr(sizeof(fixed));
  greeting->ring = std::move(fds[0]);
  greeting->staging = std::move(fds[1]);
  greeting->progress = std::move(fds[2]);
  greeting->event = std::move(fds[3]);
  daemon_pid_ = static_cast<int>(fixed.daemon_pid);
  return {};
}

Status Connection::Retire(int timeout_ms, WaitScope& wait) {
  SetReceiveTimeout(timeout_ms);
  SendFrame({ring::kMagic, static_cast<uint16_t>(ring::FrameType::kRetire), 0, 0, 0, 0}, {});
  Frame reply;
  if (!ReceiveFrame(&reply, nullptr)) return {Code::kUnavailable, "the daemon is gone"};
  if (reply.header.status != 0) return FromFrame(reply.header, std::move(reply.payload));
  // Nothing comes any more: this waits for the end of the daemon.
  if (Status status = AwaitReply(timeout_ms, wait); !status.ok()) return status;
  char byte;
  ReceiveExactly(&byte, 1, nullptr);
  if (timed_out_) return {Code::kDeadlineExceeded, "the daemon agreed to end but still runs"};
  return {};
}

Status Connection::Request(ring::FrameType type, uint64_t after_seq,
                           std::initializer_list<std::string_view> parts, WaitScope* wait,
                           std::string* reply) {
  std::unique_lock lock(mutex_);
  if (dead()) return DeathStatus();
  uint64_t bytes = 0;
  for (std::string_view part : parts) bytes += part.size();
  if (bytes + sizeof(ring::FrameHeader) > ring::kFrameBytesMax) {
    return {Code::kInvalidArgument, "a request of " + std::to_string(bytes) +
                                        " bytes is larger than the largest frame (" +
                                        std::to_string(ring::kFrameBytesMax) + ")"};
  }
  const uint32_t request = next_request_++;
  replies_.emplace(request, std::nullopt);
  SendFrame({ring::kMagic, static_cast<uint16_t>(type), 0, static_cast<uint32_t>(bytes), request,
             after_seq},
            parts);
  Status given_up;
  while (!dead() && !replies_[request].has_value() && given_up.ok()) {
    bool signalled = false;
    if (ReceiveReplyLocked(&signalled)) continue;
    // The caller's code may run now, and use this connection; other threads get their turn.
    lock.unlock();
    if (wait != nullptr) given_up = wait->Interrupted(signalled);
    lock.lock();
  }
  std::optional<Frame> frame = std::move(replies_.extract(request).mapped());
  if (!frame.has_value()) {
    if (given_up.ok()) return DeathStatus();
    given_up_.insert(request);
    return given_up;
  }
  if (frame->header.type != static_cast<uint16_t>(type) + 1) {
    Die("it answered a request that was not made");
    return DeathStatus();
  }
  if (frame->header.status != 0) return FromFrame(frame->header, std::move(frame->payload));
  *reply = std::move(frame->payload);
  return {};
}

bool Connection::ReceiveReplyLocked(bool* signalled) {
  pollfd entry{socket_.get(), POLLIN, 0};
  const int ready = poll(&entry, 1, static_cast<int>(kWaitSliceNs / 1'000'000));
  *signalled = ready < 0 && errno == EINTR;
  if (ready <= 0) return false;
  Frame frame;
  if (!ReceiveFrame(&frame, nullptr)) {
    Die("its connection is closed");
  } else if (frame.header.type == static_cast<uint16_t>(ring::FrameType::kBye)) {
    Die(frame.payload);
  } else if (auto asked = replies_.find(frame.header.request);
             asked != replies_.end() && !asked->second.has_value()) {
    asked->second = std::move(frame);
  } else if (given_up_.erase(frame.header.request) == 0) {
    Die("it answered a request that was not made");
  }
  return true;
}

void Connection::SendBye() {
  std::lock_guard lock(mutex_);
  if (!dead()) {
    SendFrame({ring::kMagic, static_cast<uint16_t>(ring::FrameType::kBye), 0, 0, 0, 0}, {});
  }
}

bool Connection::Alive() {
  if (dead()) return false;
  pollfd entry{socket_.get(), POLLRDHUP, 0};
  if (poll(&entry, 1, 0) <= 0 || (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0)
    return true;
  // Its last words, if nobody is in the middle of a request (who would then read them).
  std::string why = "its connection is closed";
  if (std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
    Frame frame;
    if (ReceiveFrame(&frame, nullptr) &&
        frame.header.type == static_cast<uint16_t>(ring::FrameType::kBye)) {
      why = frame.payload;
    }
  }
  Die(why);
  return false;
}

void Connection::Die(const std::string& why) {
  std::lock_guard lock(reason_mutex_);
  if (reason_.empty()) reason_ = why;
  dead_.store(true, std::memory_order_relaxed);
}

Status Connection::DeathStatus() {
  std::lock_guard lock(reason_mutex_);
  return {Code::kUnavailable, "the device daemon (neurond, pid " + std::to_string(daemon_pid_) +
                                  ") no longer serves this process: " + reason_};
}

}  // namespace neurond::client
