#include "plugins/pjrt/library_check.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"

namespace neurond::pjrt {
namespace {

// Where the content ends that the loader maps; 0 if this is no library of this machine.
uint64_t ContentEnd(int fd) {
  ElfW(Ehdr) header;
  if (pread(fd, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phentsize != sizeof(ElfW(Phdr))) {
    return 0;
  }
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  const size_t bytes = segments.size() * sizeof(ElfW(Phdr));
  uint64_t end = header.e_phoff + bytes;
  if (pread(fd, segments.data(), bytes, static_cast<off_t>(header.e_phoff)) !=
      static_cast<ssize_t>(bytes)) {
    return end;
  }
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

}  // namespace

absl::Status CheckLibrary(const std::string& path) {
  if (path.find('/') == std::string::npos) return absl::OkStatus();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::NotFoundError(absl::StrCat("cannot open PJRT plugin ",
                                            std::filesystem::absolute(path).string(), ": ",
                                            std::strerror(errno)));
  }
  struct stat info;
  const bool file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const uint64_t end = file ? ContentEnd(fd) : 0;
  close(fd);
  if (!file) return absl::FailedPreconditionError(absl::StrCat(path, " is not a file"));
  if (end <= static_cast<uint64_t>(info.st_size)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is cut short: expected at least ", end, " bytes, saw ", info.st_size));
}

}  // namespace neurond::pjrt
