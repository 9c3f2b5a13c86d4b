// What of a loaded library is mapped in.

#ifndef NEUROND_PLUGINS_PJRT_LIBRARY_PAGES_H_
#define NEUROND_PLUGINS_PJRT_LIBRARY_PAGES_H_

namespace neurond::pjrt {

// Unmaps the read-only pages of the library that holds `address`, until they are used again: a
// library's start touches about 100 MB of code and tables (the kernel maps their neighbours too),
// of which little is used later. Their content is the file's, so nothing is lost; a library with
// relocations in its code is left alone. Thread-safety: any thread.
void ReleaseReadOnlyPages(const void* address);

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_LIBRARY_PAGES_H_
