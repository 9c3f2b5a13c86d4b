#include "server/daemon/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "runtime/base/text.h"

namespace neurond {

absl::StatusOr<LockFile> LockFile::Take(const std::string& path, int wait_ms) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, Cat("cannot open ", path));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return absl::ErrnoToStatus(errno, Cat("cannot lock ", path));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      std::string pid = "unknown";
      std::ifstream(path) >> pid;
      return absl::AlreadyExistsError(Cat("another process (pid ", pid, ") holds ", path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return LockFile(std::move(fd));
}

void LockFile::WritePid() {
  const std::string text = Cat(getpid(), "\n");
  if (ftruncate(fd_.get(), 0) != 0 ||
      pwrite(fd_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    // Only messages use it.
  }
}

}  // namespace neurond
