// What a compiler worker gives up before it reads its first byte. XLA parses and compiles what
// clients wrote; a worker that is taken over must find nothing to do with it.
//
// Two steps, since loading the plugin needs the file system: Before: no new privileges, dies with
// the daemon, limited memory, CPU time and files. After: a seccomp filter. Files may still be
// opened for reading, memory mapped and threads made; sockets, new processes, programs, opening for
// writing, and everything else with an effect outside fail with EPERM.
//
// Thread-safety: Before: the only thread. After: applies to all threads of the process.

#ifndef NEUROND_SERVER_COMPILER_SANDBOX_H_
#define NEUROND_SERVER_COMPILER_SANDBOX_H_

#include "absl/status/status.h"

namespace neurond {

absl::Status SandboxBeforePlugin();
absl::Status SandboxAfterPlugin();
// Grants the next compile its CPU time.
void RenewCpuTime();

}  // namespace neurond

#endif  // NEUROND_SERVER_COMPILER_SANDBOX_H_
