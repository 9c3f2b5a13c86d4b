// Copies: host to device, device to host, between devices, and on a device (a Program).
//
// Thread-safety: all functions, from any thread. Downloads wait and then raise deferred failures.

#ifndef NEUROND_CLIENT_TORCH_CSRC_COPY_H_
#define NEUROND_CLIENT_TORCH_CSRC_COPY_H_

#include <ATen/core/Tensor.h>

namespace neurond::shim {

// dst.copy_(src) on one device: any dtypes, Views and bits, through the keyed path.
void CopyOnDevice(const at::Tensor& dst, const at::Tensor& src);

// A CPU tensor with the values, dtype and (where dense) strides of `self`; conj and neg bits kept
// as bits.
at::Tensor Download(const at::Tensor& self);
// A contiguous tensor on `device` with the values of a CPU tensor.
at::Tensor Upload(const at::Tensor& self, int device);

// dst.copy_(src) where at least one side is a neuron tensor.
at::Tensor CopyFrom(const at::Tensor& src, const at::Tensor& dst, bool non_blocking);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_COPY_H_
