// Record decoder: the bytes of one ring record -> a plain struct, for the ring and for gRPC Attach
// alike.
//
// `bytes` must be the daemon's own copy of the record, 8-byte aligned and exactly as long as its
// header says. Everything that can be judged from the record alone is checked here: sizes, counts,
// stream numbers, staging ranges. Names (Buffers, Programs, devices) are the Session's to judge.
// Nothing is allocated for a good record; spans point into `bytes`.
//
// Thread-safety: pure functions.

#ifndef NEUROND_SERVER_WIRE_RING_DECODER_H_
#define NEUROND_SERVER_WIRE_RING_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "proto/ring/ring_abi.h"

namespace neurond::wire {

struct FreeMany {
  ring::RecordHeader h;
  std::span<const uint64_t> buffers;
};

struct Execute {
  ring::ExecuteRecord fixed;
  std::span<const uint64_t> inputs;
  std::span<const uint64_t> outputs;
  std::span<const int64_t> words;
};

using Record = std::variant<ring::AllocRecord, ring::FreeRecord, FreeMany, Execute,
                            ring::WriteRecord, ring::ReadRecord, ring::CopyRecord,
                            ring::EventRecord, ring::WaitRecord, ring::LargeRecord>;

// INVALID_ARGUMENT says what was expected and what was seen. kPad is the RingReader's affair and
// refused here.
absl::StatusOr<Record> DecodeRecord(std::span<const std::byte> bytes);

// "Execute", "Write" ... for messages; "type 77" if unknown.
std::string RecordName(uint16_t type);

}  // namespace neurond::wire

#endif  // NEUROND_SERVER_WIRE_RING_DECODER_H_
