// What a broken daemon could answer: the first byte chooses the client's call, the second how many
// descriptors come with a Hello, the rest is everything that the socket says before it closes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "client/ring/client_impl.h"

namespace {

using namespace neurond::client;  // NOLINT: the target is this namespace
namespace ring = neurond::ring;

constexpr size_t kInputBytesMax = 32 << 10;  // fits a socket's buffer: nobody reads beside us

void Check(bool condition) {
  if (!condition) std::abort();
}

void SendAll(int fd, const uint8_t* data, size_t size, int fd_count, int passed) {
  iovec piece{const_cast<uint8_t*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (fd_count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    for (int i = 0; i < fd_count; ++i) {
      std::memcpy(CMSG_DATA(c) + i * sizeof(int), &passed, sizeof(int));
    }
  }
  Check(size == 0 || sendmsg(fd, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size));
  shutdown(fd, SHUT_WR);
}

void Hello(std::unique_ptr<Connection> connection) {
  Greeting greeting;
  WaitScope wait({});
  if (!connection->Hello({}, 1000, wait, &greeting).ok()) return;
  Check(greeting.ring.valid() && greeting.staging.valid() && greeting.progress.valid() &&
        greeting.event.valid());
}

void Call(Client& client, int which) {
  bool found = false;
  DeviceError error;
  uint64_t program = 0;
  int64_t number = 0;
  std::string text;
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < 2; ++i) {  // the second call meets what the first one left
    switch (which) {
      case 0:
        (void)client.TakeError(-1, -1, 0, 0, &found, &error);
        break;
      case 1:
        (void)client.Lookup("key", &program, &text);
        break;
      case 2:
        (void)client.Define("key", "meta", "program", &program);
        break;
      case 3:
        (void)client.ChangeGrant(0, 1, &number, &number, &number);
        break;
      case 4:
        (void)client.EventTime(1, &number);
        break;
      case 5:
        (void)client.Devices(&devices);
        break;
      default:
        (void)client.Stats(&text);
        break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int passed = memfd_create("fuzz", MFD_CLOEXEC);
  if (size < 2) return 0;
  const int which = data[0] % 8;
  const int fd_count = data[1] % 9;
  int ends[2];
  Check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  auto connection = std::make_unique<Connection>(Fd(ends[0]));
  SendAll(ends[1], data + 2, std::min(size - 2, kInputBytesMax), which == 7 ? fd_count : 0, passed);
  if (which == 7) {
    Hello(std::move(connection));
  } else {
    // Requests need none of the areas, and mapping 256 MiB would be all that is done.
    ClientImpl client({}, std::move(connection), {});
    Call(client, which);
  }
  close(ends[1]);
  return 0;
}
