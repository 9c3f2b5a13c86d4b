#include "client/torch/csrc/buffer.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>

#include "client/torch/csrc/dtype.h"
#include "client/torch/csrc/memory.h"

namespace neurond::shim {
namespace {

// Addresses are handed out upwards from bit 60 and wrap after 2^59 bytes: no user mapping can lie
// there, and two live storages could only meet after half an exabyte of allocations.
constexpr uint64_t kAddressBase = uint64_t{1} << 60;
constexpr uint64_t kAddressMask = (uint64_t{1} << 59) - 1;
constexpr uint64_t kAddressAlign = 512;
std::atomic<uint64_t> next_address{0};

thread_local int current_device = 0;

void DeleteBuffer(void* context) {
  auto* buffer = static_cast<Buffer*>(context);
  Runtime& runtime = Runtime::Get();
  if (!runtime.forked()) {
    if (const Link* link = runtime.link(); link != nullptr && link->epoch == buffer->epoch) {
      link->client->Free(buffer->id);
    }
    Ledger::Get().Release(buffer->epoch, buffer->device, static_cast<int64_t>(buffer->bytes));
  }
  delete buffer;
}

void CopyStat(const MemoryStat& from, c10::CachingAllocator::StatArray& to) {
  auto& stat = to[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  stat.current = from.current.load();
  stat.peak = from.peak.load();
  stat.allocated = from.allocated.load();
  stat.freed = from.freed.load();
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return NewBuffer(c10::ScalarType::Byte, bytes, CurrentDevice());
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  // Only torch's lazy-clone paths come here; both were allocated by us.
  void copy_data(void* /*dest*/, const void* /*src*/, std::size_t /*count*/) const override {
    TORCH_CHECK(false, "neuron: raw memory of the device cannot be copied by address");
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    if (const Link* link = Runtime::Get().link(); link != nullptr) {
      for (int device = 0; device < link->device_count; ++device) {
        Ledger::Get().EmptyCache(*link, device);
      }
    }
  }
  // Commands hold the Versions they read, so a name may go at any time.
  void recordStream(const c10::DataPtr& /*ptr*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    CheckDeviceIndex(device);
    const DeviceMemory& memory = Ledger::Get().device(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    CopyStat(memory.count, stats.allocation);
    CopyStat(memory.count, stats.active);
    CopyStat(memory.bytes, stats.allocated_bytes);
    CopyStat(memory.bytes, stats.active_bytes);
    CopyStat(memory.bytes, stats.requested_bytes);
    CopyStat(memory.reserved, stats.reserved_bytes);
    stats.num_ooms = memory.ooms.load();
    stats.num_alloc_retries = memory.retries.load();
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    CheckDeviceIndex(device);
    DeviceMemory& memory = Ledger::Get().device(device);
    memory.bytes.ResetAccumulated();
    memory.count.ResetAccumulated();
    memory.reserved.ResetAccumulated();
    memory.ooms.store(0);
    memory.retries.store(0);
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    CheckDeviceIndex(device);
    DeviceMemory& memory = Ledger::Get().device(device);
    memory.bytes.ResetPeak();
    memory.count.ResetPeak();
    memory.reserved.ResetPeak();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    CheckDeviceIndex(device);
    const auto [free_bytes, total] = Ledger::Get().Info(Runtime::Get().Connected(), device);
    return {static_cast<size_t>(free_bytes), static_cast<size_t>(total)};
  }
};

}  // namespace

c10::Allocator* NeuronAllocator() {
  static Allocator* allocator = new Allocator();
  return allocator;
}

void RegisterAllocator() { c10::SetAllocator(c10::DeviceType::PrivateUse1, NeuronAllocator()); }

c10::DataPtr WrapBuffer(const Link& link, uint64_t id, ring::DType dtype, uint64_t elements,
                        uint64_t bytes, int device) {
  const uint64_t span = (bytes + kAddressAlign - 1) / kAddressAlign * kAddressAlign;
  const uint64_t address =
      kAddressBase | (next_address.fetch_add(span, std::memory_order_relaxed) & kAddressMask);
  auto* buffer = new Buffer{id, elements, bytes, link.epoch, static_cast<int8_t>(device), dtype};
  return {reinterpret_cast<void*>(address), buffer, &DeleteBuffer,
          c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device))};
}

c10::DataPtr NewBuffer(c10::ScalarType dtype, uint64_t bytes, int device) {
  if (bytes == 0) {
    return {nullptr,
            c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device))};
  }
  const Link& link = Runtime::Get().Ready();
  CheckDeviceIndex(device);
  ring::DType element = ToRing(dtype);
  uint64_t elements = bytes;
  if (element != ring::DType::kInvalid && bytes % c10::elementSize(dtype) == 0) {
    elements = bytes / c10::elementSize(dtype);
  } else {
    element = ring::DType::kU8;
  }
  Ledger::Get().Reserve(link, device, static_cast<int64_t>(bytes));
  c10::DataPtr data =
      WrapBuffer(link, link.client->NewBufferId(), element, elements, bytes, device);
  const auto* buffer = static_cast<const Buffer*>(data.get_context());
  Runtime::Get().Check(link, link.client->Alloc(buffer->id, element, elements, device),
                       "an allocation");
  return data;
}

Buffer* BufferOf(const c10::StorageImpl* storage) {
  const c10::DataPtr& data = storage->data_ptr();
  if (data.get_context() == nullptr) {
    return nullptr;
  }
  TORCH_CHECK(data.get_deleter() == &DeleteBuffer,
              "neuron: this storage was not allocated by the neuron device (memory of another "
              "library cannot be used)");
  return static_cast<Buffer*>(data.get_context());
}

int CurrentDevice() { return current_device; }
void SetCurrentDevice(int device) { current_device = device; }

void CheckDeviceIndex(int device) {
  const int count = Runtime::Get().Connected().device_count;
  TORCH_CHECK(device >= 0 && device < count, "neuron: invalid device ordinal: neuron:", device,
              " (this process sees ", count, count == 1 ? " device)" : " devices)");
}

}  // namespace neurond::shim
