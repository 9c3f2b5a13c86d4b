#include "runtime/session/session_program.h"

#include <algorithm>
#include <utility>

namespace neurond {

SessionProgram::SessionProgram(StoredProgramPtr from)
    : stored(std::move(from)),
      program(*stored->program),
      executable(stored->executable.get()),
      checked(program.check_result >= 0) {
  for (int slot : program.parameters) {
    auto it = std::find(program.written.begin(), program.written.end(), slot);
    aliased.push_back(it == program.written.end() ? -1
                                                  : static_cast<int>(it - program.written.begin()));
  }
  for (const BufferSpec& spec : program.created) {
    created_bytes += spec.elements * DTypeBytes(spec.dtype);
  }
  result_bytes = created_bytes;
  for (int slot : program.written) {
    result_bytes += program.buffers[slot].elements * DTypeBytes(program.buffers[slot].dtype);
  }
}

}  // namespace neurond
