// The small twin of a large call: CPU tensors with the dtypes and the number of dimensions of the
// call's tensors, whose sizes keep what most checks look at (equal sizes stay equal, larger ones
// stay larger, small ones stay) and nothing else.
//
// A call above the limits of the reference run is judged by it: what the small twin accepts is
// taken to be right. What it refuses is run in full, over zeros that take memory only where they
// are touched, so that the error is PyTorch's own about the user's own sizes. So a small twin that
// is wrong costs time or PyTorch's wording, never a result.
//
// Thread-safety: free functions of their arguments.

#ifndef NEUROND_CLIENT_TORCH_CSRC_SMALL_TWIN_H_
#define NEUROND_CLIENT_TORCH_CSRC_SMALL_TWIN_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "client/torch/csrc/call.h"

namespace neurond::shim {

// False where sizes hang together by more than order: a size among the arguments, convolutions with
// groups, and backward ops, whose arguments are not the user's.
bool HasSmallTwin(const OpInfo& info, const torch::jit::Stack& stack);
// One tensor per tensor of the call, full of `value`; the same tensor twice stays one.
std::vector<at::Tensor> SmallTensors(const Call& call, int value);
// A storage of zeros that takes memory only where it is touched.
c10::Storage LazyZeros(int64_t bytes);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_SMALL_TWIN_H_
