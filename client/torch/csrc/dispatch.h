// Dispatch: the keyed path that every op takes, eager and compiled alike.
//
//   take apart -> look the key up -> hit: make outputs, push one Execute record
//                                  -> miss: miss.h, then as a hit
// Thread-safety: RunKeyed from any thread. No lock is held across it.

#ifndef NEUROND_CLIENT_TORCH_CSRC_DISPATCH_H_
#define NEUROND_CLIENT_TORCH_CSRC_DISPATCH_H_

#include <ATen/core/stack.h>

#include "client/torch/csrc/dtype.h"
#include "client/torch/csrc/op_info.h"

namespace neurond::shim {

// Runs `info` on the stack's last arguments and replaces them by its returns. `graph`: for
// neuron::run_graph, the registered graph.
void RunKeyed(const OpInfo& info, torch::jit::Stack* stack, uint64_t graph = 0);

// The boxed kernel of every op without a kernel of its own.
void BoxedKernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_DISPATCH_H_
