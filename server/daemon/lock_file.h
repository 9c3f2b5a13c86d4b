// LockFile: an flock that a process holds while the object lives. The kernel drops it with the
// process, however that ends.
//
// Thread-safety: one thread. The file stays behind: unlinking a lock file is a race.

#ifndef NEUROND_SERVER_DAEMON_LOCK_FILE_H_
#define NEUROND_SERVER_DAEMON_LOCK_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/ring/fd.h"

namespace neurond {

class LockFile {
 public:
  // Tries for `wait_ms`. ALREADY_EXISTS names the file and the pid that it holds.
  static absl::StatusOr<LockFile> Take(const std::string& path, int wait_ms);
  // Leaves our pid in the file.
  void WritePid();

 private:
  explicit LockFile(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_LOCK_FILE_H_
