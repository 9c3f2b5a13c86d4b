// ForkGuard: tells a process from its forked children. After fork the child holds copies of locks
// in any state and of a ring that belongs to its parent, so everything the client does asks
// `InChild()` first and touches nothing if it says so.
//
// Thread-safety: all methods, from any thread; InChild is one relaxed load.

#ifndef NEUROND_CLIENT_RING_FORK_GUARD_H_
#define NEUROND_CLIENT_RING_FORK_GUARD_H_

#include <cstdint>

namespace neurond::client {

class ForkGuard {
 public:
  ForkGuard();
  // True in every process that descends by fork from the one that made this guard.
  bool InChild() const;

 private:
  const uint32_t generation_;
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_FORK_GUARD_H_
