// Programs by content, and the persistent alias key -> (Program, client metadata).
//
// A Program is known by the 128-bit hash of its bytes. The alias lets a later process of the same
// user skip tracing: full key bytes (user, build of the client, op, argument metadata) lead to the
// Program and to the bytes the client stored with it; to no Program where the client remembered
// that there is none. Both live in memory and on disk (<directory>/programs, <directory>/aliases),
// in files that carry this daemon's build id: after any change to the lowering nothing old is met,
// nor what the old one refused. Full key bytes are compared, never only a hash.
//
// Whoever may still name a Program by its id holds it: beyond `memory_bytes_max` those go that
// nobody else holds, the longest unused first, and are read from disk or defined again.
//
// Thread-safety: all methods, from any thread.

#ifndef NEUROND_RUNTIME_PROGRAM_PROGRAM_STORE_H_
#define NEUROND_RUNTIME_PROGRAM_PROGRAM_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/base/hash.h"
#include "runtime/base/limits.h"
#include "runtime/executable/executable_cache.h"
#include "runtime/program/graph.h"
#include "runtime/program/program.h"

namespace neurond {

struct ProgramStoreCounters {
  int64_t lowerings = 0;  // graphs decoded and lowered; modules have nothing to lower
  int64_t memory_hits = 0, disk_hits = 0, alias_hits = 0, alias_misses = 0, programs = 0,
          refused = 0;
};

// A Program a Session may execute. Ids are daemon-wide, start at 1 and are never reused.
struct StoredProgram {
  uint64_t id = 0;
  Hash128 hash;  // of the bytes it was defined with
  ProgramPtr program;
  ExecutablePtr executable;  // nullptr if program->empty
};
using StoredProgramPtr = std::shared_ptr<const StoredProgram>;

class ProgramStore {
 public:
  virtual ~ProgramStore() = default;

  // Program bytes -> Program: from memory, from disk, or decode + Lower. Asks the cache for its
  // Executable. `decode` turns the bytes into a Graph (server/wire; runtime knows no protobuf).
  using Decode = std::function<absl::StatusOr<Graph>(std::string_view bytes)>;
  virtual absl::StatusOr<StoredProgramPtr> Define(std::string_view bytes, const Decode& decode) = 0;
  // A StableHLO module from any producer, with its signature (gRPC ProgramService.Compile).
  virtual absl::StatusOr<StoredProgramPtr> DefineModule(Program program) = 0;

  struct Known {
    StoredProgramPtr program;  // nullptr: remembered without one
    std::string meta;
  };
  // NOT_FOUND if unknown.
  virtual absl::StatusOr<Known> Lookup(std::string_view key) = 0;
  // `program`: of this store, or nullptr. A key or meta over kAliasBytesMax is not kept.
  virtual void Remember(std::string_view key, std::string_view meta,
                        const StoredProgramPtr& program) = 0;

  // nullptr if unknown.
  virtual StoredProgramPtr Find(uint64_t id) = 0;
  virtual ProgramStoreCounters counters() const = 0;
};

std::unique_ptr<ProgramStore> MakeProgramStore(ExecutableCache& cache, std::string directory,
                                               std::string build_id,
                                               int64_t memory_bytes_max = kProgramMemoryBytesMax);

}  // namespace neurond

#endif  // NEUROND_RUNTIME_PROGRAM_PROGRAM_STORE_H_
