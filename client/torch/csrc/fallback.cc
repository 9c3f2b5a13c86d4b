#include "client/torch/csrc/fallback.h"

#include <ATen/native/CPUFallback.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/host_generator.h"

namespace neurond::shim {
namespace {

bool Strict() {
  static const bool strict = [] {
    const char* value = std::getenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION");
    const std::string_view text = value != nullptr ? value : "";
    return text == "1" || text == "true" || text == "on" || text == "yes";
  }();
  return strict;
}

// Gives a random op a generator of the CPU that follows the device's; the arguments' own where they
// name one.
class HostRandom {
 public:
  HostRandom(const OpInfo& info, torch::jit::Stack* stack)
      : keep_(NeedsDefault(info), Seed(info, stack)) {}

 private:
  static bool IsRandom(const OpInfo& info) {
    return info.op.hasTag(at::Tag::nondeterministic_seeded);
  }
  static bool HasGenerator(const OpInfo& info) {
    return std::find(info.args.begin(), info.args.end(), ArgKind::kGenerator) != info.args.end();
  }
  static bool NeedsDefault(const OpInfo& info) { return IsRandom(info) && !HasGenerator(info); }

  static std::optional<uint64_t> Seed(const OpInfo& info, torch::jit::Stack* stack) {
    if (!IsRandom(info)) {
      return std::nullopt;
    }
    int device = CurrentDevice();
    const size_t first = stack->size() - info.args.size();
    for (size_t i = first; i < stack->size(); ++i) {
      const c10::IValue& value = (*stack)[i];
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_privateuseone()) {
        device = value.toTensor().device().index();
        break;
      }
    }
    for (size_t i = 0; i < info.args.size(); ++i) {
      c10::IValue& value = (*stack)[first + i];
      if (info.args[i] != ArgKind::kGenerator) {
        continue;
      }
      const at::Generator given =
          value.isGenerator() ? value.toGenerator() : DefaultGenerator(device);
      if (given.device().is_privateuseone()) {
        value = at::detail::createCPUGenerator(HostSeed(given));
      }
    }
    return NeedsDefault(info) ? std::optional<uint64_t>(HostSeed(DefaultGenerator(device)))
                              : std::nullopt;
  }

  KeepCpuGenerator keep_;
};

// The CPU works on copies and writes back what the schema marks: the rest is written back here.
class SilentWrites {
 public:
  SilentWrites(const OpInfo& info, torch::jit::Stack* stack) {
    const size_t first = stack->size() - info.args.size();
    for (const size_t i : info.silently_written) {
      c10::IValue& value = (*stack)[first + i];
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_privateuseone()) {
        const at::Tensor device = value.toTensor();
        const at::Tensor host = device.cpu();
        value = host;
        written_.emplace_back(device, host);
      }
    }
  }
  void Finish() const {
    for (const auto& [device, host] : written_) {
      device.copy_(host);
    }
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
};

}  // namespace

void RunOnCpu(const OpInfo& info, torch::jit::Stack* stack, std::string_view reason) {
  TORCH_CHECK_NOT_IMPLEMENTED(!Strict(), "neuron: ", info.name, " does not run on the device (",
                              reason,
                              ") and TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1 forbids the CPU");
  info.fallbacks.fetch_add(1, std::memory_order_relaxed);
  if (!info.warned_fallback.exchange(true)) {
    TORCH_WARN("neuron: ", info.name, " runs on the CPU: ", reason);
  }
  const HostRandom random(info, stack);
  const SilentWrites writes(info, stack);
  at::native::cpu_fallback(info.op, stack);
  writes.Finish();
}

}  // namespace neurond::shim
