#include "client/ring/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace neurond::client {
namespace {

// Process-wide by nature: how many forks lie between this process and the one that loaded the
// library.
std::atomic<uint32_t> fork_generation{0};

uint32_t CurrentGeneration() {
  static const int installed = pthread_atfork(
      nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
  (void)installed;
  return fork_generation.load(std::memory_order_relaxed);
}

}  // namespace

ForkGuard::ForkGuard() : generation_(CurrentGeneration()) {}

bool ForkGuard::InChild() const {
  return fork_generation.load(std::memory_order_relaxed) != generation_;
}

}  // namespace neurond::client
