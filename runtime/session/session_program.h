// SessionProgram: a Program as one Session executes it, with what each Execute would else work out
// again.
//
// Thread-safety: immutable once made. Lifetime: the Session's program table.

#ifndef NEUROND_RUNTIME_SESSION_SESSION_PROGRAM_H_
#define NEUROND_RUNTIME_SESSION_SESSION_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/program/program_store.h"

namespace neurond {

struct SessionProgram {
  explicit SessionProgram(StoredProgramPtr from);

  const StoredProgramPtr stored;
  const Program& program;
  Executable* const executable;  // nullptr if there is nothing to run
  const bool checked;
  std::vector<int>
      aliased;  // per parameter: index of the written slot that replaces it; -1: it is only read
  int64_t created_bytes = 0;  // logical bytes of the created Buffers
  int64_t result_bytes = 0;   // physical bytes of all results
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_SESSION_SESSION_PROGRAM_H_
