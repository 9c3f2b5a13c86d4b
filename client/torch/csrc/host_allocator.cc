#include "client/torch/csrc/host_allocator.h"

#include <ATen/core/CachingHostAllocator.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace neurond::shim {
namespace {

constexpr size_t kPageBytes = 4096;

struct Blocks {
  std::mutex mutex;
  std::map<uintptr_t, size_t> live;  // start -> bytes
};
Blocks& Live() {
  static Blocks* blocks = new Blocks();
  return *blocks;
}

void DeletePinned(void* data) {
  Blocks& blocks = Live();
  {
    std::lock_guard<std::mutex> lock(blocks.mutex);
    blocks.live.erase(reinterpret_cast<uintptr_t>(data));
  }
  std::free(data);
}

class PinnedHostAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, c10::Device(c10::DeviceType::CPU)};
    }
    const size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    void* data = std::aligned_alloc(kPageBytes, rounded);
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "neuron: no host memory for ", bytes,
                     " pinned bytes");
    Blocks& blocks = Live();
    std::lock_guard<std::mutex> lock(blocks.mutex);
    blocks.live.emplace(reinterpret_cast<uintptr_t>(data), rounded);
    return {data, data, &DeletePinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &DeletePinned; }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }
  // Uploads copy out of the memory before they return.
  bool record_event(void* /*ptr*/, void* /*context*/, c10::Stream /*stream*/) override {
    return true;
  }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

}  // namespace

c10::Allocator* PinnedAllocator() {
  static PinnedHostAllocator* allocator = new PinnedHostAllocator();
  return allocator;
}

void RegisterHostAllocator() {
  at::setHostAllocator(c10::DeviceType::PrivateUse1,
                       static_cast<PinnedHostAllocator*>(PinnedAllocator()));
}

bool IsPinned(const void* data) {
  Blocks& blocks = Live();
  std::lock_guard<std::mutex> lock(blocks.mutex);
  const auto address = reinterpret_cast<uintptr_t>(data);
  auto next = blocks.live.upper_bound(address);
  if (next == blocks.live.begin()) {
    return false;
  }
  --next;
  return address < next->first + next->second;
}

}  // namespace neurond::shim
