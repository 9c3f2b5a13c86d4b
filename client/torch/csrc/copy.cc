#include "client/torch/csrc/copy.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>

#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/dispatch.h"
#include "client/torch/csrc/errors.h"
#include "client/torch/csrc/origin.h"
#include "client/torch/csrc/register.h"
#include "client/torch/csrc/resize.h"
#include "client/torch/csrc/stream.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {
namespace {

const Buffer& LiveBuffer(const at::Tensor& tensor, const Link& link) {
  const Buffer* buffer = BufferOf(tensor);
  TORCH_CHECK(buffer != nullptr, "neuron: the tensor's storage was freed");
  if (buffer->epoch != link.epoch) {
    Runtime::Get().FailEpoch(buffer->epoch);
  }
  return *buffer;
}

bool IsDense(const at::Tensor& tensor) { return tensor.is_non_overlapping_and_dense(); }

// Reads the bytes that a dense tensor spans.
void ReadDense(const at::Tensor& src, void* data) {
  const Link& link = Runtime::Get().Ready();
  const Buffer& buffer = LiveBuffer(src, link);
  const uint64_t item = src.dtype().itemsize();
  const int stream = CurrentRingStream(buffer.device);
  const client::Status status =
      link.client->Read(stream, buffer.id, static_cast<uint64_t>(src.storage_offset()) * item, data,
                        static_cast<uint64_t>(src.numel()) * item, CurrentOrigin());
  if (status.code == client::Code::kAborted) {
    RaiseReadError(link, stream, buffer.id);
  }
  Runtime::Get().Check(link, status, "a read");
  // A download is a synchronizing call of its stream.
  RaiseStreamError(link, stream, link.client->completed_seq(stream));
}

void WriteDense(const at::Tensor& dst, const void* data) {
  const Link& link = Runtime::Get().Ready();
  const Buffer& buffer = LiveBuffer(dst, link);
  const uint64_t item = dst.dtype().itemsize();
  Runtime::Get().Check(
      link,
      link.client->Write(CurrentRingStream(buffer.device), buffer.id,
                         static_cast<uint64_t>(dst.storage_offset()) * item, data,
                         static_cast<uint64_t>(dst.numel()) * item, CurrentOrigin(), nullptr),
      "a write");
}

// The same bytes without conj and neg bits.
at::Tensor Bare(const at::Tensor& tensor) {
  at::Tensor bare = tensor.is_conj() ? at::_conj(tensor) : tensor;
  return bare.is_neg() ? at::_neg_view(bare) : bare;
}

// A dtype that programs compute in float32: a copy must move its bytes.
bool IsDouble(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble || tensor.scalar_type() == at::kComplexDouble;
}

// The same elements as int64, a complex one as two.
at::Tensor AsWords(const at::Tensor& tensor) {
  return (tensor.is_complex() ? at::view_as_real(tensor) : tensor).view(at::kLong);
}

// Doubles move as words; where conj or neg bits differ, the sign bits of the words are flipped.
void CopyWords(const at::Tensor& dst, const at::Tensor& src) {
  const at::Tensor words = AsWords(Bare(dst));
  CopyOnDevice(words, AsWords(Bare(src)));
  constexpr int64_t kSign = std::numeric_limits<int64_t>::min();
  if (dst.is_neg() != src.is_neg()) {
    words.bitwise_xor_(kSign);
  }
  if (dst.is_conj() != src.is_conj()) {
    words.select(-1, 1).bitwise_xor_(kSign);
  }
}

// A cast from complex to real says so once, as the CPU's copy does: the CPU says it.
void WarnOfDiscard(const at::Tensor& src, c10::ScalarType to) {
  if (src.is_complex() && !c10::isComplexType(to)) [[unlikely]] {
    at::zeros({1}, at::TensorOptions(src.scalar_type()).device(at::kCPU)).to(to);
  }
}

at::Tensor DenseOnDevice(const at::Tensor& src) {
  if (IsDense(src)) {
    return src;
  }
  at::Tensor dense = EmptyContiguous(src.sizes(), src.scalar_type(), src.device().index());
  CopyOnDevice(dense, src);
  return dense;
}

// Host to device: the host makes the destination's dtype and strides, then the bytes go.
void CopyUp(const at::Tensor& src, const at::Tensor& dst) {
  if (!IsDense(dst)) {
    const at::Tensor dense = EmptyContiguous(dst.sizes(), dst.scalar_type(), dst.device().index());
    CopyUp(src, dense);
    CopyOnDevice(dst, dense);
    return;
  }
  at::Tensor source = src;
  if (dst.is_conj() || dst.is_neg() || src.is_conj() || src.is_neg() ||
      src.scalar_type() != dst.scalar_type() || src.sizes() != dst.sizes() ||
      src.strides() != dst.strides()) {
    source = at::empty_strided(dst.sizes(), dst.strides(),
                               at::TensorOptions(dst.scalar_type()).device(at::kCPU));
    at::Tensor values = src;
    if (dst.is_conj()) {
      values = at::_conj(values);
    }
    if (dst.is_neg()) {
      values = at::_neg_view(values);
    }
    source.copy_(values);
  }
  WriteDense(dst, source.const_data_ptr());
}

void CopyDown(const at::Tensor& src, const at::Tensor& dst) {
  if (src.scalar_type() == dst.scalar_type() && src.strides() == dst.strides() && IsDense(src) &&
      !src.is_conj() && !src.is_neg() && !dst.is_conj() && !dst.is_neg() &&
      src.sizes() == dst.sizes()) {
    ReadDense(src, dst.mutable_data_ptr());
    return;
  }
  at::Tensor mutable_dst = dst;
  mutable_dst.copy_(Download(src));
}

void CopyAcross(const at::Tensor& src, const at::Tensor& dst) {
  // One Copy moves whole Buffers; views and dtypes are settled on their own device.
  at::Tensor source = src;
  if (src.scalar_type() != dst.scalar_type() || src.is_conj() || src.is_neg() ||
      !src.is_contiguous() ||
      src.storage().nbytes() != static_cast<size_t>(src.numel()) * src.dtype().itemsize()) {
    source = EmptyContiguous(src.sizes(), dst.scalar_type(), src.device().index());
    CopyOnDevice(source, src);
  }
  const Link& link = Runtime::Get().Ready();
  const Buffer& from = LiveBuffer(source, link);
  at::Tensor target = dst;
  const bool direct = dst.is_contiguous() && !dst.is_conj() && !dst.is_neg() &&
                      BufferOf(dst)->bytes == from.bytes && BufferOf(dst)->dtype == from.dtype;
  if (!direct) {
    target = EmptyContiguous(dst.sizes(), dst.scalar_type(), dst.device().index());
  }
  const Buffer& to = LiveBuffer(target, link);
  if (to.dtype != from.dtype) {
    target = target.new_empty({0});  // unreachable unless the source is untyped bytes
    CopyUp(Download(src), dst);
    return;
  }
  // The Copy runs on the source's stream; the destination's stream waits for it.
  const int from_stream = CurrentRingStream(from.device), to_stream = CurrentRingStream(to.device);
  uint64_t seq = 0;
  Runtime::Get().Check(link, link.client->Copy(from_stream, from.id, to.id, CurrentOrigin(), &seq),
                       "a copy");
  Runtime::Get().Check(link, link.client->WaitStream(to_stream, from_stream, seq), "a copy");
  if (!direct) {
    CopyOnDevice(dst, target);
  }
}

at::Tensor CopyFromAndResize(const at::Tensor& self, const at::Tensor& dst) {
  if (self.sizes() != dst.sizes()) {
    if (IsNeuron(dst)) {
      ResizeStrided(dst, self.sizes(), self.strides());  // as the CPU left its out=
    } else {
      dst.resize_(self.sizes());
    }
  }
  return CopyFrom(self, dst, false);
}

at::Scalar LocalScalar(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "Expected all tensors to have at least one element");
  return at::_local_scalar_dense(Download(self));
}

bool SameDevice(const at::Tensor& self, std::optional<c10::Device> device) {
  return !device.has_value() ||
         (device->is_privateuseone() &&
          (device->has_index() ? device->index() : CurrentDevice()) == self.device().index());
}

// On one device a conversion is one program; anything else is torch's own empty + copy_.
at::Tensor ToCopy(const at::Tensor& self, std::optional<c10::ScalarType> dtype,
                  std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                  std::optional<bool> pin_memory, bool non_blocking,
                  std::optional<c10::MemoryFormat> format) {
  const bool bytes_alone =
      IsDouble(self) && dtype.value_or(self.scalar_type()) == self.scalar_type();
  const bool known = !bytes_alone && ToRing(self.scalar_type()) != ring::DType::kInvalid &&
                     (!dtype.has_value() || ToRing(*dtype) != ring::DType::kInvalid);
  if (!known || self.numel() == 0 || !SameDevice(self, device) ||
      c10::layout_or_default(layout) != c10::kStrided) {
    return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, format);
  }
  WarnOfDiscard(self, dtype.value_or(self.scalar_type()));
  static OpInfo& op = OpInfo::Named("aten::_to_copy", "");
  torch::jit::Stack stack;
  const auto device_less = std::optional<c10::Device>(c10::Device(c10::DeviceType::PrivateUse1));
  torch::jit::push(stack, self, dtype, layout, device.has_value() ? device_less : std::nullopt,
                   std::optional<bool>(), false, format);
  RunKeyed(op, &stack);
  return stack[0].toTensor();
}

at::Tensor Clone(const at::Tensor& self, std::optional<c10::MemoryFormat> format) {
  if (ToRing(self.scalar_type()) == ring::DType::kInvalid || self.numel() == 0 || IsDouble(self)) {
    return at::native::clone(self, format);
  }
  static OpInfo& op = OpInfo::Named("aten::clone", "");
  torch::jit::Stack stack;
  torch::jit::push(stack, self, format);
  RunKeyed(op, &stack);
  return stack[0].toTensor();
}

}  // namespace

void CopyOnDevice(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.numel() == 0) {
    return;
  }
  if (ToRing(dst.scalar_type()) == ring::DType::kInvalid ||
      ToRing(src.scalar_type()) == ring::DType::kInvalid) {
    // A dtype that programs do not know: the same bytes are copied as integers, a conversion is the
    // host's.
    TORCH_CHECK(dst.scalar_type() == src.scalar_type() || IsDense(dst), "neuron: cannot copy ",
                src.scalar_type(), " into a strided view of ", dst.scalar_type());
    if (dst.scalar_type() == src.scalar_type()) {
      const auto as = dst.dtype().itemsize() == 1   ? at::kByte
                      : dst.dtype().itemsize() == 2 ? at::kShort
                                                    : at::kInt;
      CopyOnDevice(dst.view(as), src.view(as));
      return;
    }
    CopyUp(Download(src), dst);
    return;
  }
  if (IsDouble(src) && dst.scalar_type() == src.scalar_type()) {
    CopyWords(dst, src);
    return;
  }
  WarnOfDiscard(src, dst.scalar_type());
  static OpInfo& op = OpInfo::Named("aten::copy_", "");
  torch::jit::Stack stack;
  torch::jit::push(stack, dst, src, false);
  RunKeyed(op, &stack);
}

at::Tensor Download(const at::Tensor& self) {
  if (self.numel() == 0) {
    return at::empty_strided(self.sizes(), self.strides(),
                             at::TensorOptions(self.scalar_type()).device(at::kCPU));
  }
  const at::Tensor dense = DenseOnDevice(Bare(self));
  at::Tensor host = at::empty_strided(dense.sizes(), dense.strides(),
                                      at::TensorOptions(dense.scalar_type()).device(at::kCPU));
  ReadDense(dense, host.mutable_data_ptr());
  if (self.is_conj()) {
    host = at::_conj(host);
  }
  return self.is_neg() ? at::_neg_view(host) : host;
}

at::Tensor Upload(const at::Tensor& self, int device) {
  at::Tensor made = EmptyContiguous(self.sizes(), self.scalar_type(), device);
  if (self.numel() > 0) {
    CopyUp(self, made);
  }
  return made;
}

at::Tensor CopyFrom(const at::Tensor& src, const at::Tensor& dst, bool /*non_blocking*/) {
  const auto sizes = at::infer_size_dimvector(dst.sizes(), src.sizes());
  TORCH_CHECK(dst.sizes() == c10::IntArrayRef(sizes), "output with shape ", dst.sizes(),
              " doesn't match the broadcast shape ", c10::IntArrayRef(sizes));
  if (dst.numel() == 0) {
    return dst;
  }
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, src);
  const at::Tensor source = src.sizes() == dst.sizes() ? src : src.expand(dst.sizes());
  if (IsNeuron(src) && IsNeuron(dst)) {
    src.device() == dst.device() ? CopyOnDevice(dst, source) : CopyAcross(source, dst);
  } else if (IsNeuron(dst)) {
    CopyUp(source, dst);
  } else {
    CopyDown(source, dst);
  }
  return dst;
}

void RegisterCopies() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten",
                                            c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->impl("_copy_from", TORCH_FN(CopyFrom));
  library->impl("_copy_from_and_resize", TORCH_FN(CopyFromAndResize));
  library->impl("_local_scalar_dense", TORCH_FN(LocalScalar));
  library->impl("_to_copy", TORCH_FN(ToCopy));
  library->impl("clone", TORCH_FN(Clone));
  // Without these, a tensor with a conj or neg bit recurses: _copy_from -> resolve_conj -> clone ->
  // copy_ -> _copy_from.
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    auto* bits = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    bits->impl("_copy_from", torch::CppFunction::makeFallthrough());
    bits->impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
  }
}

}  // namespace neurond::shim
