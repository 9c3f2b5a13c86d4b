// The device guard and the accelerator hooks: how torch asks about devices, streams, events and
// pinned memory.

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "client/torch/csrc/autograd_exit.h"
#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/generator.h"
#include "client/torch/csrc/host_allocator.h"
#include "client/torch/csrc/register.h"
#include "client/torch/csrc/resize.h"
#include "client/torch/csrc/stream.h"

namespace neurond::shim {
namespace {

c10::Device At(int index) {
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
}
int IndexOf(c10::Device device) {
  if (device.has_index() && device.index() != CurrentDevice()) {
    CheckDeviceIndex(device.index());
  }
  return device.has_index() ? device.index() : CurrentDevice();
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const int before = CurrentDevice();
    if (device.index() >= 0) {
      SetCurrentDevice(device.index());
    }
    return At(before);
  }
  c10::Device getDevice() const override { return At(CurrentDevice()); }
  void setDevice(c10::Device device) const override { SetCurrentDevice(IndexOf(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) {
      SetCurrentDevice(device.index());
    }
  }
  c10::Stream getStream(c10::Device device) const override {
    return CurrentStream(IndexOf(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, At(IndexOf(device)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const override {
    return NextPoolStream(IndexOf(device));
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    return NextPoolStream(IndexOf(device));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return ExchangeStream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<intptr_t>(RingStream(stream)));
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*index*/) const noexcept override {
    DestroyEvent(event);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index < 0 || index == stream.device_index(), "Event device index ",
                static_cast<int>(index), " does not match recording stream's device index ",
                static_cast<int>(stream.device_index()), ".");
    RecordEvent(event, stream, flag == c10::EventFlag::BACKEND_DEFAULT);
  }
  void block(void* event, const c10::Stream& stream) const override { BlockOnEvent(event, stream); }
  bool queryEvent(void* event) const override { return EventDone(event); }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(Runtime::Get().DeviceCountNoConnect());
  }
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_Bool = types.has_Byte = types.has_Char = types.has_Short = types.has_Int =
        types.has_Long = 1;
    types.has_Half = types.has_BFloat16 = types.has_Float = types.has_Double = 1;
    types.has_ComplexFloat = types.has_ComplexDouble = 1;
    return capability;
  }
  bool queryStream(const c10::Stream& stream) const override { return StreamDone(stream); }
  void synchronizeStream(const c10::Stream& stream) const override { SynchronizeStream(stream); }
  void synchronizeEvent(void* event) const override { SynchronizeEvent(event); }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    SynchronizeDevice(index < 0 ? CurrentDevice() : index);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex /*index*/) const override {
    return ElapsedMs(start, end);
  }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  // Usable as soon as the package is installed: the daemon starts at first use.
  bool isAvailable() const override { return true; }
  // Autograd asks this of every device when a backward begins.
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    NoteBackward();
    const Link* link = Runtime::Get().link();
    return link != nullptr && index < link->device_count;
  }
  void init() const override { Runtime::Get().Connected(); }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(Runtime::Get().DeviceCountNoConnect());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    CheckDeviceIndex(index);
    SetCurrentDevice(index);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(CurrentDevice());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const int before = CurrentDevice();
    if (index >= 0) {
      setCurrentDevice(index);
    }
    return static_cast<c10::DeviceIndex>(before);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    const int before = CurrentDevice();
    if (index >= 0) {
      SetCurrentDevice(index);
    }
    return static_cast<c10::DeviceIndex>(before);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return DefaultGenerator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    if (index > 0) {  // (the first device needs no daemon)
      CheckDeviceIndex(index);
    }
    return NewGenerator(index);
  }
  c10::Device getDeviceFromPtr(void* /*data*/) const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "neuron: device memory has no addresses; use a tensor");
  }
  bool isPinnedPtr(const void* data) const override { return IsPinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return PinnedAllocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    ResizeStorage(storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void RegisterGuardAndHooks() {
  static const c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::PrivateUse1,
                                                             new Guard());
  at::RegisterPrivateUse1HooksInterface(new Hooks());
}

}  // namespace neurond::shim
