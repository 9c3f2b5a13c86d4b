#include "client/torch/csrc/resize.h"

#include <ATen/native/ResizeCommon.h>

#include <algorithm>

#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/copy.h"
#include "client/torch/csrc/dtype.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {

void ResizeStorage(c10::StorageImpl* storage, size_t bytes) {
  const Buffer* old = BufferOf(storage);
  const size_t kept = std::min<size_t>(bytes, storage->nbytes());
  const int device = storage->device().index();
  // The element type of the new Buffer: the old one's, so that later programs read it without
  // bitcasts.
  auto dtype = old == nullptr ? c10::ScalarType::Byte : ToTorch(old->dtype);
  if (bytes % c10::elementSize(dtype) != 0 || kept % c10::elementSize(dtype) != 0) {
    dtype = c10::ScalarType::Byte;
  }
  c10::DataPtr data = NewBuffer(dtype, bytes, device);
  if (kept == 0) {
    storage->set_data_ptr_noswap(std::move(data));
    storage->set_nbytes(bytes);
    return;
  }
  const auto elements = static_cast<int64_t>(kept / c10::elementSize(dtype));
  at::Tensor target = MakeTensor(std::move(data), bytes, dtype, {elements}, std::nullopt);
  at::Tensor source =
      MakeTensor(c10::DataPtr(nullptr, storage->device()), 0, dtype, {0}, std::nullopt);
  c10::StorageImpl* held = target.storage().unsafeGetStorageImpl();
  source.unsafeGetTensorImpl()->set_storage_keep_dtype(
      c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)));
  source.unsafeGetTensorImpl()->set_sizes_contiguous({elements});
  CopyOnDevice(target, source);
  source.reset();
  c10::DataPtr made = held->set_data_ptr(c10::DataPtr(nullptr, storage->device()));
  storage->set_data_ptr_noswap(std::move(made));
  storage->set_nbytes(bytes);
}

void ResizeStrided(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const int64_t extent = Extent(sizes, strides);
  if (extent > 0) {
    const size_t need =
        static_cast<size_t>(self.storage_offset() + extent) * self.dtype().itemsize();
    c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    if (need > storage->nbytes()) {
      TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
      if (storage->nbytes() == 0) {
        storage->set_data_ptr_noswap(NewBuffer(self.scalar_type(), need, self.device().index()));
        storage->set_nbytes(need);
      } else {
        ResizeStorage(storage, need);
      }
    }
  }
  impl->set_sizes_and_strides(sizes, strides);
}

const at::Tensor& Resize(const at::Tensor& self, c10::IntArrayRef sizes,
                         std::optional<c10::MemoryFormat> format) {
  const auto old_bytes = static_cast<int64_t>(self.storage().nbytes());
  if (self.sizes() != sizes) {
    c10::SmallVector<int64_t, 8> strides(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      TORCH_CHECK(sizes[i] >= 0, "Trying to create tensor with negative dimension ", sizes[i], ": ",
                  sizes);
      strides[i] = stride;
      stride *= std::max<int64_t>(sizes[i], 1);
    }
    ResizeStrided(self, sizes, strides);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format", *format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  if (FillsUninitialized()) [[unlikely]] {
    at::native::fill_resize_deterministic_(self, old_bytes);
  }
  return self;
}

}  // namespace neurond::shim
