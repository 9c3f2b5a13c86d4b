// Tensors of the device: plain TensorImpls over a storage whose context is a Buffer.
//
// Thread-safety: pure functions.

#ifndef NEUROND_CLIENT_TORCH_CSRC_TENSOR_H_
#define NEUROND_CLIENT_TORCH_CSRC_TENSOR_H_

#include <ATen/core/Tensor.h>

namespace neurond::shim {

// A tensor over `data` (bytes large). No strides: contiguous.
at::Tensor MakeTensor(c10::DataPtr data, uint64_t bytes, c10::ScalarType dtype,
                      c10::IntArrayRef sizes, std::optional<c10::IntArrayRef> strides);

// New storage, uninitialised (zeros until written).
at::Tensor EmptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                        int device);
// Whether memory that nobody wrote must read as NaN or the largest number.
bool FillsUninitialized();
at::Tensor EmptyContiguous(c10::IntArrayRef sizes, c10::ScalarType dtype, int device);

inline bool IsNeuron(const at::Tensor& tensor) { return tensor.is_privateuseone(); }

// Elements from the first to behind the last that sizes and strides reach; 0 without elements.
int64_t Extent(c10::IntArrayRef sizes, c10::IntArrayRef strides);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_TENSOR_H_
