// What autograd needs at the end of the process.
//
// Backward of a neuron tensor runs on threads of torch, one per device. backward() returns while
// they still hold its graph, and letting go of that takes the GIL; a thread that wants the GIL
// while the interpreter ends aborts the process.
//
// Thread-safety: all functions, from any thread.

#ifndef NEUROND_CLIENT_TORCH_CSRC_AUTOGRAD_EXIT_H_
#define NEUROND_CLIENT_TORCH_CSRC_AUTOGRAD_EXIT_H_

#include "client/torch/csrc/runtime.h"

namespace neurond::shim {

// A backward has begun in this process.
void NoteBackward();
// If one has: returns when each device's thread has let go of the last one. Releases the GIL.
void SettleAutograd(const Link& link);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_AUTOGRAD_EXIT_H_
