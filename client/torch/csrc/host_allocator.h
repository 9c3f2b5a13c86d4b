// Pinned host memory: what `tensor.pin_memory()` and DataLoader(pin_memory=True) give. The device
// behind the daemon copies from shared staging, so "pinned" means: known to us, page-aligned, and
// reported by is_pinned().
//
// Thread-safety: all functions, from any thread.

#ifndef NEUROND_CLIENT_TORCH_CSRC_HOST_ALLOCATOR_H_
#define NEUROND_CLIENT_TORCH_CSRC_HOST_ALLOCATOR_H_

#include <c10/core/Allocator.h>

namespace neurond::shim {

void RegisterHostAllocator();
c10::Allocator* PinnedAllocator();
bool IsPinned(const void* data);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_HOST_ALLOCATOR_H_
