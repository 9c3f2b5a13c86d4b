// DrainSignal: says once, to every waiting handler, that the server ends.
//
// Thread-safety: all methods, from any thread. Lifetime: outlives the grpc::Server.

#ifndef NEUROND_SERVER_GRPC_DRAIN_SIGNAL_H_
#define NEUROND_SERVER_GRPC_DRAIN_SIGNAL_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace neurond {

class DrainSignal {
 public:
  void Set() {
    {
      std::lock_guard lock(mutex_);
      set_ = true;
    }
    changed_.notify_all();
  }
  bool IsSet() const {
    std::lock_guard lock(mutex_);
    return set_;
  }
  // True as soon as it is set, else false after `timeout`.
  bool WaitFor(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return set_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_DRAIN_SIGNAL_H_
