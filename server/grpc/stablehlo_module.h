// A StableHLO module from any producer, made into a Program.
//
// Device Buffers are flat, a producer's `main` takes shaped tensors. So the module gets a new main,
// in front of the old one:
//
//   func.func public @main(flat inputs) -> (flat outputs) { reshape; call the producer's main;
//   reshape }
//
// That is what makes the signature true on every plugin: the call names main's own types, and the
// flat arguments are checked by Program.buffers. Tensors without elements have no Buffer; the new
// main makes them. Argument attributes of the old main (donation hints, shardings) are dropped.
//
// Thread-safety: pure functions.

#ifndef NEUROND_SERVER_GRPC_STABLEHLO_MODULE_H_
#define NEUROND_SERVER_GRPC_STABLEHLO_MODULE_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/program/program.h"

namespace neurond {

// `declared`: the signature the client expects; it must be main's. Program.declared is set to
// main's signature. INVALID_ARGUMENT: not one module with a static main, or another signature than
// declared. UNIMPLEMENTED: uses an op that reaches outside the program.
absl::StatusOr<Program> ProgramFromModule(std::string name, std::string_view text,
                                          const std::optional<DeclaredTypes>& declared);

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_STABLEHLO_MODULE_H_
