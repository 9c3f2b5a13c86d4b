// What names a build of a plugin library: a hash of the file's content. And what its compiler reads
// of the process around it.
//
// Lifetime: a library of 200 MB takes some 50 ms to hash, so the hash may be kept in a file, with
// the path, inode, size and change time that it belongs to. A kept hash that does not match
// exactly, or cannot be read, is made anew. Thread-safety: pure functions of the file system; the
// kept file is replaced by rename.

#ifndef NEUROND_PLUGINS_PJRT_FINGERPRINT_H_
#define NEUROND_PLUGINS_PJRT_FINGERPRINT_H_

#include <string>

#include "absl/status/statusor.h"

namespace neurond::pjrt {

// 32 hex digits of XXH3-128 over the content of `path`. `keep_directory`: where to keep it; empty:
// nowhere.
absl::StatusOr<std::string> FileFingerprint(const std::string& path,
                                            const std::string& keep_directory);

// "PJRT_NPROC=4 XLA_FLAGS=...": the variables that XLA reads when it makes a client or compiles.
// The CPU compiler divides loops by the number of its threads: where nobody has fixed that number,
// this sets it to the CPUs that the process may use, for child processes too, which may find
// others.
std::string CompileEnvironment();

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_FINGERPRINT_H_
