// Resizing: a Buffer has one size for life, so growth makes a new Buffer and copies the content on
// the device.
//
// Thread-safety: as torch's tensors: one writer.

#ifndef NEUROND_CLIENT_TORCH_CSRC_RESIZE_H_
#define NEUROND_CLIENT_TORCH_CSRC_RESIZE_H_

#include <ATen/core/Tensor.h>

namespace neurond::shim {

// Storage.resize_: keeps min(old, new) bytes.
void ResizeStorage(c10::StorageImpl* storage, size_t bytes);

// Tensor.resize_: the storage only ever grows.
const at::Tensor& Resize(const at::Tensor& self, c10::IntArrayRef sizes,
                         std::optional<c10::MemoryFormat> format);

// Gives a tensor sizes and strides, growing its storage where needed.
void ResizeStrided(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_RESIZE_H_
