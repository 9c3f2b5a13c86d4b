#include "runtime/executable/executable_entry.h"

#include <utility>

#include "runtime/base/limits.h"

namespace neurond {

bool ExecutableEntry::resolved() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_ != State::kLoading;
}

Error ExecutableEntry::error() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

void ExecutableEntry::OnResolved(std::function<void()> done) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ == State::kLoading) {
      waiting_.push_back(std::move(done));
      return;
    }
  }
  done();
}

void ExecutableEntry::Retry() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ != State::kFailed || deterministic_ || tries_ >= kCompileTriesMax) return;
    ++tries_;
    state_ = State::kLoading;
    error_ = Error{};
  }
  start_(shared_from_this());
}

int ExecutableEntry::tries() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return tries_;
}

void ExecutableEntry::Settle(State state, std::unique_lock<std::mutex> lock) {
  state_ = state;
  const std::vector<std::function<void()>> waiting = std::exchange(waiting_, {});
  lock.unlock();
  for (const std::function<void()>& done : waiting) done();
}

void ExecutableEntry::Resolve(LoadedExecutablePtr executable, int64_t serialized_bytes,
                              double compile_seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  executable_ = std::move(executable);
  module_ = std::string();
  serialized_bytes_ = serialized_bytes;
  compile_seconds_ = compile_seconds;
  loaded_.store(executable_.get(), std::memory_order_release);
  Settle(State::kLoaded, std::move(lock));
}

void ExecutableEntry::Fail(Error error, bool deterministic) {
  std::unique_lock<std::mutex> lock(mutex_);
  error_ = std::move(error);
  deterministic_ = deterministic;
  if (deterministic_ || tries_ >= kCompileTriesMax) module_ = std::string();
  Settle(State::kFailed, std::move(lock));
}

int64_t ExecutableEntry::serialized_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return serialized_bytes_;
}

ExecutableInfo ExecutableEntry::Info() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {key_.Hex(), name_, serialized_bytes_, compile_seconds_,
          uses_.load(std::memory_order_relaxed)};
}

}  // namespace neurond
