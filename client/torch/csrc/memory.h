// Ledger: logical bytes of each device: what live storages take (used) against the byte grant this
// client holds (granted).
//
// The grant grows in steps by a socket round trip and is returned by EmptyCache. A Reserve that the
// daemon refuses throws torch.OutOfMemoryError before anything is submitted; nothing about it
// sticks.
//
// Thread-safety: atomics; no lock is held over a round trip (it may release and retake the GIL).

#ifndef NEUROND_CLIENT_TORCH_CSRC_MEMORY_H_
#define NEUROND_CLIENT_TORCH_CSRC_MEMORY_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "client/torch/csrc/runtime.h"

namespace neurond::shim {

struct MemoryStat {
  std::atomic<int64_t> current{0}, peak{0}, allocated{0}, freed{0};

  void Add(int64_t n) {
    const int64_t now = current.fetch_add(n, std::memory_order_relaxed) + n;
    allocated.fetch_add(n, std::memory_order_relaxed);
    int64_t seen = peak.load(std::memory_order_relaxed);
    while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
  void Sub(int64_t n) {
    current.fetch_sub(n, std::memory_order_relaxed);
    freed.fetch_add(n, std::memory_order_relaxed);
  }
  void ResetPeak() { peak.store(current.load()); }
  void ResetAccumulated() {
    allocated.store(0);
    freed.store(0);
  }
};

struct DeviceMemory {
  MemoryStat bytes;     // of live storages
  MemoryStat count;     // live storages
  MemoryStat reserved;  // the grant
  std::atomic<int64_t> ooms{0}, retries{0};
  std::atomic<uint32_t> epoch{0};  // of the grant
};

class Ledger {
 public:
  static Ledger& Get();
  DeviceMemory& device(int index) { return devices_[static_cast<size_t>(index)]; }

  // Charges `count` storages of `bytes` in all; each is released by itself.
  void Reserve(const Link& link, int device, int64_t bytes, int64_t count = 1) {
    DeviceMemory& memory = devices_[static_cast<size_t>(device)];
    if (memory.bytes.current.load(std::memory_order_relaxed) + bytes >
            memory.reserved.current.load(std::memory_order_relaxed) ||
        memory.epoch.load(std::memory_order_relaxed) != link.epoch) [[unlikely]] {
      Grow(link, device, bytes);
    }
    memory.bytes.Add(bytes);
    memory.count.Add(count);
  }
  void Release(uint32_t epoch, int device, int64_t bytes) {
    DeviceMemory& memory = devices_[static_cast<size_t>(device)];
    if (memory.epoch.load(std::memory_order_relaxed) == epoch) {
      memory.bytes.Sub(bytes);
      memory.count.Sub(1);
    }
  }
  // Gives the unused part of the grant back.
  void EmptyCache(const Link& link, int device);
  // {free, total} as the daemon sees it, the unused grant counted as free.
  std::pair<int64_t, int64_t> Info(const Link& link, int device);

 private:
  void Grow(const Link& link, int device, int64_t bytes);
  std::array<DeviceMemory, ring::kDevicesMax> devices_;
};

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_MEMORY_H_
