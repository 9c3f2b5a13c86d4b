// The CPU's random numbers, where an op of the device runs on the CPU: the user's own CPU
// generators must not move.
//
// Thread-safety: HostGenerator locks the device generator. KeepCpuGenerator: another thread that
// draws from the default CPU generator meanwhile draws from the replaced state.

#ifndef NEUROND_CLIENT_TORCH_CSRC_HOST_GENERATOR_H_
#define NEUROND_CLIENT_TORCH_CSRC_HOST_GENERATOR_H_

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>

#include "client/torch/csrc/generator.h"

namespace neurond::shim {

// A seed that continues the device generator's stream, which moves on by one.
inline uint64_t HostSeed(const at::Generator& generator) {
  auto* ours = static_cast<NeuronGenerator*>(generator.unsafeGetGeneratorImpl());
  std::lock_guard<std::mutex> lock(ours->mutex_);
  const uint64_t seed = ours->current_seed() * 0x9e3779b97f4a7c15 + ours->get_offset();
  ours->set_offset(ours->get_offset() + 1);
  return seed;
}

// Saves the default CPU generator, seeds it if asked to, and restores it.
class KeepCpuGenerator {
 public:
  KeepCpuGenerator(bool keep, std::optional<uint64_t> seed) : keep_(keep) {
    if (keep_) {
      std::lock_guard<std::mutex> lock(Default().mutex());
      state_ = Default().get_state();
      if (seed.has_value()) {
        Default().set_current_seed(*seed);
      }
    }
  }
  ~KeepCpuGenerator() {
    if (keep_) {
      std::lock_guard<std::mutex> lock(Default().mutex());
      Default().set_state(state_);
    }
  }
  KeepCpuGenerator(const KeepCpuGenerator&) = delete;
  KeepCpuGenerator& operator=(const KeepCpuGenerator&) = delete;

 private:
  static at::Generator& Default() {
    static auto* generator = new at::Generator(at::detail::getDefaultCPUGenerator());
    return *generator;
  }
  bool keep_;
  at::Tensor state_;
};

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_HOST_GENERATOR_H_
