// Lowering: Graph -> Program, core ATen to StableHLO text.
//
// One table maps an op's name to its lowering function; each family of ops is one file. Views are
// read and written in view.h and nowhere else. An op that the table does not know, or a form of it
// that its lowering does not handle, is UNIMPLEMENTED with the op's name; wrong arguments are
// INVALID_ARGUMENT. Nothing is ever computed differently in silence.
//
// Thread-safety: pure function, callable from any thread.

#ifndef NEUROND_RUNTIME_LOWERING_LOWERING_H_
#define NEUROND_RUNTIME_LOWERING_LOWERING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/program/graph.h"
#include "runtime/program/program.h"

namespace neurond {

// Validates and lowers. `graph` must satisfy Validate(graph); it is checked here.
absl::StatusOr<Program> Lower(const Graph& graph);

// Names of all ops with a lowering, sorted.
std::vector<std::string> LoweredOps();

}  // namespace neurond

#endif  // NEUROND_RUNTIME_LOWERING_LOWERING_H_
