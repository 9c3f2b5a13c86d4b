// RingFixture: one RingSession over a TestPlugin, and the client's end of its socket and memory,
// from which a test may send anything.

#ifndef NEUROND_TESTS_UNIT_RING_RING_FIXTURE_H_
#define NEUROND_TESTS_UNIT_RING_RING_FIXTURE_H_

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "proto/ring/ring_abi.h"
#include "server/ring/ring_session.h"
#include "tests/unit/ring/ring_host.h"

namespace neurond::ring {

template <class T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A record of one of the ABI's structs with its header filled in, and what follows it.
template <class Record>
std::string RecordBytes(Record record, RecordType type, uint64_t seq, std::string_view tail = "",
                        int stream = 0) {
  record.h = {static_cast<uint32_t>(sizeof(record) + tail.size()), static_cast<uint16_t>(type),
              static_cast<uint16_t>(stream), seq};
  return Bytes(record) + std::string(tail);
}

inline AllocRecord AllocOf(uint64_t buffer, uint64_t elements = 4) {
  AllocRecord r{};
  r.buffer = buffer;
  r.elements = elements;
  r.dtype = static_cast<uint8_t>(DType::kF32);
  return r;
}

inline WriteRecord WriteOf(uint64_t buffer, uint64_t bytes = 16) {
  WriteRecord r{};
  r.buffer = buffer;
  r.transfer = buffer;
  r.bytes = r.total_bytes = bytes;
  r.flags = kLastChunk;
  return r;
}

inline ReadRecord ReadOf(uint64_t buffer, uint64_t staging_offset, uint64_t bytes = 16) {
  ReadRecord r{};
  r.buffer = buffer;
  r.staging_offset = staging_offset;
  r.bytes = bytes;
  return r;
}

// The other end: no checks, no locks, no manners.
class RawClient {
 public:
  struct Frame {
    bool closed = false;  // nothing came any more
    FrameHeader header{};
    std::string payload;
  };

  explicit RawClient(int fd) : socket_(fd) {}
  ~RawClient() {
    if (ring_ != nullptr) munmap(ring_, kRingDataOffset + kRingBytes);
    if (staging_ != nullptr) munmap(staging_, kStagingBytes);
  }

  int fd() const { return socket_.get(); }
  void Close() { socket_.Reset(); }
  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the daemon has closed: what it said is still to be received
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  static std::string FrameBytes(FrameType type, std::string_view payload, uint64_t after_seq = 0) {
    const FrameHeader header{kMagic, static_cast<uint16_t>(type),
                             0,      static_cast<uint32_t>(payload.size()),
                             7,      after_seq};
    return Bytes(header) + std::string(payload);
  }
  Frame Receive() {
    Frame frame;
    frame.closed = !Exactly(&frame.header, sizeof(frame.header));
    if (frame.closed) return frame;
    frame.payload.resize(frame.header.bytes);
    frame.closed = !Exactly(frame.payload.data(), frame.payload.size());
    return frame;
  }
  Frame Ask(FrameType type, std::string_view payload = "", uint64_t after_seq = 0) {
    Send(FrameBytes(type, payload, after_seq));
    return Receive();
  }
  // The text of the Bye with which the daemon ends the session.
  std::string LastWords() {
    for (;;) {
      Frame frame = Receive();
      if (frame.closed) return "closed without a word";
      if (frame.header.type == static_cast<uint16_t>(FrameType::kBye)) return frame.payload;
    }
  }
  Frame Hello(HelloFrame hello = {kAbiMin, kAbiMax, 1, 0, 0}, const std::string& texts = "") {
    Frame reply = Ask(FrameType::kHello, Bytes(hello) + texts);
    if (fds_[0].valid()) Map();
    return reply;
  }

  RingHeader& ring() { return *ring_; }
  std::byte* staging() { return staging_; }
  std::byte* ring_data() { return reinterpret_cast<std::byte*>(ring_) + kRingDataOffset; }
  // Puts bytes at the ring's head, as far as they do not pass its end, and publishes them.
  void Push(std::string_view records) {
    std::memcpy(ring_data() + head_ % kRingBytes, records.data(), records.size());
    SetHead(head_ + records.size());
  }
  void SetHead(uint64_t head) {
    head_ = head;
    ring_->head.store(head);
    const uint64_t one = 1;
    EXPECT_EQ(write(fds_[3].get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }
  uint64_t head() const { return head_; }

 private:
  bool Exactly(void* data, size_t bytes) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
      alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
      iovec piece{at, bytes};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      const ssize_t got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) return false;
      if (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr) {
        int fds[4];
        std::memcpy(fds, CMSG_DATA(c), sizeof(fds));
        for (int i = 0; i < 4; ++i) fds_[i].Reset(fds[i]);
      }
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }
  void Map() {
    const auto map = [](int fd, uint64_t bytes) {
      return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    };
    ring_ = static_cast<RingHeader*>(map(fds_[0].get(), kRingDataOffset + kRingBytes));
    staging_ = static_cast<std::byte*>(map(fds_[1].get(), kStagingBytes));
    ASSERT_NE(static_cast<void*>(ring_), MAP_FAILED);
    ASSERT_NE(static_cast<void*>(staging_), MAP_FAILED);
  }

  Fd socket_;
  Fd fds_[4];
  RingHeader* ring_ = nullptr;
  std::byte* staging_ = nullptr;
  uint64_t head_ = 0;
};

class RingFixture : public testing::Test {
 protected:
  RingFixture() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_ = std::make_unique<RawClient>(ends[0]);
    session_ = std::make_unique<RingSession>(host_.state, Fd(ends[1]), RingSession::Peer{0, 0},
                                             [this] { ended_.set_value(); });
    EXPECT_TRUE(session_->Start().ok());
  }
  ~RingFixture() override {
    client_->Close();
    Join();
  }
  // Waits for the session's end; afterwards nothing of it may be left.
  void Join() {
    if (session_ == nullptr) return;
    ended_.get_future().wait();
    session_.reset();
    EXPECT_EQ(host_.registry.size(), 0);
    EXPECT_EQ(host_.host.plugin.live_buffers, 0);
    EXPECT_EQ(host_.host.devices.at(0).granted_bytes(), 0);
  }

  RingHost host_;
  std::promise<void> ended_;
  std::unique_ptr<RawClient> client_;
  std::unique_ptr<RingSession> session_;
};

}  // namespace neurond::ring

#endif  // NEUROND_TESTS_UNIT_RING_RING_FIXTURE_H_
