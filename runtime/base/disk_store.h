// DiskStore: blobs by 128-bit key, in files. What it holds can always be made again: any file may
// go at any time.
//
//   <directory>/<first 2 hex of key>/<32 hex><suffix>:
//     +-----------------------------------------------------------------+
//     | DiskHeader, 64 bytes | zstd frame, packed_bytes                  |
//     +-----------------------------------------------------------------+
//
// A file is written under a temporary name and renamed, so nobody sees half of one; several
// processes may share the directory. A file of another `tag` (another build, another plugin) or
// another kDiskVersion is a miss. A short, long, flipped or foreign file is a miss, a log line and
// a count, and is removed. What cannot be opened is a miss and a log line. Reading touches the
// file's modification time; when a write brings the store over its bound, the files touched longest
// ago (or in the future) go until nine tenths of the bound are left, those that this process uses
// (has read or written) last.
//
// Thread-safety: all methods, from any thread; they block on the disk.

#ifndef NEUROND_RUNTIME_BASE_DISK_STORE_H_
#define NEUROND_RUNTIME_BASE_DISK_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "runtime/base/hash.h"

namespace neurond {

// Little-endian, as the machine is.
struct DiskHeader {
  uint32_t magic = 0;         // kDiskMagic
  uint32_t version = 0;       // kDiskVersion
  uint64_t raw_bytes = 0;     // after decompression
  uint64_t packed_bytes = 0;  // of the zstd frame
  uint64_t tag = 0;           // whose file it is
  uint64_t key[2] = {};       // high, low
  uint64_t checksum[2] = {};  // of this header with zeros here, and the zstd frame
};
inline constexpr uint32_t kDiskMagic = 0x5344524e;  // "NRDS"
inline constexpr uint32_t kDiskVersion = 1;
static_assert(sizeof(DiskHeader) == 64);
static_assert(offsetof(DiskHeader, raw_bytes) == 8 && offsetof(DiskHeader, packed_bytes) == 16);
static_assert(offsetof(DiskHeader, tag) == 24 && offsetof(DiskHeader, key) == 32);
static_assert(offsetof(DiskHeader, checksum) == 48);

struct DiskStoreCounters {
  int64_t entries = 0, bytes = 0, corrupt = 0, evictions = 0;
};

class DiskStore {
 public:
  // An empty `directory`: every Read is a miss, every Write does nothing.
  DiskStore(std::string directory, std::string suffix, uint64_t tag, int64_t bytes_max);

  std::optional<std::string> Read(const Hash128& key);
  // A failure is logged; the store then simply lacks the entry.
  void Write(const Hash128& key, std::string_view blob);
  // Removes every file of this suffix. Returns how many.
  int64_t Clear();
  // Counts what lies there. Called by the first Write; the counters before that show only this
  // process's own work.
  void Scan();
  DiskStoreCounters counters() const;
  const std::string& directory() const { return directory_; }

 private:
  std::string PathOf(const Hash128& key) const;
  // The whole file, checked; nullopt: a miss, told as it deserves.
  std::optional<std::string> ReadFile(const Hash128& key, const std::string& path);
  void Use(const Hash128& key);
  bool WriteFile(const std::string& path, const DiskHeader& header, std::string_view packed);
  void Reject(const std::string& path, std::string_view why);
  // Logs `what` and errno's text, a limited number of times.
  void Tell(std::atomic<int>& told, std::string_view what);
  void ScanLocked(bool evict);

  const std::string directory_;
  const std::string suffix_;
  const uint64_t tag_;
  const int64_t bytes_max_;
  std::atomic<int> reads_told_ = 0, writes_told_ = 0;
  std::atomic<int64_t> corrupt_ = 0;
  mutable std::mutex mutex_;  // of what follows; held during a scan
  absl::flat_hash_set<Hash128> used_;
  bool scanned_ = false;
  int64_t entries_ = 0;
  int64_t bytes_ = 0;
  int64_t evictions_ = 0;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_DISK_STORE_H_
