// Fd: a file descriptor that is closed when its owner ends.
//
// Thread-safety: none; movable.

#ifndef NEUROND_SERVER_RING_FD_H_
#define NEUROND_SERVER_RING_FD_H_

#include <unistd.h>

#include <utility>

namespace neurond {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace neurond

#endif  // NEUROND_SERVER_RING_FD_H_
