#include "runtime/device/device.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace neurond {
namespace {

// The smaller of what the operator allows and what the plugin reports; 0 on either side means "no
// bound from here".
int64_t MemoryBound(int64_t configured, int64_t reported) {
  if (configured <= 0) return std::max<int64_t>(reported, 0);
  return reported > 0 ? std::min(configured, reported) : configured;
}

}  // namespace

Device::Device(Plugin& plugin, int index, int inflight_max, int64_t memory_bytes)
    : plugin_(plugin),
      index_(index),
      inflight_max_(std::max(inflight_max, 1)),
      memory_bytes_(MemoryBound(memory_bytes, plugin.traits(index).memory_bytes)) {}

bool Device::TryEnter() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (inflight_ >= inflight_max_) return false;
  ++inflight_;
  ++executes_;
  return true;
}

bool Device::TryEnter(const void* who, std::function<void()> wake) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (inflight_ < inflight_max_) {
    ++inflight_;
    ++executes_;
    return true;
  }
  // Asking again keeps the first place in the queue.
  for (Waiter& waiter : waiters_) {
    if (waiter.who == who) {
      std::swap(waiter.wake, wake);  // the old one is destroyed outside the lock
      return false;
    }
  }
  ++gate_waits_;
  waiters_.push_back({who, std::move(wake)});
  return false;
}

void Device::Leave() {
  // One slot, one wake. But a woken caller may not need its slot any more, and then nobody would be
  // woken again: so the last one to leave wakes all. While something is in flight, its Leave is
  // still to come.
  std::deque<Waiter> woken;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    --inflight_;
    if (inflight_ == 0) {
      woken.swap(waiters_);
    } else if (!waiters_.empty()) {
      woken.push_back(std::move(waiters_.front()));
      waiters_.pop_front();
    }
  }
  for (Waiter& waiter : woken) waiter.wake();
}

void Device::Forget(const void* who) {
  std::deque<Waiter> forgotten;  // destroyed outside the lock: a callback may own anything
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = std::find_if(waiters_.begin(), waiters_.end(),
                         [who](const Waiter& waiter) { return waiter.who == who; });
  if (it == waiters_.end()) return;
  forgotten.push_back(std::move(*it));
  waiters_.erase(it);
}

bool Device::Grant(int64_t delta_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (delta_bytes < 0) {
    if (granted_bytes_ + delta_bytes < 0) return false;  // more than was granted
    granted_bytes_ += delta_bytes;
    return true;
  }
  const int64_t bound = memory_bytes_ > 0 ? memory_bytes_ : std::numeric_limits<int64_t>::max();
  if (delta_bytes > bound - granted_bytes_) return false;
  granted_bytes_ += delta_bytes;
  return true;
}

int64_t Device::granted_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return granted_bytes_;
}

void Device::AddPhysical(int64_t delta_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  physical_bytes_ += delta_bytes;
}

DeviceCounters Device::counters() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {executes_, inflight_, gate_waits_, physical_bytes_, granted_bytes_};
}

DeviceSet::DeviceSet(Plugin& plugin, int inflight_max, int64_t memory_bytes_per_device)
    : plugin_(plugin) {
  devices_.reserve(plugin.device_count());
  for (int i = 0; i < plugin.device_count(); ++i) {
    devices_.push_back(std::make_unique<Device>(plugin, i, inflight_max, memory_bytes_per_device));
  }
}

}  // namespace neurond
