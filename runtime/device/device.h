// Device: one device of a Plugin, with its gate and its memory account. DeviceSet: all devices of
// the daemon.
//
// The gate admits at most `inflight_max` Executes that are not complete yet, over all Sessions: a
// PJRT CPU device is one queue, and with its slots full Execute would block the caller. A Session
// that is refused registers itself and is woken, in order of asking.
//
// Thread-safety: all methods, from any thread. Wake callbacks run outside the lock.

#ifndef NEUROND_RUNTIME_DEVICE_DEVICE_H_
#define NEUROND_RUNTIME_DEVICE_DEVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device/plugin.h"

namespace neurond {

struct DeviceCounters {
  int64_t executes = 0, inflight = 0, gate_waits = 0, physical_bytes = 0, granted_bytes = 0;
};

class Device {
 public:
  Device(Plugin& plugin, int index, int inflight_max, int64_t memory_bytes);

  Plugin& plugin() { return plugin_; }
  int index() const { return index_; }
  const DeviceTraits& traits() const { return plugin_.traits(index_); }

  // Gate. TryEnter returns true and takes a slot, or false and will call `wake` once when a slot
  // may be free.
  bool TryEnter(const void* who, std::function<void()> wake);
  // The same without asking for a wake-up.
  bool TryEnter();
  void Leave();
  // Forgets a waiting caller (its Session ends). A wake that a Leave has already taken may still
  // run after this returns, so `wake` must own what it touches.
  void Forget(const void* who);

  // Memory account, bytes promised to Sessions. False if the device has no room, or if more is
  // given back than was granted.
  bool Grant(int64_t delta_bytes);
  int64_t granted_bytes() const;
  // The smaller of the configured bound and what the plugin reports; 0: no bound known, every grant
  // has room.
  int64_t memory_bytes() const { return memory_bytes_; }
  // Physical bytes: live Versions.
  void AddPhysical(int64_t delta_bytes);
  DeviceCounters counters() const;

 private:
  struct Waiter {
    const void* who;
    std::function<void()> wake;
  };
  Plugin& plugin_;
  const int index_;
  const int inflight_max_;
  const int64_t memory_bytes_;
  mutable std::mutex mutex_;
  int inflight_ = 0;
  int64_t granted_bytes_ = 0;
  int64_t physical_bytes_ = 0;
  int64_t executes_ = 0;
  int64_t gate_waits_ = 0;
  std::deque<Waiter> waiters_;
};

class DeviceSet {
 public:
  DeviceSet(Plugin& plugin, int inflight_max, int64_t memory_bytes_per_device);
  int size() const { return static_cast<int>(devices_.size()); }
  Device& at(int index) { return *devices_[index]; }
  Plugin& plugin() { return plugin_; }

 private:
  Plugin& plugin_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_DEVICE_DEVICE_H_
