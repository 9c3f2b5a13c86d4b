#include "server/wire/ring_reader.h"

#include <cstring>

#include "runtime/base/text.h"

namespace neurond::wire {

using ring::RecordHeader;

RingReader::RingReader(const std::byte* data)
    : data_(data), copy_(std::make_unique_for_overwrite<uint64_t[]>(ring::kRecordBytesMax / 8)) {}

absl::StatusOr<std::span<const std::byte>> RingReader::Next(uint64_t head) {
  for (;;) {
    const uint64_t available = head - tail_;
    if (available > ring::kRingBytes || available % 8 != 0) {
      return absl::InvalidArgumentError(
          Cat("the ring's head ", head, " does not fit its tail ", tail_));
    }
    if (available == 0) return std::span<const std::byte>();
    const uint64_t at = tail_ % ring::kRingBytes;
    const uint64_t rest = ring::kRingBytes - at;
    if (rest < sizeof(RecordHeader)) {  // too little for a padding record: skipped by both sides
      if (available < rest)
        return absl::InvalidArgumentError("the ring's head lies within padding");
      tail_ += rest;
      continue;
    }
    if (available < sizeof(RecordHeader)) {
      return absl::InvalidArgumentError("the ring's head lies within a record");
    }
    RecordHeader h;
    std::memcpy(&h, data_ + at, sizeof(h));
    if (h.bytes < sizeof(h) || h.bytes % 8 != 0 || h.bytes > rest || h.bytes > available) {
      return absl::InvalidArgumentError(Cat("a record after seq ", last_seq_, " of ", h.bytes,
                                            " bytes; ", available, " are there, ", rest,
                                            " before the end of the ring"));
    }
    if (h.type == static_cast<uint16_t>(ring::RecordType::kPad)) {
      if (h.bytes != rest) return absl::InvalidArgumentError("padding that does not end the ring");
      tail_ += h.bytes;
      continue;
    }
    if (h.bytes > ring::kRecordBytesMax) {
      return absl::InvalidArgumentError(
          Cat("a record of ", h.bytes, " bytes; the largest is ", ring::kRecordBytesMax));
    }
    if (h.seq != last_seq_ + 1) {
      return absl::InvalidArgumentError(
          Cat("expected sequence number ", last_seq_ + 1, ", got ", h.seq));
    }
    std::memcpy(copy_.get(), data_ + at, h.bytes);
    std::memcpy(copy_.get(), &h, sizeof(h));
    tail_ += h.bytes;
    last_seq_ = h.seq;
    return std::span(reinterpret_cast<const std::byte*>(copy_.get()), h.bytes);
  }
}

absl::StatusOr<std::span<const std::byte>> RingReader::CopyLarge(const ring::LargeRecord& large,
                                                                 const std::byte* staging) {
  RecordHeader h;
  std::memcpy(&h, staging + large.staging_offset, sizeof(h));
  if (h.seq != large.h.seq || h.bytes != large.record_bytes || h.stream != large.h.stream ||
      h.type == static_cast<uint16_t>(ring::RecordType::kLarge)) {
    return absl::InvalidArgumentError(Cat("the record behind Large record seq ", large.h.seq,
                                          " is another: seq ", h.seq, ", ", h.bytes,
                                          " bytes, stream ", h.stream, ", type ", h.type));
  }
  if (large_.size() < large.record_bytes / 8) large_.resize(large.record_bytes / 8);
  std::memcpy(large_.data(), staging + large.staging_offset, large.record_bytes);
  std::memcpy(large_.data(), &h, sizeof(h));  // the one that was checked
  return std::span(reinterpret_cast<const std::byte*>(large_.data()), large.record_bytes);
}

}  // namespace neurond::wire
