// What the daemon and a compiler worker say to each other over the worker's stdin and stdout. Both
// are of one build, on one host.
//
//   worker -> daemon  WorkerReply, payload = the plugin's fingerprint        once, after the plugin
//   is loaded daemon -> worker  WorkerRequest, options, module worker -> daemon  WorkerReply,
//   payload = serialized executable or error message
// ... one request at a time. End of file on stdin ends the worker.
//
// A worker has compiled hostile programs: the daemon checks what it says.

#ifndef NEUROND_SERVER_COMPILER_PROTOCOL_H_
#define NEUROND_SERVER_COMPILER_PROTOCOL_H_

#include <cstdint>

namespace neurond {

inline constexpr uint32_t kWorkerMagic = 0x4e524357;  // "NRCW"

struct WorkerRequest {
  uint32_t magic;
  uint32_t reserved;
  uint64_t options_bytes;
  uint64_t module_bytes;
};
static_assert(sizeof(WorkerRequest) == 24);

struct WorkerReply {
  uint32_t magic;
  uint32_t code;  // absl::StatusCode
  uint64_t payload_bytes;
  double seconds;
};
static_assert(sizeof(WorkerReply) == 24);

}  // namespace neurond

#endif  // NEUROND_SERVER_COMPILER_PROTOCOL_H_
