// Executables by content: in memory, then on disk, then compiled. At most one load or compile at a
// time per key, whoever asks.
//
// The key is a 128-bit hash of {module text, plugin fingerprint, options, CPU features}; the
// fingerprint names whatever else the plugin's compiler depends on. On disk an
// entry is <directory>/<2 hex>/<32 hex>.nexe: header {magic, version, key, sizes, checksum},
// zstd-compressed serialized executable; written to a temporary name and renamed, evicted
// oldest-used first over `disk_bytes_max`, safe to delete at any time. A corrupt entry is a miss
// and a log line. Deterministic failures are remembered in memory only.
//
// Thread-safety: all methods, from any thread. Callbacks run inline or on a cache or compiler
// thread, never under a lock.

#ifndef NEUROND_RUNTIME_EXECUTABLE_EXECUTABLE_CACHE_H_
#define NEUROND_RUNTIME_EXECUTABLE_EXECUTABLE_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/limits.h"
#include "runtime/device/plugin.h"
#include "runtime/executable/compiler.h"
#include "runtime/program/program.h"

namespace neurond {

struct ExecutableCacheOptions {
  std::string directory;  // empty: memory only
  int64_t disk_bytes_max = int64_t{20} << 30;
  // Beyond either, those in memory go that no Program holds.
  int memory_entries_max = 16384;
  int64_t memory_bytes_max = kExecutableMemoryBytesMax;  // serialized
  std::string options;                                   // handed to the compiler, part of the key
};

struct ExecutableCacheCounters {
  int64_t memory_hits = 0, disk_hits = 0, compiles = 0, compile_failures = 0, corrupt_entries = 0,
          evictions = 0;
  int64_t entries = 0, disk_bytes = 0, disk_entries = 0;
  double compile_seconds = 0;
};

struct ExecutableInfo {
  std::string key;   // 32 hex
  std::string name;  // of the Program
  int64_t serialized_bytes = 0;
  double compile_seconds = 0;
  int64_t uses = 0;
};

// One key's state. Shared by every Program with the same module.
class Executable {
 public:
  virtual ~Executable() = default;
  // 32 hex, as in ExecutableInfo; empty if this implementation has none.
  virtual std::string key() const { return {}; }
  // nullptr until ready; one atomic load.
  virtual LoadedExecutable* loaded() const = 0;
  // Ready or failed.
  virtual bool resolved() const = 0;
  virtual Error error() const = 0;
  // Runs `done` when resolved; inline if it is.
  virtual void OnResolved(std::function<void()> done) = 0;
  // Tries again after a failure that may not repeat, a few times in all; else does nothing.
  virtual void Retry() {}
  // Counts the tries. Whoever waits and finds another number is no longer registered: what it
  // waited for failed, and somebody asked for another try.
  virtual int tries() const { return 1; }
};
using ExecutablePtr = std::shared_ptr<Executable>;

class ExecutableCache {
 public:
  virtual ~ExecutableCache() = default;
  // Starts what is missing and returns at once. A failed, non-deterministic entry is tried again by
  // the next Get.
  virtual ExecutablePtr Get(const Program& program) = 0;
  virtual ExecutableCacheCounters counters() const = 0;
  virtual std::vector<ExecutableInfo> List() const = 0;
  // Drops what no Session uses, in memory and on disk. Returns the number of entries dropped.
  virtual int64_t Clear() = 0;
};

std::unique_ptr<ExecutableCache> MakeExecutableCache(Plugin& plugin, Compiler& compiler,
                                                     ExecutableCacheOptions options);

}  // namespace neurond

#endif  // NEUROND_RUNTIME_EXECUTABLE_EXECUTABLE_CACHE_H_
