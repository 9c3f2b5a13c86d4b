#include "runtime/program/program_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
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

// An alias's file: key, client metadata, whether there is a Program, its bytes' hash.
std::string PackAlias(std::string_view key, std::string_view meta,
                      const StoredProgramPtr& program) {
  const Hash128 hash = program == nullptr ? Hash128{} : program->hash;
  ByteWriter writer;
  writer.Text(key);
  writer.Text(meta);
  writer.Number(program != nullptr);
  writer.Number(static_cast<int64_t>(hash.high));
  writer.Number(static_cast<int64_t>(hash.low));
  return writer.Take();
}

class DiskProgramStore final : public ProgramStore {
 public:
  DiskProgramStore(ExecutableCache& cache, const std::string& directory,
                   const std::string& build_id)
      : cache_(cache),
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
  StoredProgramPtr Find(uint64_t id) const override;
  ProgramStoreCounters counters() const override;

 private:
  struct Entry {
    std::string bytes;
    StoredProgramPtr program;  // nullptr while somebody is making it
  };
  struct Alias {
    std::string key;
    std::string meta;
    StoredProgramPtr program;
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
  absl::StatusOr<Known> ReadAlias(const Hash128& hash, std::string_view key);
  // The Program that a file or the memory has under this hash.
  StoredProgramPtr FromHash(const Hash128& hash);
  StoredProgramPtr Store(const Hash128& hash, Program program);  // mutex held
  void KeepAlias(const Hash128& hash, std::string_view key, std::string_view meta,
                 const StoredProgramPtr& program);

  ExecutableCache& cache_;
  DiskStore programs_disk_;
  DiskStore aliases_disk_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  absl::flat_hash_map<Hash128, Entry> by_hash_;
  absl::flat_hash_map<Hash128, Alias> aliases_;
  int64_t alias_bytes_ = 0;
  std::vector<StoredProgramPtr> by_id_;  // id - 1
  ProgramStoreCounters counters_;
  WorkQueue writer_;  // disk writes, off the path of a miss; last, so that it ends first
};

StoredProgramPtr DiskProgramStore::Store(const Hash128& hash, Program program) {
  auto stored = std::make_shared<StoredProgram>();
  stored->id = by_id_.size() + 1;
  stored->hash = hash;
  stored->program = std::make_shared<const Program>(std::move(program));
  if (!stored->program->empty) stored->executable = cache_.Get(*stored->program);
  by_id_.push_back(stored);
  return stored;
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
        return it->second.program;
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
      ++counters_.programs;
      stored = by_hash_[hash].program = Store(hash, *std::move(program));
    } else {
      ++counters_.refused;
      by_hash_.erase(hash);
    }
  }
  made_.notify_all();
  if (stored == nullptr) return status;
  if (persist && !from_disk) {
    writer_.Post([this, hash, stored, copy = std::string(bytes)] {
      programs_disk_.Write(hash, PackProgram(copy, *stored->program));
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
    if (it != by_hash_.end() && it->second.program != nullptr) return it->second.program;
  }
  const std::optional<std::string> file = programs_disk_.Read(hash);
  if (!file) return nullptr;
  ByteReader reader(*file);
  const std::string bytes(reader.Text());
  std::optional<Program> program = DecodeProgram(reader);
  if (!program || !reader.AtEnd() || HashBytes(bytes) != hash) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = by_hash_[hash];
  if (entry.program != nullptr) return entry.bytes == bytes ? entry.program : nullptr;
  if (!entry.bytes.empty()) return nullptr;  // somebody is making it: the caller's miss finds it
  entry.bytes = bytes;
  ++counters_.disk_hits;
  ++counters_.programs;
  return entry.program = Store(hash, *std::move(program));
}

absl::StatusOr<ProgramStore::Known> DiskProgramStore::ReadAlias(const Hash128& hash,
                                                                std::string_view key) {
  const std::optional<std::string> file = aliases_disk_.Read(hash);
  if (!file) return absl::NotFoundError("unknown key");
  ByteReader reader(*file);
  const std::string_view stored_key = reader.Text();
  const std::string meta(reader.Text());
  const bool has_program = reader.Number() != 0;
  Hash128 program_hash;
  program_hash.high = static_cast<uint64_t>(reader.Number());
  program_hash.low = static_cast<uint64_t>(reader.Number());
  if (!reader.AtEnd() || stored_key != key) return absl::NotFoundError("unknown key");
  StoredProgramPtr program = has_program ? FromHash(program_hash) : nullptr;
  if (has_program && program == nullptr) return absl::NotFoundError("unknown key");
  KeepAlias(hash, key, meta, program);
  return Known{std::move(program), meta};
}

absl::StatusOr<ProgramStore::Known> DiskProgramStore::Lookup(std::string_view key) {
  const Hash128 hash = HashBytes(key);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = aliases_.find(hash);
    if (it != aliases_.end() && it->second.key == key) {
      ++counters_.alias_hits;
      return Known{it->second.program, it->second.meta};
    }
  }
  absl::StatusOr<Known> known = ReadAlias(hash, key);
  std::lock_guard<std::mutex> lock(mutex_);
  ++(known.ok() ? counters_.alias_hits : counters_.alias_misses);
  return known;
}

void DiskProgramStore::KeepAlias(const Hash128& hash, std::string_view key, std::string_view meta,
                                 const StoredProgramPtr& program) {
  const auto bytes = static_cast<int64_t>(key.size() + meta.size());
  std::lock_guard<std::mutex> lock(mutex_);
  if (static_cast<int64_t>(aliases_.size()) >= kAliasesMax ||
      alias_bytes_ + bytes > kAliasMemoryBytesMax) {
    aliases_.clear();
    alias_bytes_ = 0;
  }
  Alias& alias = aliases_[hash];
  alias_bytes_ += bytes - static_cast<int64_t>(alias.key.size() + alias.meta.size());
  alias = {std::string(key), std::string(meta), program};
}

void DiskProgramStore::Remember(std::string_view key, std::string_view meta,
                                const StoredProgramPtr& program) {
  if (static_cast<int64_t>(std::max(key.size(), meta.size())) > kAliasBytesMax) return;
  const Hash128 hash = HashBytes(key);
  KeepAlias(hash, key, meta, program);
  writer_.Post(
      [this, hash, file = PackAlias(key, meta, program)] { aliases_disk_.Write(hash, file); });
}

StoredProgramPtr DiskProgramStore::Find(uint64_t id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return id >= 1 && id <= by_id_.size() ? by_id_[id - 1] : nullptr;
}

ProgramStoreCounters DiskProgramStore::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace

std::unique_ptr<ProgramStore> MakeProgramStore(ExecutableCache& cache, std::string directory,
                                               std::string build_id) {
  return std::make_unique<DiskProgramStore>(cache, directory, build_id);
}

}  // namespace neurond
