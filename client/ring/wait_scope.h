// WaitScope: runs the caller's WaitHooks around a wait, if there is one. `Enter` is called just
// before the first sleep and may be called under the push lock (it releases the GIL, it never takes
// it); the destructor takes the GIL back, so a WaitScope must be declared *before* the lock that it
// may wait under: locals die in reverse order. `Interrupted` may take the GIL and run the caller's
// code: never under a lock.
//
// Thread-safety: belongs to one call on one thread.

#ifndef NEUROND_CLIENT_RING_WAIT_SCOPE_H_
#define NEUROND_CLIENT_RING_WAIT_SCOPE_H_

#include <chrono>

#include "client/ring/client.h"
#include "client/ring/limits.h"

namespace neurond::client {

class WaitScope {
 public:
  explicit WaitScope(const WaitHooks& hooks) : hooks_(hooks) {}
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;
  ~WaitScope() {
    if (entered_ && hooks_.leave != nullptr) hooks_.leave(state_);
  }

  void Enter() {
    if (entered_) return;
    entered_ = true;
    if (hooks_.enter != nullptr) state_ = hooks_.enter();
  }

  // Ok to wait on, or kCancelled. Asks the caller at most once a slice, however often it is called,
  // unless a signal was caught just now.
  Status Interrupted(bool signalled) {
    const auto now = std::chrono::steady_clock::now();
    if (hooks_.interrupted == nullptr || (!signalled && now < next_look_)) return {};
    next_look_ = now + std::chrono::nanoseconds(kWaitSliceNs);
    Enter();
    if (!hooks_.interrupted()) return {};
    return {Code::kCancelled, "interrupted while waiting for the daemon"};
  }

 private:
  const WaitHooks hooks_;
  void* state_ = nullptr;
  bool entered_ = false;
  std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_WAIT_SCOPE_H_
