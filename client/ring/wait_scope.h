// WaitScope: runs the caller's WaitHooks around a wait, if there is one. `Enter` is called just
// before the first sleep and may be called under the push lock (it releases the GIL, it never takes
// it); the destructor takes the GIL back, so a WaitScope must be declared *before* the lock that it
// may wait under: locals die in reverse order.
//
// Thread-safety: belongs to one call on one thread.

#ifndef NEUROND_CLIENT_RING_WAIT_SCOPE_H_
#define NEUROND_CLIENT_RING_WAIT_SCOPE_H_

#include "client/ring/client.h"

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

 private:
  const WaitHooks hooks_;
  void* state_ = nullptr;
  bool entered_ = false;
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_WAIT_SCOPE_H_
