// What names a build of a plugin library: a hash of the file's content.
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

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_FINGERPRINT_H_
