// What a daemon does to its own process before it starts threads: leave the parent, undo what it
// inherited, log.
//
// Thread-safety: call before any other thread exists.

#ifndef NEUROND_SERVER_DAEMON_PROCESS_SETUP_H_
#define NEUROND_SERVER_DAEMON_PROCESS_SETUP_H_

#include <string>

#include "absl/status/status.h"

namespace neurond {

// Forks; the parent ends at once, the child goes on in a session of its own.
void Detach();
// All CPUs (whoever started us may be bound to one), SIGPIPE ignored, files closed to others, as
// many descriptors as allowed.
void ResetInherited();
// spdlog to stderr or to a file that rotates; where nobody looks at the terminal (`detached`),
// stdout and stderr follow that file.
absl::Status SetUpLogging(const std::string& file, const std::string& level, bool detached);

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_PROCESS_SETUP_H_
