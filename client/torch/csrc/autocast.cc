// Autocast for the device: torch's own lists, as every accelerator uses them; any other op falls
// through.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "client/torch/csrc/register.h"

namespace at::autocast {
namespace {

// m is the library that KERNEL registers into.
void RegisterLists(torch::Library& m){
#define NEURON_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define NEURON_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define NEURON_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define NEURON_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
    AT_FORALL_LOWER_PRECISION_FP(NEURON_LOWER_PRECISION) AT_FORALL_FP32(NEURON_FP32)
        AT_FORALL_FP32_SET_OPT_DTYPE(NEURON_FP32_SET_OPT_DTYPE)
            AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(
                KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
                AT_FORALL_PROMOTE(NEURON_PROMOTE)}

Tensor
    BinaryCrossEntropyBanned(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
      "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
      "In this case, combine the two layers using "
      "torch.nn.functional.binary_cross_entropy_with_logits\n"
      "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
      "safe to autocast.");
}

}  // namespace
}  // namespace at::autocast

namespace neurond::shim {

void RegisterAutocast() {
  static auto* fallback = new torch::Library(
      torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  fallback->fallback(torch::CppFunction::makeFallthrough());
  static auto* lists = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  at::autocast::RegisterLists(*lists);
  lists->impl("binary_cross_entropy", TORCH_FN(at::autocast::BinaryCrossEntropyBanned));
}

}  // namespace neurond::shim
