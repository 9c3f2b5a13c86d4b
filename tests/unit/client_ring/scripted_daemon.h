// ScriptedDaemon: the daemon's end of a Client's socket and memory, which says what a test wrote
// down before the Client asks. No thread: a socket keeps what is sent early.

#ifndef NEUROND_TESTS_UNIT_CLIENT_RING_SCRIPTED_DAEMON_H_
#define NEUROND_TESTS_UNIT_CLIENT_RING_SCRIPTED_DAEMON_H_

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ring/client_impl.h"
#include "gtest/gtest.h"

namespace neurond::client {

template <class T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

inline Fd Memfd(uint64_t bytes) {
  Fd fd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

// A ring area as the daemon makes it.
inline Fd RingMemfd(uint64_t bytes = ring::kRingDataOffset + ring::kRingBytes) {
  Fd fd = Memfd(bytes);
  ring::RingHeader header{};
  header.magic = ring::kMagic;
  header.abi = ring::kAbiMax;
  header.data_bytes = ring::kRingBytes;
  EXPECT_EQ(pwrite(fd.get(), &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
  return fd;
}

class ScriptedDaemon {
 public:
  ScriptedDaemon() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_ = Fd(ends[0]);
    socket_ = Fd(ends[1]);
  }

  static std::string Frame(ring::FrameType type, std::string_view payload, uint32_t request,
                           uint16_t status = 0) {
    return Bytes(ring::FrameHeader{ring::kMagic, static_cast<uint16_t>(type), status,
                                   static_cast<uint32_t>(payload.size()), request, 0}) +
           std::string(payload);
  }
  // Passes `fds` along with the first byte.
  void Say(std::string_view bytes, const std::vector<int>& fds = {}) {
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
    }
    EXPECT_EQ(sendmsg(socket_.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void Die() { socket_ = Fd(); }

  std::unique_ptr<Connection> Connect() { return std::make_unique<Connection>(std::move(client_)); }
  // Past its Hello.
  std::unique_ptr<ClientImpl> ConnectClient(const WaitHooks& hooks = {}) {
    Greeting greeting{};
    greeting.reply.daemon_pid = 42;
    greeting.ring = RingMemfd();
    greeting.staging = Memfd(ring::kStagingBytes);
    greeting.progress = Memfd(ring::kProgressBytes);
    greeting.event = Memfd(8);  // nobody sleeps: it is never written
    ring_ = Fd(dup(greeting.ring.get()));
    progress_ = Fd(dup(greeting.progress.get()));
    auto client = std::make_unique<ClientImpl>(hooks, Connect(), std::move(greeting));
    EXPECT_TRUE(client->MapAreas().ok());
    return client;
  }
  int ring_fd() const { return ring_.get(); }
  int progress_fd() const { return progress_.get(); }

 private:
  Fd client_, socket_, ring_, progress_;
};

}  // namespace neurond::client

#endif  // NEUROND_TESTS_UNIT_CLIENT_RING_SCRIPTED_DAEMON_H_
