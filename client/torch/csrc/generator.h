// Generator: a seed and an offset into its stream of random numbers. The device computes the
// numbers; a random op takes the pair as run-time words at submission, in program order, and moves
// the offset by what its Program uses.
//
// Thread-safety: callers hold GeneratorImpl::mutex_ for anything that moves the offset.

#ifndef NEUROND_CLIENT_TORCH_CSRC_GENERATOR_H_
#define NEUROND_CLIENT_TORCH_CSRC_GENERATOR_H_

#include <ATen/core/Generator.h>

namespace neurond::shim {

class NeuronGenerator final : public c10::GeneratorImpl {
 public:
  explicit NeuronGenerator(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  // 16 bytes, as CUDA's: seed, offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

 private:
  NeuronGenerator* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

// The device's default generator (made on first use; does not connect).
const at::Generator& DefaultGenerator(int device);
at::Generator NewGenerator(int device);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_GENERATOR_H_
