// Tally: a number that one thread changes and any thread may read.
//
// Thread-safety: Add by the owner only; value() by anyone. No locked instruction.

#ifndef NEUROND_RUNTIME_BASE_TALLY_H_
#define NEUROND_RUNTIME_BASE_TALLY_H_

#include <atomic>
#include <cstdint>

namespace neurond {

class Tally {
 public:
  void Add(int64_t delta) { value_.store(value() + delta, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_TALLY_H_
