// The CPU reference run: the op, once, over zero-filled CPU tensors of the same metadata, aliasing
// and overlaps.
//
// If the CPU raises, that is the user's exception, in PyTorch's own words. Its outputs' dtypes,
// sizes and strides are the truth. Not run: ops whose failure depends on values, and calls above
// limits of bytes and work, unless their small twin (small_twin.h) raises; there explicit checks of
// what is written stand in.
//
// Thread-safety: from any thread; runs CPU kernels, holds no lock. Does not move any generator of
// the user.

#ifndef NEUROND_CLIENT_TORCH_CSRC_REFERENCE_RUN_H_
#define NEUROND_CLIENT_TORCH_CSRC_REFERENCE_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "client/torch/csrc/call.h"
#include "client/torch/csrc/entry.h"

namespace neurond::shim {

struct Reference {
  bool ran = false;
  bool plain_values = false;  // returns something that is not a tensor: depends on data
  bool aliases = false;       // returns a view of an argument that the schema does not promise
  std::vector<ReturnSpec> returns;
  std::vector<Entry::Resize> resizes;  // out= tensors that the op resized
  std::vector<std::string> warnings;   // that every such call gives, not only the first
};

// The dtype of a mask that the op indexes by: over zeros it picks nothing, which says nothing.
std::optional<c10::ScalarType> MaskIndex(const OpInfo& info, const torch::jit::Stack& stack);

Reference RunReference(const OpInfo& info, const Call& call, const torch::jit::Stack& stack);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_REFERENCE_RUN_H_
