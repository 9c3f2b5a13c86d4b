// RingReader: the consumer side of the submission ring. Walks from `tail` to a `head` that the
// client published, skips padding, and copies each record into its own memory before anyone looks
// at it.
//
// The data area is hostile shared memory: a record's length is read once, checked, and patched into
// the copy, so that what is decoded is what was checked. After an error the reader is useless; the
// session ends.
//
// Thread-safety: one thread.

#ifndef NEUROND_SERVER_WIRE_RING_READER_H_
#define NEUROND_SERVER_WIRE_RING_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/ring/ring_abi.h"

namespace neurond::wire {

class RingReader {
 public:
  // `data`: the ring's data area, kRingBytes long; outlives the reader.
  explicit RingReader(const std::byte* data);

  // The next whole record before `head`, valid until the next call; empty if there is none.
  // INVALID_ARGUMENT for a bad head, length or sequence number.
  absl::StatusOr<std::span<const std::byte>> Next(uint64_t head);
  // What a kLarge record stands for, copied from staging; valid until the next call of CopyLarge.
  absl::StatusOr<std::span<const std::byte>> CopyLarge(const ring::LargeRecord& large,
                                                       const std::byte* staging);

  uint64_t tail() const { return tail_; }          // bytes consumed
  uint64_t last_seq() const { return last_seq_; }  // of the last record returned

 private:
  const std::byte* const data_;
  uint64_t tail_ = 0;
  uint64_t last_seq_ = 0;
  const std::unique_ptr<uint64_t[]> copy_;  // kRecordBytesMax; its pages appear on first touch
  std::vector<uint64_t> large_;             // grows on demand
};

}  // namespace neurond::wire

#endif  // NEUROND_SERVER_WIRE_RING_READER_H_
