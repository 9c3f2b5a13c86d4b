// RingWriter: the producer side of the submission ring. Lays records into the data area, pads at
// its end, publishes `head`, and wakes the daemon's session thread if it sleeps.
//
// Thread-safety: none; the owner's push lock covers every call.

#ifndef NEUROND_CLIENT_RING_RING_WRITER_H_
#define NEUROND_CLIENT_RING_RING_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "proto/ring/ring_abi.h"

namespace neurond::client {

class RingWriter {
 public:
  RingWriter(ring::RingHeader* header, std::byte* data, int event_fd)
      : header_(header), data_(data), event_fd_(event_fd) {}

  // Where a record of `bytes` (a multiple of 8, at most kRecordBytesMax) goes, or nullptr: the ring
  // is too full, and `*tail_needed` is the value that `tail` must reach first.
  std::byte* TryReserve(uint64_t bytes, uint64_t* tail_needed);
  // Makes the reserved record visible. True if the daemon slept and was woken.
  bool Publish();

 private:
  ring::RingHeader* const header_;
  std::byte* const data_;
  const int event_fd_;
  uint64_t head_ = 0;      // pushed
  uint64_t reserved_ = 0;  // where head_ goes with the next Publish
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_RING_WRITER_H_
