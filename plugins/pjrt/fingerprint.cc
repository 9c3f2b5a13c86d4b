#include "plugins/pjrt/fingerprint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace neurond::pjrt {
namespace {

// read(), not mmap: mapped pages would count as the daemon's memory.
constexpr size_t kReadBytes = size_t{1} << 20;

struct FileCloser {
  int fd;
  ~FileCloser() { close(fd); }
};

std::string Hex(XXH128_hash_t hash) {
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

absl::StatusOr<std::string> HashContent(const std::string& path, int fd) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                 &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> block(kReadBytes);
  while (true) {
    const ssize_t count = read(fd, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
    }
    if (count == 0) break;
    XXH3_128bits_update(state.get(), block.data(), static_cast<size_t>(count));
  }
  return Hex(XXH3_128bits_digest(state.get()));
}

// One line that is the same only for the same file, unchanged: ctime moves with every change of
// content.
std::string Identity(const std::string& path, const struct stat& info) {
  return absl::StrCat(info.st_dev, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec,
                      ".", info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, ".",
                      info.st_ctim.tv_nsec, " ", path);
}

// The content of a kept file; its last line tells a damaged one.
std::string KeptText(const std::string& identity, const std::string& hash) {
  const std::string text = absl::StrCat(identity, "\n", hash, "\n");
  return absl::StrCat(text, Hex(XXH3_128bits(text.data(), text.size())), "\n");
}

std::string KeptHash(const std::string& kept, const std::string& identity) {
  // Whatever may lie there: a pipe must not hold us, a device not fill memory.
  const int fd = open(kept.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  FileCloser closer{fd};
  std::string text(identity.size() + 128, '\0');  // more than a kept file has
  text.resize(static_cast<size_t>(std::max<ssize_t>(read(fd, text.data(), text.size()), 0)));
  const std::string hash =
      text.size() > identity.size() + 33 ? text.substr(identity.size() + 1, 32) : "";
  return text == KeptText(identity, hash) ? hash : "";
}

void Keep(const std::string& kept, const std::string& identity, const std::string& hash) {
  std::string temporary = kept + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return;
  const std::string text = KeptText(identity, hash);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  if (!written || rename(temporary.c_str(), kept.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace

absl::StatusOr<std::string> FileFingerprint(const std::string& path,
                                            const std::string& keep_directory) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  FileCloser closer{fd};
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot stat ", path, ": ", strerror(errno)));
  }
  if (keep_directory.empty()) return HashContent(path, fd);
  const std::string identity = Identity(path, info);
  const std::string kept = absl::StrCat(
      keep_directory, "/plugin-", Hex(XXH3_128bits(path.data(), path.size())), ".fingerprint");
  if (std::string hash = KeptHash(kept, identity); !hash.empty()) return hash;
  absl::StatusOr<std::string> hash = HashContent(path, fd);
  if (hash.ok()) Keep(kept, identity, *hash);
  return hash;
}

std::string CompileEnvironment() {
  setenv("PJRT_NPROC", absl::StrCat(std::max(1u, std::thread::hardware_concurrency())).c_str(),
         /*overwrite=*/0);
  std::string text = absl::StrCat("PJRT_NPROC=", std::getenv("PJRT_NPROC"));
  if (const char* flags = std::getenv("XLA_FLAGS")) absl::StrAppend(&text, " XLA_FLAGS=", flags);
  return text;
}

}  // namespace neurond::pjrt
