#include "client/torch/csrc/reference_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstdlib>

#include "client/torch/csrc/host_generator.h"
#include "client/torch/csrc/limits.h"
#include "client/torch/csrc/small_twin.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {
namespace {

constexpr int64_t kBaseAlign = 16;

// Storage bytes [begin, end) that the call's tensors of one slot reach.
struct Window {
  int64_t begin = INT64_MAX, end = 0;
};

std::vector<Window> Windows(const Call& call) {
  std::vector<Window> windows(call.slots.size());
  for (const TensorArg& arg : call.tensors) {
    if (arg.slot < 0) {
      continue;
    }
    const auto item = static_cast<int64_t>(arg.tensor->dtype().itemsize());
    Window& window = windows[static_cast<size_t>(arg.slot)];
    const int64_t begin = arg.tensor->storage_offset() * item;
    window.begin = std::min(window.begin, begin / kBaseAlign * kBaseAlign);
    window.end =
        std::max(window.end, begin + Extent(arg.tensor->sizes(), arg.tensor->strides()) * item);
  }
  return windows;
}

// Multiply-adds of the heavy ops, elements of the others; an estimate.
int64_t Work(const OpInfo& info, const Call& call) {
  std::vector<int64_t> broadcast;
  int64_t numel = 0;
  for (const TensorArg& arg : call.tensors) {
    numel += arg.tensor->numel();
    const auto sizes = arg.tensor->sizes();
    if (broadcast.size() < sizes.size()) {
      broadcast.insert(broadcast.begin(), sizes.size() - broadcast.size(), 1);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t& size = broadcast[broadcast.size() - 1 - i];
      size = std::max(size, sizes[sizes.size() - 1 - i]);
    }
  }
  int64_t work = 1;
  for (const int64_t size : broadcast) {
    if (__builtin_mul_overflow(work, size, &work)) {
      return INT64_MAX;
    }
  }
  work = std::max(work, numel);
  const std::string& name = info.name;
  if (name.find("mm") != std::string::npos && call.tensors.size() >= 2) {
    const at::Tensor& a = *call.tensors[call.tensors.size() - 2].tensor;
    const at::Tensor& b = *call.tensors[call.tensors.size() - 1].tensor;
    if (b.dim() > 0 && __builtin_mul_overflow(a.numel(), b.size(-1), &work)) {
      return INT64_MAX;
    }
  } else if (name.find("convolution") != std::string::npos && call.tensors.size() >= 2) {
    const at::Tensor& weight =
        *call.tensors[call.tensors.size() > 2 && info.name.find("backward") != std::string::npos
                          ? 2
                          : 1]
             .tensor;
    const int64_t channels = weight.dim() > 1 ? std::max<int64_t>(weight.size(1), 1) : 1;
    if (__builtin_mul_overflow(call.tensors[0].tensor->numel() / channels + 1, weight.numel() * 3,
                               &work)) {
      return INT64_MAX;
    }
  } else if (name.starts_with("aten::arange") || name.starts_with("aten::range") ||
             name.starts_with("aten::linspace")) {
    for (const HostScalar& scalar : call.scalars) {
      work = std::max<int64_t>(
          work, static_cast<int64_t>(std::min(1e18, std::abs(scalar.Value().toDouble()))));
    }
  }
  return work;
}

// NEURON_REFERENCE_BYTES_MAX, for machines whose host is slow and for tests.
int64_t BytesMax() {
  static const int64_t bytes = [] {
    const char* text = std::getenv("NEURON_REFERENCE_BYTES_MAX");
    return text != nullptr && *text != 0 ? std::atoll(text) : kReferenceBytesMax;
  }();
  return bytes;
}

bool WithinLimits(const OpInfo& info, const Call& call, const std::vector<Window>& windows) {
  int64_t bytes = 0;
  for (const Window& window : windows) {
    bytes += window.end - window.begin;
  }
  return bytes <= BytesMax() && Work(info, call) <= kReferenceWorkMax;
}

// A few CPU kernels write through expanded tensors, element by element; a Program writes a View
// whole and could not say which of the elements that share memory wins.
void CheckExpandedWrites(const OpInfo& info, const torch::jit::Stack& stack) {
  if (info.fills) {
    return;
  }
  const size_t first = stack.size() - info.args.size();
  for (size_t i = 0; i < info.args.size(); ++i) {
    if (info.written[i] && stack[first + i].isTensor() && stack[first + i].toTensor().defined()) {
      at::assert_no_internal_overlap(stack[first + i].toTensor());
    }
  }
}

// What TensorIterator would have checked, where the CPU does not run.
void CheckWrites(const OpInfo& info, const Call& call, const torch::jit::Stack& stack) {
  const size_t first = stack.size() - info.args.size();
  for (size_t i = 0; i < info.args.size(); ++i) {
    if (!info.written[i] || !stack[first + i].isTensor() ||
        !stack[first + i].toTensor().defined()) {
      continue;
    }
    const at::Tensor& written = stack[first + i].toTensor();
    if (!info.fills) {
      at::assert_no_internal_overlap(written);
    }
    for (const TensorArg& other : call.tensors) {
      if (other.tensor->unsafeGetTensorImpl() != written.unsafeGetTensorImpl()) {
        at::assert_no_partial_overlap(written, *other.tensor);
      }
    }
  }
}

class Twin {
 public:
  Twin(const Call& call, std::vector<at::Tensor> tensors)
      : call_(call), tensors_(std::move(tensors)) {}
  // Contents are zeros; where the op divides, bytes of one: no integer is zero then.
  Twin(const OpInfo& info, const Call& call, const std::vector<Window>& windows) : call_(call) {
    for (const Window& window : windows) {
      const int64_t bytes = window.end - window.begin;
      storages_.push_back(info.divides
                              ? at::full({bytes}, 1, at::TensorOptions(at::kByte)).storage()
                              : LazyZeros(bytes));
    }
    for (const TensorArg& arg : call.tensors) {
      const auto same = std::find_if(call.tensors.begin(), &arg, [&](const TensorArg& other) {
        return other.tensor->is_same(*arg.tensor);
      });
      tensors_.push_back(same == &arg ? Make(arg, windows)
                                      : tensors_[static_cast<size_t>(same - call.tensors.begin())]);
    }
  }

  // The CPU stack. Takes the call's arguments in order.
  torch::jit::Stack Arguments(const OpInfo& info, const torch::jit::Stack& stack) {
    torch::jit::Stack twin;
    const size_t first = stack.size() - info.args.size();
    for (size_t i = 0; i < info.args.size(); ++i) {
      twin.push_back(Argument(stack[first + i], info.args[i]));
    }
    return twin;
  }

  void Read(const torch::jit::Stack& results, Reference* reference) const {
    for (const c10::IValue& value : results) {
      ReturnSpec spec;
      if (value.isTensor()) {
        spec.items.push_back(Spec(value.toTensor(), reference));
      } else if (value.isTensorList()) {
        spec.is_list = true;
        for (const at::Tensor& tensor : value.toTensorVector()) {
          spec.items.push_back(Spec(tensor, reference));
        }
      } else if (value.isNone()) {
        spec.items.emplace_back();
      } else {
        reference->plain_values = true;
      }
      reference->returns.push_back(std::move(spec));
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const at::Tensor& before = *call_.tensors[i].tensor;
      if (tensors_[i].sizes() != before.sizes() || tensors_[i].strides() != before.strides()) {
        reference->resizes.push_back(
            {static_cast<int32_t>(i), tensors_[i].sizes().vec(), tensors_[i].strides().vec()});
      }
    }
  }

 private:
  at::Tensor Make(const TensorArg& arg, const std::vector<Window>& windows) const {
    const at::Tensor& like = *arg.tensor;
    at::Tensor tensor = at::empty({0}, at::TensorOptions(like.scalar_type()).device(at::kCPU));
    if (arg.slot < 0) {
      tensor = at::empty_strided(like.sizes(), like.strides(), tensor.options());
    } else {
      const auto slot = static_cast<size_t>(arg.slot);
      const auto item = static_cast<int64_t>(like.dtype().itemsize());
      tensor.set_(storages_[slot], like.storage_offset() - windows[slot].begin / item, like.sizes(),
                  like.strides());
    }
    tensor._set_conj(like.is_conj());
    tensor._set_neg(like.is_neg());
    return tensor;
  }

  c10::IValue Argument(const c10::IValue& value, ArgKind kind) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      return tensor.defined() && IsNeuron(tensor) ? tensors_[next_++] : tensor;
    }
    if (kind == ArgKind::kTensors && value.isList()) {
      auto list = value.toList().copy();
      for (size_t i = 0; i < list.size(); ++i) {
        const c10::IValue item = list.get(i);
        if (item.isTensor() && item.toTensor().defined()) {
          list.set(i, c10::IValue(tensors_[next_++]));
        }
      }
      return list;
    }
    if (value.isDevice()) {
      return c10::Device(c10::DeviceType::CPU);
    }
    if (kind == ArgKind::kGenerator) {
      return value.isGenerator() ? c10::IValue(at::detail::createCPUGenerator()) : value;
    }
    return value;
  }

  OutSpec Spec(const at::Tensor& tensor, Reference* reference) const {
    OutSpec spec;
    if (!tensor.defined()) {
      return spec;
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].is_same(tensor)) {
        spec.kind = OutSpec::Kind::kArg;
        spec.arg = static_cast<int32_t>(i);
        return spec;
      }
    }
    for (const c10::Storage& storage : storages_) {
      reference->aliases |= tensor.numel() > 0 && storage.is_alias_of(tensor.storage());
    }
    if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided) {
      reference->aliases = true;
      return spec;
    }
    spec.kind = OutSpec::Kind::kNew;
    spec.dtype = tensor.scalar_type();
    spec.sizes = tensor.sizes().vec();
    spec.strides = tensor.strides().vec();
    return spec;
  }

  const Call& call_;
  std::vector<c10::Storage> storages_;
  std::vector<at::Tensor> tensors_;
  size_t next_ = 0;
};

// Runs the op on the twin's tensors, with nothing of the caller's dispatch state.
torch::jit::Stack RunTwin(const OpInfo& info, Twin& twin, const torch::jit::Stack& stack) {
  at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard plain(
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet(
          {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
           c10::DispatchKey::Functionalize, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
           c10::DispatchKey::FuncTorchDynamicLayerBackMode, c10::DispatchKey::FuncTorchBatched,
           c10::DispatchKey::FuncTorchGradWrapper}));
  const KeepCpuGenerator keep(info.op.hasTag(at::Tag::nondeterministic_seeded), std::nullopt);
  torch::jit::Stack arguments = twin.Arguments(info, stack);
  info.op.callBoxed(arguments);
  return arguments;
}

// While it lives, warnings of this thread are kept and, if there is a `next`, passed on to it.
class KeepWarnings final : public c10::WarningHandler {
 public:
  explicit KeepWarnings(c10::WarningHandler* next) : next_(next), guard_(this) {}
  void process(const c10::Warning& warning) override {
    texts_.push_back(warning.msg());
    if (next_ != nullptr) {
      next_->process(warning);
    }
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  c10::WarningHandler* const next_;
  std::vector<std::string> texts_;
  const c10::WarningUtils::WarningHandlerGuard guard_;
};

bool SmallTwinRaises(const OpInfo& info, const Call& call, const torch::jit::Stack& stack) {
  const KeepWarnings quiet(nullptr);
  try {
    Twin twin(call, SmallTensors(call, info.divides ? 1 : 0));
    RunTwin(info, twin, stack);
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

}  // namespace

std::optional<c10::ScalarType> MaskIndex(const OpInfo& info, const torch::jit::Stack& stack) {
  if (!info.indexes_from_host) {
    return std::nullopt;
  }
  for (const c10::IValue& arg : torch::jit::last(stack, info.args.size())) {
    if (!arg.isList()) {
      continue;
    }
    for (const c10::IValue& item : arg.toListRef()) {
      if (!item.isTensor() || !item.toTensor().defined()) {
        continue;
      }
      const c10::ScalarType dtype = item.toTensor().scalar_type();
      if (dtype == c10::ScalarType::Bool || dtype == c10::ScalarType::Byte) {
        return dtype;
      }
    }
  }
  return std::nullopt;
}

Reference RunReference(const OpInfo& info, const Call& call, const torch::jit::Stack& stack) {
  Reference reference;
  const std::vector<Window> windows = Windows(call);
  if (info.is_graph) {
    return reference;
  }
  const std::optional<c10::ScalarType> mask = MaskIndex(info, stack);
  if (mask == c10::ScalarType::Byte) {
    TORCH_WARN(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
        "instead.");
  }
  if (info.skip_reference || mask.has_value()) {
    CheckWrites(info, call, stack);
    return reference;
  }
  if (!WithinLimits(info, call, windows)) {
    CheckWrites(info, call, stack);
    if (!HasSmallTwin(info, stack) || !SmallTwinRaises(info, call, stack)) {
      return reference;
    }
  }
  bool warned = false;
  {
    const KeepWarnings warnings(c10::WarningUtils::get_warning_handler());
    Twin twin(info, call, windows);
    const torch::jit::Stack results = RunTwin(info, twin, stack);
    CheckExpandedWrites(info, stack);
    twin.Read(results, &reference);
    warned = !warnings.texts().empty();
  }
  if (warned) {  // once a process or at each call? The second run tells.
    const KeepWarnings warnings(nullptr);
    Twin twin(info, call, windows);
    RunTwin(info, twin, stack);
    reference.warnings = warnings.texts();
  }
  reference.ran = true;
  return reference;
}

}  // namespace neurond::shim
