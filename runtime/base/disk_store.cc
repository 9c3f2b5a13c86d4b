#include "runtime/base/disk_store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond {
namespace {

namespace fs = std::filesystem;

constexpr int kCompressionLevel = 1;  // executables shrink 3x at any level; this one costs least
constexpr auto kAbandonedAfter = std::chrono::hours(1);
constexpr std::string_view kTemporarySuffix = ".tmp";

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

bool WriteAll(int fd, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    next += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool ReadAll(int fd, void* data, size_t bytes) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(fd, next, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

Hash128 Checksum(DiskHeader header, std::string_view packed) {
  header.checksum[0] = header.checksum[1] = 0;
  const std::string_view parts[] = {{reinterpret_cast<const char*>(&header), sizeof(header)},
                                    packed};
  return HashParts(parts);
}

// Calls `each` with every file of the store's folders. Others may remove files and folders
// meanwhile: every step may fail and is skipped then.
template <class Each>
void ForEachFile(const std::string& directory, const Each& each) {
  std::error_code error;
  for (fs::directory_iterator folder(directory, error), end; !error && folder != end;
       folder.increment(error)) {
    std::error_code inner;
    for (fs::directory_iterator file(folder->path(), inner), last; !inner && file != last;
         file.increment(inner)) {
      each(*file);
    }
  }
}

bool MakeDirectories(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  return !error;
}

}  // namespace

DiskStore::DiskStore(std::string directory, std::string suffix, uint64_t tag, int64_t bytes_max)
    : directory_(std::move(directory)),
      suffix_(std::move(suffix)),
      tag_(tag),
      bytes_max_(bytes_max) {}

std::string DiskStore::PathOf(const Hash128& key) const {
  const std::string hex = key.Hex();
  return Cat(directory_, "/", hex.substr(0, 2), "/", hex, suffix_);
}

void DiskStore::Reject(const std::string& path, std::string_view why) {
  ++corrupt_;
  if (std::remove(path.c_str()) == 0 || errno == ENOENT) {  // an empty folder goes too
    spdlog::warn("cache: {} is {}; removed", path, why);
  } else {
    Tell(reads_told_, Cat(path, " is ", why, " and cannot be removed"));
  }
}

void DiskStore::Tell(std::atomic<int>& told, std::string_view what) {
  const char* why = std::strerror(errno);
  if (told.load() >= kCacheWarningsMax) return;
  spdlog::warn("cache: {}: {}{}", what, why,
               ++told < kCacheWarningsMax ? "" : "; no further ones are told");
}

void DiskStore::Use(const Hash128& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  used_.insert(key);
}

std::optional<std::string> DiskStore::Read(const Hash128& key) {
  if (directory_.empty()) return std::nullopt;
  std::optional<std::string> blob = ReadFile(key, PathOf(key));
  if (blob) Use(key);
  return blob;
}

std::optional<std::string> DiskStore::ReadFile(const Hash128& key, const std::string& path) {
  // Without O_NONBLOCK a pipe in the file's place would hold the reader for ever.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno != ENOENT) Tell(reads_told_, Cat("cannot read ", path));
    return std::nullopt;
  }
  DiskHeader header;
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      !ReadAll(file.get(), &header, sizeof(header))) {
    Reject(path, "no file or a truncated one");
    return std::nullopt;
  }
  if (header.magic != kDiskMagic) {
    Reject(path, "not an entry");
    return std::nullopt;
  }
  if (header.version != kDiskVersion) {
    spdlog::info("cache: {} has version {}, not {}", path, header.version, kDiskVersion);
    return std::nullopt;
  }
  if (header.key[0] != key.high || header.key[1] != key.low) {
    Reject(path, "not an entry of this key");
    return std::nullopt;
  }
  if (header.tag != tag_) {
    spdlog::debug("cache: {} is another build's", path);
    return std::nullopt;
  }
  if (header.packed_bytes != static_cast<uint64_t>(info.st_size) - sizeof(header) ||
      header.packed_bytes > static_cast<uint64_t>(kDiskEntryBytesMax) ||
      header.raw_bytes > static_cast<uint64_t>(kDiskEntryBytesMax)) {
    Reject(path, "truncated");
    return std::nullopt;
  }
  std::string packed(header.packed_bytes, '\0');
  if (!ReadAll(file.get(), packed.data(), packed.size())) {
    Reject(path, "truncated");
    return std::nullopt;
  }
  if (Checksum(header, packed) != Hash128{header.checksum[0], header.checksum[1]}) {
    Reject(path, "corrupt");
    return std::nullopt;
  }
  std::string raw(header.raw_bytes, '\0');
  if (ZSTD_decompress(raw.data(), raw.size(), packed.data(), packed.size()) != raw.size()) {
    Reject(path, "not decompressible");
    return std::nullopt;
  }
  futimens(file.get(), nullptr);  // for eviction; a read-only directory changes nothing
  return raw;
}

bool DiskStore::WriteFile(const std::string& path, const DiskHeader& header,
                          std::string_view packed) {
  std::string temporary = Cat(path, ".XXXXXX", kTemporarySuffix);
  {
    const Fd file(mkostemps(temporary.data(), kTemporarySuffix.size(), O_CLOEXEC));
    if (file.get() < 0) return false;
    if (!WriteAll(file.get(), &header, sizeof(header)) ||
        !WriteAll(file.get(), packed.data(), packed.size())) {
      const int error = errno;
      unlink(temporary.c_str());
      errno = error;
      return false;
    }
  }
  if (rename(temporary.c_str(), path.c_str()) == 0) return true;
  const int error = errno;
  unlink(temporary.c_str());
  errno = error;
  return false;
}

void DiskStore::Write(const Hash128& key, std::string_view blob) {
  if (directory_.empty() || static_cast<int64_t>(blob.size()) > kDiskEntryBytesMax) return;
  std::string packed(ZSTD_compressBound(blob.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), blob.data(), blob.size(), kCompressionLevel);
  if (ZSTD_isError(size)) return;
  packed.resize(size);
  DiskHeader header;
  header.magic = kDiskMagic;
  header.version = kDiskVersion;
  header.raw_bytes = blob.size();
  header.packed_bytes = packed.size();
  header.tag = tag_;
  header.key[0] = key.high;
  header.key[1] = key.low;
  const Hash128 checksum = Checksum(header, packed);
  header.checksum[0] = checksum.high;
  header.checksum[1] = checksum.low;

  const std::string path = PathOf(key);
  struct stat old;
  const bool replaces = stat(path.c_str(), &old) == 0;
  bool deleted = false;  // the whole store, by somebody else
  bool written = WriteFile(path, header, packed);
  if (!written && errno == ENOENT) {
    deleted = access(directory_.c_str(), F_OK) != 0;
    written = MakeDirectories(fs::path(path).parent_path()) && WriteFile(path, header, packed);
  }
  if (!written) {
    Tell(writes_told_, Cat("cannot write ", path));
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  used_.insert(key);
  if (!scanned_ || deleted) {
    ScanLocked(false);
  } else {
    entries_ += replaces ? 0 : 1;
    bytes_ += static_cast<int64_t>(sizeof(header) + packed.size()) - (replaces ? old.st_size : 0);
  }
  if (bytes_ > bytes_max_) ScanLocked(true);
}

void DiskStore::Scan() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!directory_.empty()) ScanLocked(false);
}

void DiskStore::ScanLocked(bool evict) {
  struct Entry {
    bool used;
    fs::file_time_type touched;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> files;
  int64_t bytes = 0;
  const auto now = fs::file_time_type::clock::now();
  ForEachFile(directory_, [&](const fs::directory_entry& file) {
    std::error_code gone;
    fs::file_time_type touched = file.last_write_time(gone);
    const int64_t size = gone ? 0 : static_cast<int64_t>(file.file_size(gone));
    if (gone) return;
    // From before the clock was set back: what was used since then looks older.
    const bool unlikely = touched - now > kAbandonedAfter;
    const std::string name = file.path().filename().string();
    if (name.ends_with(suffix_)) {
      const std::optional<Hash128> key = Hash128::FromHex(name.substr(0, 32));
      if (unlikely) touched = fs::file_time_type::min();
      files.push_back({key && used_.contains(*key), touched, size, file.path()});
      bytes += size;
    } else if (name.ends_with(kTemporarySuffix) && (unlikely || now - touched > kAbandonedAfter)) {
      fs::remove(file.path(), gone);  // a writer died
    }
  });
  scanned_ = true;
  entries_ = static_cast<int64_t>(files.size());
  bytes_ = bytes;
  if (!evict || bytes <= bytes_max_) return;
  std::sort(files.begin(), files.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used, a.touched) < std::tie(b.used, b.touched);
  });
  for (const Entry& file : files) {
    if (bytes_ <= bytes_max_ / 10 * 9) break;
    std::error_code error;
    fs::remove(file.path, error);
    if (error) continue;  // may not be removed, and still takes its place
    bytes_ -= file.bytes;
    --entries_;
    ++evictions_;
  }
}

int64_t DiskStore::Clear() {
  if (directory_.empty()) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t removed = 0;
  ForEachFile(directory_, [&](const fs::directory_entry& file) {
    std::error_code gone;
    const bool ours = file.path().filename().string().ends_with(suffix_);
    if (ours && fs::remove(file.path(), gone)) ++removed;
  });
  ScanLocked(false);
  return removed;
}

DiskStoreCounters DiskStore::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {entries_, bytes_, corrupt_.load(), evictions_};
}

}  // namespace neurond
