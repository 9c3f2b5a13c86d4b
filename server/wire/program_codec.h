// Program bytes (a serialized neurond.v1.Program) -> Graph, for the ring and for gRPC alike.
//
// The bytes come from clients: the shape of the message is checked here (parse, list depth, counts
// that a 32-bit index can name), the meaning by Validate() and Lower(). Fails with
// INVALID_ARGUMENT.
//
// Thread-safety: pure functions, callable from any thread.

#ifndef NEUROND_SERVER_WIRE_PROGRAM_CODEC_H_
#define NEUROND_SERVER_WIRE_PROGRAM_CODEC_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/program/graph.h"

namespace neurond::wire {

absl::StatusOr<Graph> DecodeProgram(std::string_view bytes);

}  // namespace neurond::wire

#endif  // NEUROND_SERVER_WIRE_PROGRAM_CODEC_H_
