// Compiler: StableHLO text in, serialized executable out, asynchronously. The executable cache's
// only view of compilation: server/compiler runs sandboxed worker processes behind it, tests put a
// counter there.
//
// Thread-safety: Compile may be called from any thread. `done` runs once, on a thread of the
// implementation.

#ifndef NEUROND_RUNTIME_EXECUTABLE_COMPILER_H_
#define NEUROND_RUNTIME_EXECUTABLE_COMPILER_H_

#include <functional>
#include <string>

#include "runtime/base/error.h"

namespace neurond {

struct CompileRequest {
  std::string name;     // of the Program, for errors and logs
  std::string module;   // StableHLO text
  std::string options;  // plugin-specific
};

struct CompileResult {
  Error error;  // kInternal "compiler crashed" ... : worth another try later; kInvalidArgument,
                // kUnimplemented: deterministic
  bool deterministic = false;  // the same request will fail again
  std::string serialized;
  double seconds = 0;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual void Compile(CompileRequest request, std::function<void(CompileResult)> done) = 0;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_EXECUTABLE_COMPILER_H_
