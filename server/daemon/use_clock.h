// UseClock: how long nobody has used the daemon, for its idle exit. Ring sessions and calls that
// compile or execute are use; looking (devices, health, statistics) is not.
//
// Thread-safety: all methods, from any thread. Lifetime: outlives every Use.

#ifndef NEUROND_SERVER_DAEMON_USE_CLOCK_H_
#define NEUROND_SERVER_DAEMON_USE_CLOCK_H_

#include <chrono>
#include <mutex>

namespace neurond {

class UseClock {
 public:
  // In use while it lives.
  class Use {
   public:
    explicit Use(UseClock& clock) : clock_(clock) { clock_.Change(1); }
    ~Use() { clock_.Change(-1); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    UseClock& clock_;
  };

  // 0 while in use.
  std::chrono::milliseconds idle() const {
    std::lock_guard lock(mutex_);
    if (uses_ > 0) return std::chrono::milliseconds(0);
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Change(int by) {
    std::lock_guard lock(mutex_);
    uses_ += by;
    last_ = Clock::now();
  }

  mutable std::mutex mutex_;
  int uses_ = 0;
  Clock::time_point last_ = Clock::now();
};

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_USE_CLOCK_H_
