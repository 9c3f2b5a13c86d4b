#include "client/ring/ring_writer.h"

#include <unistd.h>

#include <cstring>

namespace neurond::client {

std::byte* RingWriter::TryReserve(uint64_t bytes, uint64_t* tail_needed) {
  const uint64_t at = head_ % ring::kRingBytes;
  const uint64_t rest = ring::kRingBytes - at;
  const uint64_t pad = bytes <= rest ? 0 : rest;
  const uint64_t end = head_ + pad + bytes;
  // `tail` only grows and is bounded here: a daemon that lies can make us overwrite our own
  // records, nothing else.
  const uint64_t tail = header_->tail.load(std::memory_order_acquire);
  if (end - tail > ring::kRingBytes) {
    *tail_needed = end - ring::kRingBytes;
    return nullptr;
  }
  if (pad >= sizeof(ring::RecordHeader)) {
    const ring::RecordHeader header{static_cast<uint32_t>(pad),
                                    static_cast<uint16_t>(ring::RecordType::kPad), 0, 0};
    std::memcpy(data_ + at, &header, sizeof(header));
  }
  reserved_ = end;
  return data_ + (head_ + pad) % ring::kRingBytes;
}

bool RingWriter::Publish() {
  head_ = reserved_;
  header_->head.store(head_);  // seq_cst: ordered before the look at daemon_waiting
  if (header_->daemon_waiting.load() == 0 || header_->daemon_waiting.exchange(0) == 0) return false;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof(one));
  return true;
}

}  // namespace neurond::client
