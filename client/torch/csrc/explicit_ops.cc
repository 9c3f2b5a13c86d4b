// Registration of the boxed kernel, and the few ops that need a kernel of their own.
//
// Boxed: the backend fallback; every structured op that torch would split into empty({0}) plus an
// out= call; and composite ops worth one program. Never an op tagged inplace_view or one that
// returns a view: those are metadata, and running them as programs would silently return wrong
// data; that is asserted here, at import.

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/TensorWrapper.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/all.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/is_set_to_native.h>
#include <torch/library.h>

#include <array>
#include <string_view>
#include <unordered_set>

#include "client/torch/csrc/dispatch.h"
#include "client/torch/csrc/register.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {
namespace {

// Composite in torch, one program here.
const std::unordered_set<std::string_view>& OneProgram() {
  static const auto* names = new std::unordered_set<std::string_view>{
      "aten::native_layer_norm",
      "aten::native_group_norm",
      "aten::_batch_norm_no_update",
      "aten::_fused_rms_norm",
      "aten::embedding",
      "aten::index_put_",
      "aten::index_put",
      "aten::stack",
      "aten::constant_pad_nd",
      "aten::arange",
      "aten::arange.start",
      "aten::arange.start_step",
      "aten::masked_fill.Scalar",
      "aten::masked_fill.Tensor",
      "aten::convolution",
      "aten::convolution_backward",
      "aten::_scaled_dot_product_fused_attention_overrideable",
      "aten::_scaled_dot_product_fused_attention_overrideable_backward",
      "aten::native_dropout",
      "aten::native_dropout_backward",
      "aten::binary_cross_entropy_with_logits",
      "aten::isnan",
      "aten::repeat",
      "aten::mul.Scalar",
      "aten::add.Scalar",
      "aten::sub.Scalar",
      "aten::div.Scalar",
      "aten::rsub.Scalar",
      "aten::mul_.Scalar",
      "aten::add_.Scalar",
      "aten::sub_.Scalar",
      "aten::div_.Scalar",
      "aten::rot90",
      "aten::one_hot",
      // torch's own know devices by name, or know less than the CPU's kernels
      "aten::mode.values",
      "aten::all.dims_out",
      "aten::any.dims_out",
      "aten::addr",
      "aten::addr.out",
      "aten::addr_",
  };
  return *names;
}

// Metadata alone, or returns a view: must not be a program.
bool IsView(const c10::OperatorHandle& op) {
  if (op.hasTag(at::Tag::inplace_view)) {
    return true;
  }
  for (const c10::Argument& value : op.schema().returns()) {
    if (value.alias_info() != nullptr && !value.alias_info()->isWrite()) {
      return true;
    }
  }
  return false;
}

// What these do with the whole storage of a view is no matter of the view's elements, and torch's
// own kernels, made of views and copies, do it here too.
bool IsOfTheStorage(std::string_view name) {
  return name == "aten::as_strided_copy" || name == "aten::as_strided_scatter" ||
         name == "aten::diagonal_scatter" || name == "aten::select_scatter" ||
         name == "aten::slice_scatter";
}

bool IsWorthOneProgram(const c10::OperatorHandle& op, const std::string& name) {
  if (IsOfTheStorage(name)) {
    return false;
  }
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {
    return true;
  }
  if (name.starts_with("aten::_foreach_") && name.find("out") == std::string::npos) {
    return true;
  }
  // An op that torch decomposes above autograd has no derivative of its own: a kernel here would
  // cut the graph.
  return OneProgram().contains(name) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

bool Equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              self.device(), " and ", other.device(), "!");
  if (self.sizes() != other.sizes()) {
    return false;
  }
  return self.numel() == 0 || at::all(at::eq(self, other)).item<bool>();
}

// (batch, heads, length, width) for all three, none empty; with `grouped`, several heads of the
// query share one of the key and value. Sizes may be symbolic.
bool IsPlainAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      bool grouped) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) {
    return false;
  }
  for (const int64_t dim : {0, 1, 2, 3}) {
    if (query.sym_size(dim) == 0 || key.sym_size(dim) == 0 || value.sym_size(dim) == 0) {
      return false;
    }
  }
  const bool heads =
      query.sym_size(1) == key.sym_size(1) || (grouped && query.sym_size(1) % key.sym_size(1) == 0);
  return heads && key.sym_size(1) == value.sym_size(1) && query.sym_size(0) == key.sym_size(0) &&
         query.sym_size(0) == value.sym_size(0) && key.sym_size(2) == value.sym_size(2) &&
         query.sym_size(3) == key.sym_size(3);
}

// Inside vmap, under whatever other transforms: there is no batching rule for the fused op.
bool IsBatched(at::Tensor tensor) {
  while (!at::functorch::isBatchedTensor(tensor)) {
    const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
    if (wrapper == nullptr) {
      return false;
    }
    tensor = wrapper->value();
  }
  return true;
}

// No mask, or one without gradient that broadcasts to the scores.
bool IsPlainMask(const std::optional<at::Tensor>& mask, const at::Tensor& query,
                 const at::Tensor& key) {
  if (!mask.has_value() || !mask->defined()) {
    return true;
  }
  const std::array<c10::SymInt, 4> scores = {query.sym_size(0), query.sym_size(1),
                                             query.sym_size(2), key.sym_size(2)};
  if (mask->requires_grad() || mask->dim() > 4 || IsBatched(*mask)) {
    return false;
  }
  for (int64_t i = 1; i <= mask->dim(); ++i) {
    if (mask->sym_size(-i) != 1 && mask->sym_size(-i) != scores[static_cast<size_t>(4 - i)]) {
      return false;
    }
  }
  return true;
}

// Attention is one op of the lowering; torch takes its math path when the user forbids fused
// kernels by sdpa_kernel(MATH), for dropout, inside vmap, for nested or oddly shaped inputs, and
// for dtypes without a fused form. The math path also has the words for a mask that does not fit.
int64_t ChooseAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const std::optional<at::Tensor>& mask, double dropout, bool /*causal*/,
                        std::optional<double> /*scale*/, bool enable_gqa) {
  const auto& context = at::globalContext();
  const bool fused_allowed = context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP();
  const bool dtype = query.scalar_type() == at::kFloat || query.scalar_type() == at::kBFloat16 ||
                     query.scalar_type() == at::kHalf;
  const bool batched = IsBatched(query) || IsBatched(key) || IsBatched(value);
  if (fused_allowed && dtype && dropout == 0 && !batched &&
      IsPlainAttention(query, key, value, enable_gqa) && IsPlainMask(mask, query, key)) {
    return static_cast<int64_t>(at::SDPBackend::overrideable);
  }
  return static_cast<int64_t>(at::SDPBackend::math);
}

at::Tensor ConvolutionOverrideable(const at::Tensor& input, const at::Tensor& weight,
                                   const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                                   c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                   bool transposed, c10::IntArrayRef output_padding,
                                   int64_t groups) {
  static OpInfo& op = OpInfo::Named("aten::convolution", "");
  torch::jit::Stack stack;
  torch::jit::push(stack, input, weight, bias, stride.vec(), padding.vec(), dilation.vec(),
                   transposed, output_padding.vec(), groups);
  RunKeyed(op, &stack);
  return stack[0].toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> ConvolutionBackwardOverrideable(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  static OpInfo& op = OpInfo::Named("aten::convolution_backward", "");
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  torch::jit::Stack stack;
  torch::jit::push(stack, grad, input, weight, std::vector<int64_t>{channels}, stride.vec(),
                   padding.vec(), dilation.vec(), transposed, output_padding.vec(), groups,
                   c10::List<bool>({mask[0], mask[1], mask[2]}));
  RunKeyed(op, &stack);
  return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
}

// nn.TransformerEncoder asks whether it may make nested tensors of its padded input: the device has
// none.
bool NestsFromMask(const at::Tensor& /*padded*/, const at::Tensor& /*mask*/) { return false; }

// Commands hold the Versions they read: nothing has to be kept for another stream.
void RecordStream(at::Tensor& /*self*/, c10::Stream /*stream*/) {}

}  // namespace

void RegisterExplicitOps() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten",
                                            c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->impl("equal", TORCH_FN(Equal));
  library->impl("is_set_to", TORCH_FN(at::native::is_set_to));
  library->impl("_fused_sdp_choice", TORCH_FN(ChooseAttention));
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&ChooseAttention);
  library->impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(NestsFromMask));
  library->impl("record_stream", TORCH_FN(RecordStream));
  library->impl("convolution_overrideable", TORCH_FN(ConvolutionOverrideable));
  library->impl("convolution_backward_overrideable", TORCH_FN(ConvolutionBackwardOverrideable));
}

void RegisterBoxedOps() {
  static auto* fallback = new torch::Library(torch::Library::IMPL, "_",
                                             c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  fallback->fallback(torch::CppFunction::makeFromBoxedFunction<&BoxedKernel>());
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
      continue;
    }
    const std::string text =
        name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    if (!text.starts_with("aten::") || !IsWorthOneProgram(*op, text)) {
      continue;
    }
    if (IsView(*op)) {
      TORCH_CHECK(!OneProgram().contains(text), "neuron: ", text,
                  " returns a view and cannot be a program");
      continue;
    }
    handles->push_back(
        dispatcher.registerImpl(name, c10::DispatchKey::PrivateUse1,
                                c10::KernelFunction::makeFromBoxedFunction<&BoxedKernel>(),
                                std::nullopt, nullptr, "neuron boxed"));
  }
}

}  // namespace neurond::shim
