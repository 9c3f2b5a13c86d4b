// The counted CPU path of an op that has no program: arguments come down, the CPU runs it, results
// go up.
//
// Every use is counted (get_fallback_ops), the first of each op warns, and the strict switch
// TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1 makes it an error.
//
// Thread-safety: from any thread; synchronizes.

#ifndef NEUROND_CLIENT_TORCH_CSRC_FALLBACK_H_
#define NEUROND_CLIENT_TORCH_CSRC_FALLBACK_H_

#include <ATen/core/stack.h>

#include <string_view>

#include "client/torch/csrc/op_info.h"

namespace neurond::shim {

void RunOnCpu(const OpInfo& info, torch::jit::Stack* stack, std::string_view reason);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_FALLBACK_H_
