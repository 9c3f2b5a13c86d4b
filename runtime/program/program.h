// A Program: a validated, lowered Graph. What a Session needs to submit an Execute, and what a
// Compiler compiles.
//
// The StableHLO module's main takes, in this order, one flat tensor per buffer slot that
// `parameters` lists, then, if word_count > 0, one tensor<word_count x i64>. It returns, in this
// order: the new Buffers (flat, one per creating output), the next contents of each written buffer
// slot (in `written` order), and, if `checks` is not empty, a tensor<2xi64> {number of the first
// failed check counted from 1, or 0; the offending value}. A written slot's parameter carries the
// tf.aliasing_output attribute, so that the plugin may update it in place.
//
// Thread-safety: immutable once made; shared as shared_ptr<const Program>.

#ifndef NEUROND_RUNTIME_PROGRAM_PROGRAM_H_
#define NEUROND_RUNTIME_PROGRAM_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/program/graph.h"

namespace neurond {

// A run-time condition that the program tests; `message` may contain "{value}".
struct CheckSpec {
  ErrorKind kind = ErrorKind::kRuntime;
  std::string message;
};

// A range check at submission: 0 <= words[word] and words[word] + span <= elements (elements of the
// View's dtype).
struct OffsetBound {
  int word = 0;
  int buffer = 0;
  int64_t span = 0;
  int64_t elements = 0;
};

// A module from another producer: the shaped types of its own main. `buffers` and `created` are the
// same tensors, flat, without those of zero elements.
struct DeclaredTypes {
  std::vector<TensorType> inputs, outputs;
};

struct Program {
  std::string name;
  std::vector<BufferSpec> buffers;  // one per slot; the Execute's inputs must match exactly
  std::vector<int> parameters;  // slots that the module takes, in order (a zero-element or unused
                                // slot is left out)
  std::vector<BufferSpec> created;  // one per creating output, in order
  std::vector<int>
      created_results;       // module result index per created Buffer; -1: zero elements, no result
  std::vector<int> written;  // slots that get a next Version
  std::vector<int> written_results;  // module result index per written slot
  int check_result = -1;             // module result index; -1: no checks
  std::vector<CheckSpec> checks;
  std::vector<OffsetBound> bounds;
  int word_count = 0;
  int result_count = 0;
  std::string module;  // StableHLO text; module @<name>
  std::string detail;  // "float32[4,4], int64[3]" of the inputs, for errors
  std::string stack;   // the user's lines of the nodes, for errors
  bool empty = false;  // nothing to run: no results at all
  std::optional<DeclaredTypes>
      declared;  // only for modules from other producers; not part of any hash
};
using ProgramPtr = std::shared_ptr<const Program>;

}  // namespace neurond

#endif  // NEUROND_RUNTIME_PROGRAM_PROGRAM_H_
