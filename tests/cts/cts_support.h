// What the conformance tests share: the plugins under test, and waiting for callbacks.

#ifndef NEUROND_TESTS_CTS_CTS_SUPPORT_H_
#define NEUROND_TESTS_CTS_CTS_SUPPORT_H_

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include "plugins/registry/registry.h"
#include "runtime/device/plugin.h"

namespace neurond::cts {

struct Kind {
  std::string name;
  PluginConfig config;
  bool needs_library() const { return name.find("pjrt") != std::string::npos; }
};
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// Every plugin. The same list with and without NEURON_PJRT_PLUGIN, so that listing the tests needs
// no environment; without it the config of those over a PJRT library has no path.
std::vector<Kind> Kinds();
std::unique_ptr<Plugin> Make(const Kind& kind);
// One instance per kind, never destroyed. Any thread.
Plugin& Shared(const Kind& kind);

// Counts calls of its callback and waits for the first. May be destroyed before the callback runs.
class Completion {
 public:
  Completion() : state_(std::make_shared<State>()) {}
  DoneCallback callback() {
    return [state = state_](Error error) {
      std::lock_guard<std::mutex> lock(state->mutex);
      state->error = std::move(error);
      ++state->count;
      state->called.notify_all();
    };
  }
  Error Wait() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->called.wait(lock, [&] { return state_->count > 0; });
    return state_->error;
  }
  int count() {
    std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->count;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable called;
    Error error;
    int count = 0;
  };
  std::shared_ptr<State> state_;
};

// A 64-byte-aligned block, as Plugin::Adopt wants it.
class Aligned {
 public:
  explicit Aligned(size_t bytes)
      : data_(static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {}
  ~Aligned() { std::free(data_); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  char* data() { return data_; }

 private:
  char* data_;
};

// The whole content of `buffer`; empty if it could not be read.
template <typename T>
std::vector<T> Values(Plugin& plugin, DeviceBuffer& buffer) {
  const int64_t bytes = buffer.elements() * DTypeBytes(buffer.dtype());
  std::vector<T> values(bytes / sizeof(T));
  Completion completion;
  absl::Status status = plugin.Download(buffer, 0, bytes, values.data(), completion.callback());
  if (!status.ok() || !completion.Wait().ok()) return {};
  return values;
}

}  // namespace neurond::cts

#endif  // NEUROND_TESTS_CTS_CTS_SUPPORT_H_
