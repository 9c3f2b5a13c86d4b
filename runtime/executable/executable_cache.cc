#include "runtime/executable/executable_cache.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/cpu_features.h"
#include "runtime/base/disk_store.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/work_queue.h"
#include "runtime/executable/executable_entry.h"

namespace neurond {
namespace {

// Loads block on the disk and in the plugin (1-100 ms); two threads keep a warm start from queueing
// behind one large graph.
constexpr int kLoadThreads = 2;

using EntryPtr = std::shared_ptr<ExecutableEntry>;

// Everything that a late answer of the Compiler may still touch.
class CacheState : public std::enable_shared_from_this<CacheState> {
 public:
  CacheState(Plugin& plugin, Compiler& compiler, ExecutableCacheOptions options)
      : plugin_(plugin),
        compiler_(compiler),
        options_(std::move(options)),
        fingerprint_(plugin.fingerprint()),
        cpu_features_(CpuFeatures()),
        disk_(options_.directory, ".nexe", 0, options_.disk_bytes_max),
        queue_(std::make_unique<WorkQueue>(kLoadThreads)) {
    queue_->Post([this] { disk_.Scan(); });
  }

  // Ends the threads; answers that come later are dropped.
  void Stop() {
    std::unique_ptr<WorkQueue> queue;
    {
      std::lock_guard<std::mutex> lock(queue_mutex_);
      queue = std::move(queue_);
    }
  }

  ExecutablePtr Get(const Program& program);
  ExecutableCacheCounters counters() const;
  std::vector<ExecutableInfo> List() const;
  int64_t Clear();

 private:
  void Post(std::function<void()> task);
  void LoadOrCompile(const EntryPtr& entry);
  bool LoadFromDisk(ExecutableEntry& entry);
  void CompileHere(ExecutableEntry& entry);
  void Compiled(ExecutableEntry& entry, CompileResult result);
  void Failed(ExecutableEntry& entry, Error error, bool deterministic);
  // The end of every successful load and compile.
  void Loaded(ExecutableEntry& entry, LoadedExecutablePtr executable, int64_t serialized_bytes,
              double seconds);
  void EvictLocked();
  int64_t DropUnusedLocked();

  Plugin& plugin_;
  Compiler& compiler_;
  const ExecutableCacheOptions options_;
  const std::string fingerprint_;
  const std::string cpu_features_;
  DiskStore disk_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<Hash128, EntryPtr> entries_;
  int64_t memory_bytes_ = 0;  // serialized, of entries_
  ExecutableCacheCounters counters_;
  std::mutex compile_here_mutex_;
  std::mutex queue_mutex_;  // only between Stop and answers of the Compiler
  std::unique_ptr<WorkQueue> queue_;
};

ExecutablePtr CacheState::Get(const Program& program) {
  const std::string_view parts[] = {program.module, fingerprint_, options_.options, cpu_features_};
  const Hash128 key = HashParts(parts);
  EntryPtr entry;
  bool fresh = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    EntryPtr& slot = entries_[key];
    fresh = slot == nullptr;
    if (fresh) {
      const auto start = [weak = weak_from_this()](EntryPtr started) {
        const std::shared_ptr<CacheState> self = weak.lock();
        if (self != nullptr) self->Post([self, started] { self->LoadOrCompile(started); });
      };
      slot = std::make_shared<ExecutableEntry>(key, program.name, program.module, start);
    } else if (slot->loaded() != nullptr) {
      ++counters_.memory_hits;
    }
    entry = slot;
    if (fresh) EvictLocked();
  }
  entry->CountUse();
  if (fresh) {
    Post([self = shared_from_this(), entry] { self->LoadOrCompile(entry); });
  } else if (entry->loaded() == nullptr) {
    entry->Retry();
  }
  return entry;
}

void CacheState::EvictLocked() {
  if (static_cast<int64_t>(entries_.size()) <= options_.memory_entries_max &&
      memory_bytes_ <= options_.memory_bytes_max) {
    return;
  }
  DropUnusedLocked();
}

int64_t CacheState::DropUnusedLocked() {
  const size_t before = entries_.size();
  absl::erase_if(entries_, [this](const auto& item) {
    const bool unused = item.second.use_count() == 1 && item.second->resolved();
    if (unused) memory_bytes_ -= item.second->serialized_bytes();
    return unused;
  });
  return static_cast<int64_t>(before - entries_.size());
}

void CacheState::Loaded(ExecutableEntry& entry, LoadedExecutablePtr executable,
                        int64_t serialized_bytes, double seconds) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    memory_bytes_ += serialized_bytes;
  }
  entry.Resolve(std::move(executable), serialized_bytes, seconds);
}

void CacheState::Post(std::function<void()> task) {
  std::lock_guard<std::mutex> lock(queue_mutex_);
  if (queue_ != nullptr) queue_->Post(std::move(task));
}

void CacheState::LoadOrCompile(const EntryPtr& entry) {
  if (!plugin_.can_serialize()) {
    CompileHere(*entry);
    return;
  }
  if (LoadFromDisk(*entry)) return;
  compiler_.Compile({entry->name(), entry->module(), options_.options},
                    [weak = weak_from_this(), entry](CompileResult result) {
                      const std::shared_ptr<CacheState> self = weak.lock();
                      if (self == nullptr) return;
                      self->Post([self, entry, result = std::move(result)]() mutable {
                        self->Compiled(*entry, std::move(result));
                      });
                    });
}

bool CacheState::LoadFromDisk(ExecutableEntry& entry) {
  const std::optional<std::string> serialized = disk_.Read(entry.hash());
  if (!serialized) return false;
  absl::StatusOr<LoadedExecutablePtr> loaded = plugin_.Load(*serialized);
  if (!loaded.ok()) {
    spdlog::warn("cache: {} ({}) does not load and is compiled again: {}", entry.key(),
                 entry.name(), std::string(loaded.status().message()));
    std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.corrupt_entries;
    return false;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.disk_hits;
  }
  Loaded(entry, *std::move(loaded), static_cast<int64_t>(serialized->size()), 0);
  return true;
}

void CacheState::CompileHere(ExecutableEntry& entry) {
  absl::StatusOr<LoadedExecutablePtr> loaded;
  double seconds = 0;
  {
    // One at a time: not every library's compiler is safe on two threads of a process.
    std::lock_guard<std::mutex> alone(compile_here_mutex_);
    const auto start = std::chrono::steady_clock::now();
    loaded = plugin_.CompileAndLoad(entry.module(), options_.options);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.compiles;
    counters_.compile_seconds += seconds;
  }
  if (loaded.ok()) {
    Loaded(entry, *std::move(loaded), 0, seconds);
  } else {
    const absl::StatusCode code = loaded.status().code();
    Failed(entry, Error::From(loaded.status()),
           code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kUnimplemented);
  }
}

void CacheState::Compiled(ExecutableEntry& entry, CompileResult result) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.compiles;
    counters_.compile_seconds += result.seconds;
  }
  if (!result.error.ok()) {
    Failed(entry, std::move(result.error), result.deterministic);
    return;
  }
  absl::StatusOr<LoadedExecutablePtr> loaded = plugin_.Load(result.serialized);
  if (!loaded.ok()) {
    Failed(entry, Error::From(loaded.status()), false);
    return;
  }
  // Waiting Sessions go on before the disk is written.
  Loaded(entry, *std::move(loaded), static_cast<int64_t>(result.serialized.size()), result.seconds);
  disk_.Write(entry.hash(), result.serialized);
}

void CacheState::Failed(ExecutableEntry& entry, Error error, bool deterministic) {
  error.message = Shortened(error.message, kErrorTextBytesMax);
  spdlog::warn("compiling {} failed: {}", entry.name(), error.message);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.compile_failures;
  }
  error.message = Cat("compiling ", entry.name(), " failed: ", error.message);
  entry.Fail(std::move(error), deterministic);
}

ExecutableCacheCounters CacheState::counters() const {
  const DiskStoreCounters disk = disk_.counters();
  std::lock_guard<std::mutex> lock(mutex_);
  ExecutableCacheCounters counters = counters_;
  counters.corrupt_entries += disk.corrupt;
  counters.evictions = disk.evictions;
  counters.disk_bytes = disk.bytes;
  counters.disk_entries = disk.entries;
  counters.entries = static_cast<int64_t>(entries_.size());
  return counters;
}

std::vector<ExecutableInfo> CacheState::List() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ExecutableInfo> list;
  list.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) list.push_back(entry->Info());
  return list;
}

int64_t CacheState::Clear() {
  const int64_t dropped = disk_.Clear();
  std::lock_guard<std::mutex> lock(mutex_);
  return dropped + DropUnusedLocked();
}

class DiskExecutableCache final : public ExecutableCache {
 public:
  DiskExecutableCache(Plugin& plugin, Compiler& compiler, ExecutableCacheOptions options)
      : state_(std::make_shared<CacheState>(plugin, compiler, std::move(options))) {}
  ~DiskExecutableCache() override { state_->Stop(); }

  ExecutablePtr Get(const Program& program) override { return state_->Get(program); }
  ExecutableCacheCounters counters() const override { return state_->counters(); }
  std::vector<ExecutableInfo> List() const override { return state_->List(); }
  int64_t Clear() override { return state_->Clear(); }

 private:
  const std::shared_ptr<CacheState> state_;
};

}  // namespace

std::unique_ptr<ExecutableCache> MakeExecutableCache(Plugin& plugin, Compiler& compiler,
                                                     ExecutableCacheOptions options) {
  return std::make_unique<DiskExecutableCache>(plugin, compiler, std::move(options));
}

}  // namespace neurond
