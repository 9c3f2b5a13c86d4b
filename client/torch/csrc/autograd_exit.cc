#include "client/torch/csrc/autograd_exit.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>

#include "client/torch/csrc/tensor.h"

namespace neurond::shim {
namespace {

std::atomic<bool> backward_noted{false};

}  // namespace

void NoteBackward() { backward_noted.store(true, std::memory_order_relaxed); }

void SettleAutograd(const Link& link) {
  if (!backward_noted.load()) {
    return;
  }
  ReleaseGil release;
  const at::AutoGradMode grad(true);
  using torch::autograd::impl::gradient_edge;
  for (int device = 0; device < link.device_count; ++device) {
    // No elements, so nothing is submitted, and no Python objects: it passes through the device's
    // queue behind all that came before.
    at::Tensor x = EmptyContiguous({0}, c10::ScalarType::Float, device);
    x.requires_grad_();
    const at::Tensor y = x.view({0});
    torch::autograd::Engine::get_default_engine().execute(
        {gradient_edge(y)}, {EmptyContiguous({0}, c10::ScalarType::Float, device)}, false, false,
        false, {gradient_edge(x)});
  }
}

}  // namespace neurond::shim
