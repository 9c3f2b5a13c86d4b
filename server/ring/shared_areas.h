// SharedAreas: the three memfds of one session, made, sized, sealed and mapped by the daemon: the
// submission ring and the staging arena, which the client may write, and the progress page, which
// it may only read (F_SEAL_FUTURE_WRITE: only the mapping made here, before the seal, can write).
// No area can be shrunk, so that a client cannot make the daemon fault.
//
// Thread-safety: immutable once made; the memory is shared with the client.

#ifndef NEUROND_SERVER_RING_SHARED_AREAS_H_
#define NEUROND_SERVER_RING_SHARED_AREAS_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/ring/ring_abi.h"
#include "server/ring/fd.h"

namespace neurond::ring {

class SharedAreas {
 public:
  static absl::StatusOr<std::unique_ptr<SharedAreas>> Make();
  SharedAreas(const SharedAreas&) = delete;
  SharedAreas& operator=(const SharedAreas&) = delete;
  ~SharedAreas();

  RingHeader& ring() { return *static_cast<RingHeader*>(ring_); }
  const std::byte* ring_data() const {
    return static_cast<const std::byte*>(ring_) + kRingDataOffset;
  }
  std::byte* staging() { return static_cast<std::byte*>(staging_); }
  ProgressPage& progress() { return *static_cast<ProgressPage*>(progress_); }

  // For the client. Closed by CloseFds once they are passed on.
  int ring_fd() const { return ring_fd_.get(); }
  int staging_fd() const { return staging_fd_.get(); }
  int progress_fd() const { return progress_fd_.get(); }
  void CloseFds();

 private:
  SharedAreas() = default;

  Fd ring_fd_, staging_fd_, progress_fd_;
  void* ring_ = nullptr;
  void* staging_ = nullptr;
  void* progress_ = nullptr;
};

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_SHARED_AREAS_H_
