#include "client/torch/csrc/call.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "client/torch/csrc/copy.h"
#include "client/torch/csrc/dtype.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {
namespace {

enum Tag : uint64_t {
  kTagNone = 1,
  kTagTensor = 2,
  kTagHost = 3,
  kTagList = 4,
  kTagInt = 5,
  kTagDouble = 6,
  kTagBool = 7,
  kTagString = 8,
  kTagComplex = 9,
  kTagDevice = 10,
  kTagGenerator = 11,
};
constexpr uint64_t Word(Tag tag, uint64_t rest = 0) { return (uint64_t{tag} << 56) | rest; }

enum Flag : uint64_t { kWhole = 1, kPlain = 2, kConj = 4, kNeg = 8 };

constexpr size_t kLinearSlots = 8;

class Builder {
 public:
  Builder(const OpInfo& info, Call* call) : info_(info), call_(*call) {}

  void Value(c10::IValue& value, ArgKind kind, bool written);

 private:
  void Tensor(c10::IValue& holder, bool written, bool in_list);
  void Device(const at::Tensor& tensor);
  int32_t Slot(Buffer* buffer, bool* fresh);
  void Host(c10::ScalarType dtype, bool wrapped, int64_t word);
  void HostTensor(c10::IValue& holder, bool in_list);
  void Number(const c10::IValue& value);
  void Plain(const c10::IValue& value);
  void String(const std::string& text);
  [[noreturn]] void FailDevices(const at::Tensor& other) const;

  const OpInfo& info_;
  Call& call_;
};

void Builder::FailDevices(const at::Tensor& other) const {
  const int device = call_.device >= 0 ? call_.device : CurrentDevice();
  TORCH_CHECK(
      false,
      "Expected all tensors to be on the same device, but found at least two devices, neuron:",
      device, " and ", other.device(), "! (when checking arguments of ", info_.name, ")");
}

void Builder::Device(const at::Tensor& tensor) {
  const int device = tensor.device().index();
  if (call_.device < 0) {
    call_.device = device;
  } else if (call_.device != device) [[unlikely]] {
    FailDevices(tensor);
  }
}

// Exactly the strides that a new contiguous tensor has: dimensions of size 1 may have others, which
// the strides of results follow.
bool HasPlainStrides(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (strides[i] != stride) {
      return false;
    }
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return true;
}

int32_t Builder::Slot(Buffer* buffer, bool* fresh) {
  const size_t count = call_.slots.size();
  *fresh = false;
  if (call_.slot_index == nullptr) {
    for (size_t i = 0; i < count; ++i) {
      if (call_.slots[i] == buffer) {
        return static_cast<int32_t>(i);
      }
    }
    if (count == kLinearSlots) [[unlikely]] {
      call_.slot_index = std::make_unique<std::unordered_map<const Buffer*, int32_t>>();
      for (size_t i = 0; i < count; ++i) {
        call_.slot_index->emplace(call_.slots[i], static_cast<int32_t>(i));
      }
    }
  } else if (const auto at = call_.slot_index->find(buffer); at != call_.slot_index->end()) {
    return at->second;
  }
  if (call_.slot_index != nullptr) {
    call_.slot_index->emplace(buffer, static_cast<int32_t>(count));
  }
  call_.slots.push_back(buffer);
  *fresh = true;
  return static_cast<int32_t>(count);
}

void Builder::Tensor(c10::IValue& holder, bool written, bool in_list) {
  const at::Tensor& tensor = holder.toTensor();
  if (!tensor.defined()) {
    call_.key.push_back(Word(kTagNone));
    return;
  }
  if (!IsNeuron(tensor)) [[unlikely]] {
    if (written || !tensor.is_cpu()) {
      FailDevices(tensor);
    }
    HostTensor(holder, in_list);
    return;
  }
  Device(tensor);
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const c10::ScalarType type = impl->dtype().toScalarType();
  const ring::DType dtype = ToRing(type);
  call_.unknown_dtype |= dtype == ring::DType::kInvalid || impl->layout() != c10::kStrided;
  call_.float64 |= dtype == ring::DType::kF64 || dtype == ring::DType::kC128;
  const c10::IntArrayRef sizes = impl->sizes();
  if (call_.unknown_dtype) [[unlikely]] {
    call_.tensors.push_back({&tensor, -1, true});
    return;
  }
  const bool contiguous = impl->is_contiguous();
  const bool plain = contiguous && HasPlainStrides(sizes, impl->strides());
  const int64_t numel = impl->numel();
  uint64_t flags = (plain ? uint64_t{kPlain} : 0) | (tensor.is_conj() ? uint64_t{kConj} : 0) |
                   (tensor.is_neg() ? uint64_t{kNeg} : 0);
  int32_t slot = -1;
  bool whole = true;
  bool fresh = false;
  ring::DType buffer_dtype = dtype;
  uint64_t elements = 0;
  if (numel > 0) [[likely]] {
    Buffer* buffer = BufferOf(tensor);
    TORCH_CHECK(buffer != nullptr, "neuron: the tensor's storage was freed");
    if (!Runtime::Get().IsLive(buffer->epoch)) [[unlikely]] {
      Runtime::Get().FailEpoch(buffer->epoch);
    }
    slot = Slot(buffer, &fresh);
    buffer_dtype = buffer->dtype;
    elements = buffer->elements;
    whole = impl->storage_offset() == 0 &&
            static_cast<uint64_t>(numel) * impl->itemsize() == buffer->bytes &&
            (contiguous || impl->is_non_overlapping_and_dense());
    if (!whole) {
      call_.offsets.push_back(impl->storage_offset());
    }
  }
  flags |= whole ? uint64_t{kWhole} : 0;
  call_.key.push_back(Word(kTagTensor, (flags << 48) | (uint64_t{sizes.size()} << 40) |
                                           ((static_cast<uint64_t>(slot) & 0xffffff) << 16) |
                                           (static_cast<uint64_t>(buffer_dtype) << 8) |
                                           static_cast<uint64_t>(dtype)));
  for (const int64_t size : sizes) {
    call_.key.push_back(static_cast<uint64_t>(size));
  }
  if (!plain) {
    for (const int64_t stride : impl->strides()) {
      call_.key.push_back(static_cast<uint64_t>(stride));
    }
  }
  if (!whole && fresh) {
    call_.key.push_back(elements);
  }
  call_.tensors.push_back({&tensor, slot, whole});
}

void Builder::Host(c10::ScalarType dtype, bool wrapped, int64_t word) {
  call_.key.push_back(
      Word(kTagHost, (static_cast<uint64_t>(ToRing(dtype)) << 8) | (wrapped ? 1 : 0)));
  call_.scalars.push_back({dtype, wrapped, word});
}

void Builder::HostTensor(c10::IValue& holder, bool in_list) {
  const at::Tensor& tensor = holder.toTensor();
  const c10::ScalarType dtype = tensor.scalar_type();
  const bool complex = c10::isComplexType(dtype);
  if (dtype == c10::ScalarType::UInt64 && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    call_.unknown_dtype = true;  // a number beyond int64
    return;
  }
  if (tensor.dim() != 0 && !info_.indexes_from_host) {
    FailDevices(tensor);
  }
  if (tensor.dim() != 0 || in_list || complex || ToRing(dtype) == ring::DType::kInvalid) {
    // Index tensors, list items and complex numbers travel as device tensors.
    const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    const at::Tensor source =
        complex && wrapped ? tensor.to(c10::typeMetaToScalarType(c10::get_default_complex_dtype()))
                           : tensor;
    holder = Upload(source, call_.device >= 0 ? call_.device : CurrentDevice());
    Tensor(holder, false, false);
    return;
  }
  const c10::Scalar value = tensor.item();
  int64_t word = 0;
  if (c10::isFloatingType(dtype)) {
    word = std::bit_cast<int64_t>(value.toDouble());
  } else if (dtype == c10::ScalarType::UInt64) {
    word = static_cast<int64_t>(value.toUInt64());
  } else {
    word = value.toLong();
  }
  Host(dtype, tensor.unsafeGetTensorImpl()->is_wrapped_number(), word);
}

void Builder::Number(const c10::IValue& value) {
  if (value.isDouble()) {
    Host(c10::ScalarType::Double, true, std::bit_cast<int64_t>(value.toDouble()));
  } else if (value.isBool()) {
    Host(c10::ScalarType::Bool, true, value.toBool() ? 1 : 0);
  } else if (value.isInt()) {
    Host(c10::ScalarType::Long, true, value.toInt());
  } else if (value.isUnsigned()) [[unlikely]] {
    call_.unknown_dtype = true;  // beyond int64: no word holds it
  } else {
    Plain(value);  // complex, None: by value
  }
}

void Builder::String(const std::string& text) {
  call_.key.push_back(Word(kTagString, text.size()));
  for (size_t at = 0; at < text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min<size_t>(8, text.size() - at));
    call_.key.push_back(word);
  }
}

void Builder::Plain(const c10::IValue& value) {
  auto& key = call_.key;
  if (value.isNone()) {
    key.push_back(Word(kTagNone));
  } else if (value.isInt()) {
    key.push_back(Word(kTagInt));
    key.push_back(static_cast<uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    key.push_back(Word(kTagBool, value.toBool() ? 1 : 0));
  } else if (value.isDouble()) {
    key.push_back(Word(kTagDouble));
    key.push_back(std::bit_cast<uint64_t>(value.toDouble()));
  } else if (value.isComplexDouble()) {
    key.push_back(Word(kTagComplex));
    key.push_back(std::bit_cast<uint64_t>(value.toComplexDouble().real()));
    key.push_back(std::bit_cast<uint64_t>(value.toComplexDouble().imag()));
  } else if (value.isString()) {
    String(value.toStringRef());
  } else if (value.isDevice()) {
    const c10::Device device = value.toDevice();
    key.push_back(Word(kTagDevice, static_cast<uint64_t>(device.type())));
    if (device.is_privateuseone() && call_.device < 0) {
      call_.device = device.has_index() ? device.index() : CurrentDevice();
    }
  } else if (value.isGenerator()) {
    key.push_back(Word(kTagGenerator));
  } else if (value.isIntList()) {
    const auto list = value.toIntList();
    key.push_back(Word(kTagList, (uint64_t{kTagInt} << 40) | list.size()));
    for (const int64_t item : list) {
      key.push_back(static_cast<uint64_t>(item));
    }
  } else if (value.isList()) {
    const auto list = value.toListRef();
    key.push_back(Word(kTagList, list.size()));
    for (const c10::IValue& item : list) {
      Plain(item);
    }
  } else if (value.isSymInt()) {
    key.push_back(Word(kTagInt));
    key.push_back(static_cast<uint64_t>(value.toSymInt().guard_int(__FILE__, __LINE__)));
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "neuron: ", info_.name, " has an argument of type ",
                                value.tagKind());
  }
}

void Builder::Value(c10::IValue& value, ArgKind kind, bool written) {
  if (value.isTensor()) {
    Tensor(value, written, false);
  } else if (kind == ArgKind::kTensors && value.isList()) {
    const auto list = value.toListRef();
    call_.key.push_back(Word(kTagList, (uint64_t{kTagTensor} << 40) | list.size()));
    // The items live in the list, which may be shared with the caller: a replaced item needs a list
    // of our own.
    bool replace = false;
    for (const c10::IValue& item : list) {
      replace |= item.isTensor() && item.toTensor().defined() && !IsNeuron(item.toTensor());
    }
    if (replace) [[unlikely]] {
      for (const c10::IValue& item : list) {
        if (item.isTensor() && item.toTensor().defined() && IsNeuron(item.toTensor())) {
          Device(item.toTensor());
        }
      }
      value = value.toList().copy();
    }
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor()) {
        Tensor(const_cast<c10::IValue&>(item), written, true);
      } else {
        call_.key.push_back(Word(kTagNone));
      }
    }
  } else if (kind == ArgKind::kScalar) {
    Number(value);
  } else if (kind == ArgKind::kScalars && value.isList()) {
    const auto list = value.toList();
    call_.key.push_back(Word(kTagList, (uint64_t{kTagHost} << 40) | list.size()));
    for (size_t i = 0; i < list.size(); ++i) {
      Number(list.get(i));
    }
  } else {
    if (kind == ArgKind::kGenerator && value.isGenerator()) {
      call_.generator = value.toGenerator();
      TORCH_CHECK(call_.generator->device().is_privateuseone(),
                  "Expected a 'neuron' device type for generator but found '",
                  call_.generator->device().type(), "'");
    }
    Plain(value);
  }
}

// What changes the meaning of an op without being an argument.
uint64_t Settings() {
  const auto dtype = static_cast<uint64_t>(c10::get_default_dtype_as_scalartype());
  const auto& context = at::globalContext();
  return dtype | (Runtime::Get().native_float64() ? 1u << 8 : 0u) |
         (context.deterministicAlgorithms() ? 1u << 9 : 0u) |
         (static_cast<uint64_t>(context.float32MatmulPrecision()) << 10);
}

}  // namespace

c10::Scalar HostScalar::Value() const {
  if (c10::isFloatingType(dtype)) {
    return std::bit_cast<double>(word);
  }
  if (dtype == c10::ScalarType::Bool) {
    return word != 0;
  }
  if (dtype == c10::ScalarType::UInt64) {
    return static_cast<uint64_t>(word);
  }
  return word;
}

uint64_t Call::Hash() const {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const uint64_t word : key) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return hash;
}

void Call::AddStaticValues(const std::vector<int32_t>& statics) {
  key.push_back(~uint64_t{0});
  for (const int32_t index : statics) {
    TORCH_INTERNAL_ASSERT(static_cast<size_t>(index) < scalars.size());
    key.push_back(static_cast<uint64_t>(index));
    key.push_back(static_cast<uint64_t>(scalars[static_cast<size_t>(index)].word));
  }
}

void TakeApart(const OpInfo& info, torch::jit::Stack* stack, uint64_t graph, Call* call) {
  call->key.push_back((info.id << 32) | graph);
  call->key.push_back(Settings());
  const size_t count = info.args.size();
  const size_t first = stack->size() - count;
  // A tensor argument decides the device before host tensors are uploaded to it.
  if (info.indexes_from_host && (*stack)[first].isTensor() &&
      IsNeuron((*stack)[first].toTensor())) {
    call->device = (*stack)[first].toTensor().device().index();
  }
  Builder builder(info, call);
  for (size_t i = 0; i < count; ++i) {
    builder.Value((*stack)[first + i], info.args[i], info.written[i]);
  }
  if (call->device < 0) {
    call->device = CurrentDevice();
  }
}

}  // namespace neurond::shim
