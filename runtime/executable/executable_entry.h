// ExecutableEntry: one key of the ExecutableCache, from its first Get on.
//
//   kLoading --> kLoaded
//        ^  +--> kFailed
//        |          |
//        +----------+  Retry, while the failure may not repeat and tries are left
//
// Thread-safety: all methods, from any thread. Callbacks run without the lock, on the thread that
// resolves the entry or inline.

#ifndef NEUROND_RUNTIME_EXECUTABLE_EXECUTABLE_ENTRY_H_
#define NEUROND_RUNTIME_EXECUTABLE_EXECUTABLE_ENTRY_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/executable/executable_cache.h"

namespace neurond {

class ExecutableEntry final : public Executable,
                              public std::enable_shared_from_this<ExecutableEntry> {
 public:
  // `start` begins a load or compile of this entry, which ends in Resolve or Fail.
  ExecutableEntry(const Hash128& key, std::string name, std::string module,
                  std::function<void(std::shared_ptr<ExecutableEntry>)> start)
      : key_(key), name_(std::move(name)), module_(std::move(module)), start_(std::move(start)) {}

  LoadedExecutable* loaded() const override { return loaded_.load(std::memory_order_acquire); }
  bool resolved() const override;
  Error error() const override;
  void OnResolved(std::function<void()> done) override;
  void Retry() override;
  int tries() const override;

  void Resolve(LoadedExecutablePtr executable, int64_t serialized_bytes, double compile_seconds);
  void Fail(Error error, bool deterministic);

  std::string key() const override { return key_.Hex(); }
  const Hash128& hash() const { return key_; }
  const std::string& name() const { return name_; }
  // The text to compile; let go of once nobody will compile it again. Only for whoever is loading.
  const std::string& module() const { return module_; }
  void CountUse() { uses_.fetch_add(1, std::memory_order_relaxed); }
  ExecutableInfo Info() const;
  int64_t serialized_bytes() const;

 private:
  enum class State { kLoading, kLoaded, kFailed };
  void Settle(State state, std::unique_lock<std::mutex> lock);

  const Hash128 key_;
  const std::string name_;
  std::string module_;
  const std::function<void(std::shared_ptr<ExecutableEntry>)> start_;
  std::atomic<LoadedExecutable*> loaded_ = nullptr;
  std::atomic<int64_t> uses_ = 0;

  mutable std::mutex mutex_;
  State state_ = State::kLoading;
  LoadedExecutablePtr executable_;
  Error error_;
  bool deterministic_ = false;
  int tries_ = 1;
  int64_t serialized_bytes_ = 0;
  double compile_seconds_ = 0;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_EXECUTABLE_EXECUTABLE_ENTRY_H_
