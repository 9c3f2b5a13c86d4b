// Buffer: the shim's handle of a Buffer in the daemon. It is the context of a torch storage's
// DataPtr.
//
// The storage's "pointer" is an address that nothing is mapped at: unique among live storages, not
// null, good for torch's pointer arithmetic and identity, never dereferenced. It lies in the
// non-canonical half of the address space, so a kernel that does touch it faults at once.
//
// Lifetime: with its storage; the deleter gives the name back to the daemon and the bytes to the
// ledger. In a forked child and after the daemon's death the deleter only frees host memory.
// Thread-safety: immutable after creation.

#ifndef NEUROND_CLIENT_TORCH_CSRC_BUFFER_H_
#define NEUROND_CLIENT_TORCH_CSRC_BUFFER_H_

#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>

#include <cstdint>

#include "client/torch/csrc/runtime.h"

namespace neurond::shim {

struct Buffer {
  uint64_t id = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
  uint32_t epoch = 0;
  int8_t device = 0;
  ring::DType dtype = ring::DType::kU8;
};

// Registers the allocator for PrivateUse1.
void RegisterAllocator();
c10::Allocator* NeuronAllocator();

// A Buffer whose bytes were already reserved in the ledger and whose name is `id`.
c10::DataPtr WrapBuffer(const Link& link, uint64_t id, ring::DType dtype, uint64_t elements,
                        uint64_t bytes, int device);

// Reserves memory, makes a name and tells the daemon. Throws OutOfMemoryError. 0 bytes: a null
// DataPtr.
c10::DataPtr NewBuffer(c10::ScalarType dtype, uint64_t bytes, int device);

// The Buffer behind a storage; nullptr for a storage without bytes. Throws when the storage is not
// the shim's.
Buffer* BufferOf(const c10::StorageImpl* storage);
inline Buffer* BufferOf(const at::TensorBase& tensor) {
  return BufferOf(tensor.storage().unsafeGetStorageImpl());
}

// The current device of this thread.
int CurrentDevice();
void SetCurrentDevice(int device);
// Throws torch's words for an index that does not exist (connects).
void CheckDeviceIndex(int device);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_BUFFER_H_
