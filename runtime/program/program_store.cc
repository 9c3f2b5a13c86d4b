#include "runtime/program/program_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/disk_store.h"
#include "runtime/base/hash.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/base/work_queue.h"
#include "runtime/lowering/lowering.h"
#include "runtime/program/program_codec.h"

namespace neurond {
namespace {

// A Program's file: its bytes as the client sent them, then the lowered Program.
std::string PackProgram(std::string_view bytes, const Program& program) {
  ByteWriter writer;
  writer.Text(bytes);
  EncodeProgram(program, writer);
  return writer.Take();
}

struct Alias {
  std::string key;
  std::string meta;
  std::optional<Hash128> program;
};

// An alias's file: key, client metadata, whether there is a Program, its bytes' hash.
std::string PackAlias(const Alias& alias) {
  const Hash128 hash = alias.program.value_or(Hash128{});
  ByteWriter writer;
  writer.Text(alias.key);
  writer.Text(alias.meta);
  writer.Number(alias.program.has_value());
  writer.Number(static_cast<int64_t>(hash.high));
  writer.Number(static_cast<int64_t>(hash.low));
  return writer.Take();
}

// What one Program keeps in memory, about; its module is in the Executable once more.
int64_t MemoryBytes(std::string_view bytes, const Program& program) {
  return kProgramOverheadBytes + static_cast<int64_t>(bytes.size() + 2 * program.module.size());
}

class DiskProgramStore final : public ProgramStore {
 public:
  DiskProgramStore(ExecutableCache& cache, const std::string& directory,
                   const std::string& build_id, int64_t memory_bytes_max)
      : cache_(cache),
        memory_bytes_max_(memory_bytes_max),
        programs_disk_(Folder(directory, "programs"), ".nprog", HashBytes(build_id).low,
                       kProgramDiskBytesMax),
        aliases_disk_(Folder(directory, "aliases"), ".nalias", HashBytes(build_id).low,
                      kProgramDiskBytesMax),
        writer_(1) {}

  absl::StatusOr<StoredProgramPtr> Define(std::string_view bytes, const Decode& decode) override;
  absl::StatusOr<StoredProgramPtr> DefineModule(Program program) override;
  absl::StatusOr<Known> Lookup(std::string_view key) override;
  void Remember(std::string_view key, std::string_view meta,
                const StoredProgramPtr& program) override;
  StoredProgramPtr Find(uint64_t id) override;
  ProgramStoreCounters counters() const override;

 private:
  struct Entry {
    std::string bytes;
    StoredProgramPtr program;          // nullptr while somebody is making it
    std::list<Hash128>::iterator age;  // its place in by_age_, once there is a program
  };
  using Make = std::function<absl::StatusOr<Program>()>;
  enum class Source { kGraph, kModule };

  static std::string Folder(const std::string& directory, std::string_view name) {
    return directory.empty() ? directory : Cat(directory, "/", name);
  }

  // The Program with these bytes; `make` is run by one caller at a time per Program, the others
  // wait for it.
  absl::StatusOr<StoredProgramPtr> GetOrMake(const Hash128& hash, std::string_view bytes,
                                             const Make& make, Source source);
  std::optional<Program> ReadProgram(const Hash128& hash, std::string_view bytes);
  std::optional<Alias> ReadAlias(const Hash128& hash, std::string_view key);
  std::optional<Alias> FindAlias(const Hash128& hash, std::string_view key);
  // The Program that a file or the memory has under this hash.
  StoredProgramPtr FromHash(const Hash128& hash);
  // Mutex held: finishes the Entry; notes that an Entry was used; drops the oldest that nobody
  // else holds until the others fit.
  StoredProgramPtr Store(const Hash128& hash, Entry& entry, Program program);
  StoredProgramPtr Use(Entry& entry);
  void Trim();
  void KeepAlias(const Hash128& hash, Alias alias);

  ExecutableCache& cache_;
  const int64_t memory_bytes_max_;
  DiskStore programs_disk_;
  DiskStore aliases_disk_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  absl::flat_hash_map<Hash128, Entry> by_hash_;
  absl::flat_hash_map<Hash128, Alias> aliases_;
  int64_t alias_bytes_ = 0;
  absl::flat_hash_map<uint64_t, Hash128> by_id_;
  std::list<Hash128> by_age_;  // of the finished Entries, the last used at the end
  int64_t program_bytes_ = 0;  // of the finished Entries
  uint64_t last_id_ = 0;
  ProgramStoreCounters counters_;
  WorkQueue writer_;  // disk writes, off the path of a miss; last, so that it ends first
};

StoredProgramPtr DiskProgramStore::Store(const Hash128& hash, Entry& entry, Program program) {
  auto stored = std::make_shared<StoredProgram>();
  stored->id = ++last_id_;
  stored->hash = hash;
  stored->program = std::make_shared<const Program>(std::move(program));
  if (!stored->program->empty) stored->executable = cache_.Get(*stored->program);
  by_id_[stored->id] = hash;
  entry.program = stored;
  entry.age = by_age_.insert(by_age_.end(), hash);
  program_bytes_ += MemoryBytes(entry.bytes, *stored->program);
  ++counters_.programs;
  Trim();
  return stored;
}

StoredProgramPtr DiskProgramStore::Use(Entry& entry) {
  by_age_.splice(by_age_.end(), by_age_, entry.age);
  return entry.program;
}

void DiskProgramStore::Trim() {
  for (auto age = by_age_.begin(); program_bytes_ > memory_bytes_max_ && age != by_age_.end();) {
    auto it = by_hash_.find(*age);
    // Whoever else holds it, got it under the mutex: nobody can come between.
    if (it->second.program.use_count() > 1) {
      ++age;
      continue;
    }
    program_bytes_ -= MemoryBytes(it->second.bytes, *it->second.program->program);
    --counters_.programs;
    by_id_.erase(it->second.program->id);
    by_hash_.erase(it);
    age = by_age_.erase(age);
  }
}

std::optional<Program> DiskProgramStore::ReadProgram(const Hash128& hash, std::string_view bytes) {
  const std::optional<std::string> file = programs_disk_.Read(hash);
  if (!file) return std::nullopt;
  ByteReader reader(*file);
  if (reader.Text() != bytes) return std::nullopt;  // another Program with this hash
  std::optional<Program> program = DecodeProgram(reader);
  return program && reader.AtEnd() ? std::move(program) : std::nullopt;
}

absl::StatusOr<StoredProgramPtr> DiskProgramStore::GetOrMake(const Hash128& hash,
                                                             std::string_view bytes,
                                                             const Make& make, Source source) {
  const bool persist = source == Source::kGraph;  // a module is as quickly taken in anew
  {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      auto it = by_hash_.find(hash);
      if (it == by_hash_.end()) break;
      if (it->second.bytes != bytes) {
        return absl::InternalError("two Programs have the same hash; this one is not stored");
      }
      if (it->second.program != nullptr) {
        ++counters_.memory_hits;
        return Use(it->second);
      }
      made_.wait(lock);
    }
    by_hash_[hash].bytes = bytes;
  }
  std::optional<Program> program = persist ? ReadProgram(hash, bytes) : std::nullopt;
  const bool from_disk = program.has_value();
  absl::Status status;
  if (!from_disk) {
    absl::StatusOr<Program> lowered = make();
    if (lowered.ok()) status = CheckProgram(*lowered);
    if (!lowered.ok()) status = lowered.status();
    if (status.ok()) program = *std::move(lowered);
  }
  StoredProgramPtr stored;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (program.has_value()) {
      if (source == Source::kGraph) ++(from_disk ? counters_.disk_hits : counters_.lowerings);
      stored = Store(hash, by_hash_[hash], *std::move(program));
    } else {
      ++counters_.refused;
      by_hash_.erase(hash);
    }
  }
  made_.notify_all();
  if (stored == nullptr) return status;
  if (persist && !from_disk) {
    writer_.Post([this, hash, program = stored->program, copy = std::string(bytes)] {
      programs_disk_.Write(hash, PackProgram(copy, *program));
    });
  }
  return stored;
}

absl::StatusOr<StoredProgramPtr> DiskProgramStore::Define(std::string_view bytes,
                                                          const Decode& decode) {
  if (static_cast<int64_t>(bytes.size()) > kProgramBytesMax) {
    return absl::InvalidArgumentError(
        Cat("expected a Program of at most ", kProgramBytesMax, " bytes, got ", bytes.size()));
  }
  return GetOrMake(
      HashBytes(bytes), bytes,
      [&]() -> absl::StatusOr<Program> {
        absl::StatusOr<Graph> graph = decode(bytes);
        if (!graph.ok()) return graph.status();
        return Lower(*graph);
      },
      Source::kGraph);
}

absl::StatusOr<StoredProgramPtr> DiskProgramStore::DefineModule(Program program) {
  ByteWriter writer;
  EncodeProgram(program, writer);
  const std::string bytes = writer.Take();
  const std::string_view parts[] = {"module", bytes};
  return GetOrMake(
      HashParts(parts), bytes, [&]() -> absl::StatusOr<Program> { return std::move(program); },
      Source::kModule);
}

StoredProgramPtr DiskProgramStore::FromHash(const Hash128& hash) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = by_hash_.find(hash);
    if (it != by_hash_.end() && it->second.program != nullptr) return Use(it->second);
  }
  const std::optional<std::string> file = programs_disk_.Read(hash);
  if (!file) return nullptr;
  ByteReader reader(*file);
  const std::string bytes(reader.Text());
  std::optional<Program> program = DecodeProgram(reader);
  if (!program || !reader.AtEnd() || HashBytes(bytes) != hash) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = by_hash_[hash];
  if (entry.program != nullptr) return entry.bytes == bytes ? Use(entry) : nullptr;
  if (!entry.bytes.empty()) return nullptr;  // somebody is making it: the caller's miss finds it
  entry.bytes = bytes;
  ++counters_.disk_hits;
  return Store(hash, entry, *std::move(program));
}

std::optional<Alias> DiskProgramStore::ReadAlias(const Hash128& hash, std::string_view key) {
  const std::optional<std::string> file = aliases_disk_.Read(hash);
  if (!file) return std::nullopt;
  ByteReader reader(*file);
  Alias alias;
  alias.key = reader.Text();
  alias.meta = reader.Text();
  const bool has_program = reader.Number() != 0;
  Hash128 program;
  program.high = static_cast<uint64_t>(reader.Number());
  program.low = static_cast<uint64_t>(reader.Number());
  if (has_program) alias.program = program;
  if (!reader.AtEnd() || alias.key != key) return std::nullopt;
  return alias;
}

std::optional<Alias> DiskProgramStore::FindAlias(const Hash128& hash, std::string_view key) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = aliases_.find(hash);
    if (it != aliases_.end() && it->second.key == key) return it->second;
  }
  std::optional<Alias> alias = ReadAlias(hash, key);
  if (alias) KeepAlias(hash, *alias);
  return alias;
}

absl::StatusOr<ProgramStore::Known> DiskProgramStore::Lookup(std::string_view key) {
  const std::optional<Alias> alias = FindAlias(HashBytes(key), key);
  Known known;
  bool found = alias.has_value();
  if (found) {
    known.meta = alias->meta;
    if (alias->program) known.program = FromHash(*alias->program);
    found = known.program != nullptr || !alias->program;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  ++(found ? counters_.alias_hits : counters_.alias_misses);
  if (!found) return absl::NotFoundError("unknown key");
  return known;
}

void DiskProgramStore::KeepAlias(const Hash128& hash, Alias alias) {
  const auto bytes = static_cast<int64_t>(alias.key.size() + alias.meta.size());
  std::lock_guard<std::mutex> lock(mutex_);
  if (static_cast<int64_t>(aliases_.size()) >= kAliasesMax ||
      alias_bytes_ + bytes > kAliasMemoryBytesMax) {
    aliases_.clear();
    alias_bytes_ = 0;
  }
  Alias& kept = aliases_[hash];
  alias_bytes_ += bytes - static_cast<int64_t>(kept.key.size() + kept.meta.size());
  kept = std::move(alias);
}

void DiskProgramStore::Remember(std::string_view key, std::string_view meta,
                                const StoredProgramPtr& program) {
  if (static_cast<int64_t>(std::max(key.size(), meta.size())) > kAliasBytesMax) return;
  const Hash128 hash = HashBytes(key);
  Alias alias{std::string(key), std::string(meta), std::nullopt};
  if (program != nullptr) alias.program = program->hash;
  writer_.Post([this, hash, file = PackAlias(alias)] { aliases_disk_.Write(hash, file); });
  KeepAlias(hash, std::move(alias));
}

StoredProgramPtr DiskProgramStore::Find(uint64_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : Use(by_hash_.find(it->second)->second);
}

ProgramStoreCounters DiskProgramStore::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace

std::unique_ptr<ProgramStore> MakeProgramStore(ExecutableCache& cache, std::string directory,
                                               std::string build_id, int64_t memory_bytes_max) {
  return std::make_unique<DiskProgramStore>(cache, directory, build_id, memory_bytes_max);
}

}  // namespace neurond
