// SessionObserver: what a Session tells its front end.
//
// Thread-safety: calls come from the Session's owner thread or from a completion thread of a
// plugin, never under a lock. Each must be short, and none may destroy the Session. Lifetime:
// outlives the Session; nothing is called once the Session's destructor has returned.

#ifndef NEUROND_RUNTIME_STREAM_OBSERVER_H_
#define NEUROND_RUNTIME_STREAM_OBSERVER_H_

#include <cstdint>

namespace neurond {

class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  // Every Command of `stream` with a sequence number <= seq has retired. Monotonic per stream.
  virtual void OnCompleted(int stream, uint64_t seq) = 0;
  virtual void OnUnreported(uint64_t count) = 0;
  // The owner should call Pump() soon. Any thread; cheap and idempotent.
  virtual void Wake() = 0;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_STREAM_OBSERVER_H_
