// Runtime: this process's link to the daemon, its epochs, and the process-wide settings of the
// shim.
//
// The link is made lazily, at the first call that needs a device. An epoch is the life of one link:
// when the daemon dies the epoch ends, every handle made in it raises on use, and the next use of
// anything new connects again. A forked child never has a link: its ops raise, its deleters do
// nothing.
//
// Owner: a leaked process-wide object (torch's dispatcher, guard and allocator registries are
// process-wide too, and deleters run during interpreter exit). Thread-safety: all methods, from any
// thread. Connected() may wait and then releases the GIL if the caller holds it.

#ifndef NEUROND_CLIENT_TORCH_CSRC_RUNTIME_H_
#define NEUROND_CLIENT_TORCH_CSRC_RUNTIME_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "client/ring/client.h"

namespace neurond::shim {

// One link. Never destroyed, so that a reader needs no reference.
struct Link {
  client::Client* client = nullptr;
  uint32_t epoch = 0;
  int device_count = 0;
};

class Runtime {
 public:
  static Runtime& Get();

  // Where the daemon's binary lies and how to start it; called once at import.
  void Configure(std::string daemon_path, std::vector<std::string> daemon_args,
                 std::string client_build);

  // The live link, made if there is none. Throws c10::Error: in a forked child, or when no daemon
  // can be reached.
  const Link& Connected() {
    const Link* link = link_.load(std::memory_order_acquire);
    if (link != nullptr) [[likely]] {
      return *link;
    }
    return Connect();
  }
  // The same, once its ring has room: for what submits. Ctrl-C ends a wait for a slow device here,
  // where nothing of the submission exists yet.
  const Link& Ready() {
    const Link& link = Connected();
    Check(link, link.client->AwaitRoom(), "a submission");
    return link;
  }
  // nullptr when there is none; never connects.
  const Link* link() const { return link_.load(std::memory_order_acquire); }
  bool IsLive(uint32_t epoch) const {
    const Link* link = link_.load(std::memory_order_acquire);
    return link != nullptr && link->epoch == epoch;
  }

  // For autograd's guards: never connects, never throws. Autograd asks once and makes that many
  // threads and queues, so the answer is an upper bound of what any link of this process will have:
  // exact while connected, what the environment bounds, else the largest number there is (123 more
  // idle threads: 5 ms and 5 MB once). A later link shows no more devices than were ever answered.
  int DeviceCountNoConnect() noexcept;

  // Throws what a failed call on `link` means (a Python exception, if a signal's handler raised one
  // meanwhile); ends the epoch if the daemon is gone.
  [[noreturn]] void Fail(const Link& link, const client::Status& status, const char* what);
  void Check(const Link& link, const client::Status& status, const char* what) {
    if (!status.ok()) [[unlikely]] {
      Fail(link, status, what);
    }
  }
  // The error of a handle whose epoch is over.
  [[noreturn]] void FailEpoch(uint32_t epoch);

  bool forked() const { return forked_.load(std::memory_order_relaxed); }
  bool native_float64() const { return native_float64_; }
  bool launch_blocking() const { return launch_blocking_; }
  const std::string& client_build() const { return client_build_; }

 private:
  Runtime();
  const Link& Connect();
  std::string Settings() const;
  static void OnFork();

  std::atomic<const Link*> link_{nullptr};
  std::atomic<bool> forked_{false};
  std::mutex connect_mutex_;  // held only to hand over the turn; never while waiting or with a wish
                              // for the GIL
  bool connecting_ = false;
  std::condition_variable connected_;  // connecting_ turned false
  uint32_t epochs_ = 0;
  std::atomic<int> devices_told_{
      static_cast<int>(ring::kDevicesMax)};  // the smallest DeviceCountNoConnect()
  bool native_float64_ = false;
  bool launch_blocking_ = false;
  std::string daemon_path_, client_build_;
  std::vector<std::string> daemon_args_;
};

// Releases the GIL for a scope, if this thread holds it.
class ReleaseGil {
 public:
  ReleaseGil();
  ~ReleaseGil();
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  void* state_;
};

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_RUNTIME_H_
