// Areas: the three shared mappings of a session, as the daemon passed them.
//
// Lifetime: mapped once; unmapped with the object, but left alone in a forked child (see
// ForkGuard). Thread-safety: the mappings are shared memory; the object is immutable once mapped.

#ifndef NEUROND_CLIENT_RING_AREAS_H_
#define NEUROND_CLIENT_RING_AREAS_H_

#include <cstddef>

#include "client/ring/client.h"
#include "proto/ring/ring_abi.h"

namespace neurond::client {

class Areas {
 public:
  Areas() = default;
  Areas(const Areas&) = delete;
  Areas& operator=(const Areas&) = delete;
  ~Areas();

  // Maps the ring, staging and progress memfds; kInternal if one is not as the ABI says.
  Status Map(int ring_fd, int staging_fd, int progress_fd);

  ring::RingHeader* ring() const { return ring_; }
  std::byte* ring_data() const {
    return reinterpret_cast<std::byte*>(ring_) + ring::kRingDataOffset;
  }
  std::byte* staging() const { return staging_; }
  const ring::ProgressPage* progress() const { return progress_; }

 private:
  ring::RingHeader* ring_ = nullptr;
  std::byte* staging_ = nullptr;
  const ring::ProgressPage* progress_ = nullptr;
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_AREAS_H_
