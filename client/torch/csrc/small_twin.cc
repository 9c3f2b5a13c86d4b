#include "client/torch/csrc/small_twin.h"

#include <ATen/ops/full.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "client/torch/csrc/limits.h"

namespace neurond::shim {
namespace {

bool IsLarge(const c10::IValue& value) {
  if (value.isInt()) {
    return value.toInt() > kSmallSize;
  }
  if (value.isIntList()) {
    for (const int64_t item : value.toIntVector()) {
      if (item > kSmallSize) {
        return true;
      }
    }
  }
  return false;
}

// Anonymous memory.
class Mapping {
 public:
  explicit Mapping(size_t bytes)
      : bytes_(bytes),
        address_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    TORCH_CHECK(address_ != MAP_FAILED, "neuron: no address space for ", bytes, " bytes");
  }
  ~Mapping() { munmap(address_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void* address() const { return address_; }

 private:
  const size_t bytes_;
  void* const address_;
};

}  // namespace

bool HasSmallTwin(const OpInfo& info, const torch::jit::Stack& stack) {
  if (info.name.find("backward") != std::string::npos ||
      info.name.find("convolution") != std::string::npos) {
    return false;
  }
  const size_t first = stack.size() - info.args.size();
  for (size_t i = 0; i < info.args.size(); ++i) {
    if (info.args[i] == ArgKind::kValue && IsLarge(stack[first + i])) {
      return false;
    }
  }
  return true;
}

std::vector<at::Tensor> SmallTensors(const Call& call, int value) {
  std::map<int64_t, int64_t> small;
  for (const TensorArg& arg : call.tensors) {
    for (const int64_t size : arg.tensor->sizes()) {
      if (size > kSmallSize) {
        small[size] = 0;
      }
    }
  }
  int64_t next = kSmallSize;
  for (auto& [size, as] : small) {
    as = ++next;
  }
  std::vector<at::Tensor> tensors;
  for (const TensorArg& arg : call.tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (call.tensors[i].tensor->is_same(*arg.tensor)) {
        tensors.push_back(tensors[i]);
        break;
      }
    }
    if (tensors.size() == static_cast<size_t>(&arg - call.tensors.data()) + 1) {
      continue;
    }
    std::vector<int64_t> sizes = arg.tensor->sizes().vec();
    for (int64_t& size : sizes) {
      size = size > kSmallSize ? small[size] : size;
    }
    at::Tensor tensor =
        at::full(sizes, value, at::TensorOptions(arg.tensor->scalar_type()).device(at::kCPU));
    tensor._set_conj(arg.tensor->is_conj());
    tensor._set_neg(arg.tensor->is_neg());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

c10::Storage LazyZeros(int64_t bytes) {
  auto mapping = std::make_unique<Mapping>(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  void* const address = mapping->address();
  c10::DataPtr data(
      address, mapping.release(), [](void* context) { delete static_cast<Mapping*>(context); },
      c10::Device(c10::DeviceType::CPU));
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t{}, bytes, std::move(data), c10::GetCPUAllocator(), true));
}

}  // namespace neurond::shim
