// CallGate: how many calls of one kind run at once, and whether the server drains.
//
// Thread-safety: all methods, from any thread. Lifetime: outlives every Permit.

#ifndef NEUROND_SERVER_GRPC_CALL_GATE_H_
#define NEUROND_SERVER_GRPC_CALL_GATE_H_

#include <atomic>

namespace neurond {

class CallGate {
 public:
  explicit CallGate(int calls_max) : calls_max_(calls_max) {}

  // Holds one place while it lives, if it got one.
  class Permit {
   public:
    explicit Permit(CallGate& gate) : gate_(gate), held_(gate.Enter()) {}
    ~Permit() {
      if (held_) gate_.active_.fetch_sub(1);
    }
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    bool held() const { return held_; }

   private:
    CallGate& gate_;
    const bool held_;
  };

  int calls_max() const { return calls_max_; }
  int active() const { return active_.load(); }

 private:
  bool Enter() {
    if (active_.fetch_add(1) < calls_max_) return true;
    active_.fetch_sub(1);
    return false;
  }

  const int calls_max_;
  std::atomic<int> active_{0};
};

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_CALL_GATE_H_
