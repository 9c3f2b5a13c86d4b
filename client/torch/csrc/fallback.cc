#include "client/torch/csrc/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/native/CPUFallback.h>

#include <cstdlib>
#include <string>

#include "client/torch/csrc/generator.h"

namespace neurond::shim {
namespace {

bool Strict() {
  static const bool strict = [] {
    const char* value = std::getenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return strict;
}

// A CPU generator that continues the device generator's stream, which moves on by one.
at::Generator HostGenerator(const at::Generator& generator) {
  auto* ours = static_cast<NeuronGenerator*>(generator.unsafeGetGeneratorImpl());
  std::lock_guard<std::mutex> lock(ours->mutex_);
  const uint64_t seed = ours->current_seed() * 0x9e3779b97f4a7c15 + ours->get_offset();
  ours->set_offset(ours->get_offset() + 1);
  return at::detail::createCPUGenerator(seed);
}

}  // namespace

void RunOnCpu(const OpInfo& info, torch::jit::Stack* stack, std::string_view reason) {
  TORCH_CHECK_NOT_IMPLEMENTED(!Strict(), "neuron: ", info.name, " does not run on the device (",
                              reason,
                              ") and TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1 forbids the CPU");
  info.fallbacks.fetch_add(1, std::memory_order_relaxed);
  if (!info.warned_fallback.exchange(true)) {
    TORCH_WARN("neuron: ", info.name, " runs on the CPU: ", reason);
  }
  const size_t first = stack->size() - info.args.size();
  for (size_t i = 0; i < info.args.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (info.args[i] == ArgKind::kGenerator && value.isGenerator() &&
        value.toGenerator().device().is_privateuseone()) {
      value = HostGenerator(value.toGenerator());
    }
  }
  at::native::cpu_fallback(info.op, stack);
}

}  // namespace neurond::shim
