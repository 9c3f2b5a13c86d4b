// Whether a file can be given to the dynamic loader, which ends the process (SIGBUS) on a library
// that was cut short, as by a broken download, and waits for ever on a pipe.
//
// Thread-safety: a function over the file system.

#ifndef NEUROND_PLUGINS_PJRT_LIBRARY_CHECK_H_
#define NEUROND_PLUGINS_PJRT_LIBRARY_CHECK_H_

#include <string>

#include "absl/status/status.h"

namespace neurond::pjrt {

// Ok too for what the loader refuses by itself, and for a name without a slash, which the loader
// looks for where libraries lie.
absl::Status CheckLibrary(const std::string& path);

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_LIBRARY_CHECK_H_
