#include "client/torch/csrc/generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <mutex>

#include "client/torch/csrc/buffer.h"

namespace neurond::shim {
namespace {

constexpr int64_t kStateBytes = 16;

}  // namespace

NeuronGenerator::NeuronGenerator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void NeuronGenerator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t NeuronGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void NeuronGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK_TYPE(state.layout() == c10::kStrided && state.device_type() == c10::DeviceType::CPU &&
                       state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                   "RNG state must be a torch.ByteTensor");
  TORCH_CHECK(state.numel() == kStateBytes && state.is_contiguous(), "RNG state is wrong size");
  uint64_t words[2];
  std::memcpy(words, state.data(), sizeof words);
  seed_ = words[0];
  offset_ = words[1];
}

c10::intrusive_ptr<c10::TensorImpl> NeuronGenerator::get_state() const {
  at::Tensor state = at::empty({kStateBytes}, at::TensorOptions(at::kByte).device(at::kCPU));
  const uint64_t words[2] = {seed_, offset_};
  std::memcpy(state.mutable_data_ptr(), words, sizeof words);
  return state.getIntrusivePtr();
}

NeuronGenerator* NeuronGenerator::clone_impl() const {
  auto* copy = new NeuronGenerator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

at::Generator NewGenerator(int device) {
  return at::make_generator<NeuronGenerator>(
      static_cast<c10::DeviceIndex>(device < 0 ? CurrentDevice() : device));
}

const at::Generator& DefaultGenerator(int device) {
  static auto* generators = new std::array<at::Generator, ring::kDevicesMax>();
  static std::mutex mutex;
  const int index = device < 0 ? CurrentDevice() : device;
  TORCH_CHECK(index < static_cast<int>(generators->size()),
              "neuron: invalid device ordinal: neuron:", index);
  std::lock_guard<std::mutex> lock(mutex);
  at::Generator& generator = (*generators)[static_cast<size_t>(index)];
  if (!generator.defined()) {
    generator = NewGenerator(index);
  }
  return generator;
}

}  // namespace neurond::shim
