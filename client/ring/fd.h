// Fd: a file descriptor that is closed when its owner ends.
//
// Thread-safety: none; movable.

#ifndef NEUROND_CLIENT_RING_FD_H_
#define NEUROND_CLIENT_RING_FD_H_

#include <unistd.h>

#include <utility>

namespace neurond::client {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { Reset(-1); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_FD_H_
