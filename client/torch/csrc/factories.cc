// Factories, and views that are metadata alone.

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/origin.h"
#include "client/torch/csrc/register.h"
#include "client/torch/csrc/resize.h"
#include "client/torch/csrc/tensor.h"

namespace neurond::shim {

at::Tensor MakeTensor(c10::DataPtr data, uint64_t bytes, c10::ScalarType dtype,
                      c10::IntArrayRef sizes, std::optional<c10::IntArrayRef> strides) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t{},
                                                       static_cast<int64_t>(bytes), std::move(data),
                                                       NeuronAllocator(), true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  if (strides.has_value()) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, *strides);
  } else if (sizes.size() != 1 || sizes[0] != 0) {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  }
  return tensor;
}

int64_t Extent(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      return 0;
    }
    extent += (sizes[i] - 1) * strides[i];
  }
  return extent;
}

bool FillsUninitialized() {
  const auto& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor EmptyContiguous(c10::IntArrayRef sizes, c10::ScalarType dtype, int device) {
  at::detail::check_size_nonnegative(sizes);
  const size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype));
  return MakeTensor(NewBuffer(dtype, bytes, device), bytes, dtype, sizes, std::nullopt);
}

at::Tensor EmptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                        int device) {
  at::detail::check_size_nonnegative(sizes);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  return MakeTensor(NewBuffer(dtype, bytes, device), bytes, dtype, sizes, strides);
}

namespace {

struct Options {
  c10::ScalarType dtype;
  int device;
};

Options Resolve(std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::Layout::Strided,
              "neuron: only strided tensors can be made, got ", *layout);
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
  const c10::Device at = c10::device_or_default(device);
  TORCH_CHECK(at.is_privateuseone(), "neuron: expected a neuron device, got ", at);
  return {c10::dtype_or_default(dtype), at.has_index() ? at.index() : CurrentDevice()};
}

// torch.utils.deterministic.fill_uninitialized_memory
at::Tensor FillIfDeterministic(at::Tensor tensor) {
  return FillsUninitialized() ? at::native::fill_empty_deterministic_(tensor) : tensor;
}

at::Tensor Empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                 std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  const Options options = Resolve(dtype, layout, device, pin_memory);
  at::Tensor tensor = EmptyContiguous(sizes, options.dtype, options.device);
  if (format.has_value() && *format != c10::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return FillIfDeterministic(tensor);
}

at::Tensor EmptyStridedOp(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                          std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                          std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  const Options options = Resolve(dtype, layout, device, pin_memory);
  return FillIfDeterministic(EmptyStrided(sizes, strides, options.dtype, options.device));
}

at::Tensor& SetStorageOffset(at::Tensor& self, at::Storage source, int64_t offset,
                             c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  TORCH_CHECK(source.device_type() == c10::DeviceType::PrivateUse1,
              "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(),
              "\".  This is no longer allowed; the devices must match.");
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (strides.data() == nullptr) {
    impl->set_sizes_contiguous(sizes);
  } else {
    impl->set_sizes_and_strides(sizes, strides);
  }
  const int64_t extent = Extent(impl->sizes(), impl->strides());
  if (extent > 0) {
    const auto need = static_cast<size_t>(offset + extent) * self.dtype().itemsize();
    if (need > self.storage().nbytes()) {
      ResizeStorage(self.storage().unsafeGetStorageImpl(), need);
    }
  }
  return self;
}

at::Tensor& SetStorage(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return SetStorageOffset(self, std::move(source), 0, {elements}, {});
}

at::Tensor& SetTensor(at::Tensor& self, const at::Tensor& source) {
  return SetStorageOffset(self, source.storage(), source.storage_offset(), source.sizes(),
                          source.strides());
}

at::Tensor& SetNothing(at::Tensor& self) {
  at::Storage none(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t{}, 0,
      NewBuffer(self.scalar_type(), 0, self.device().index()), NeuronAllocator(), true));
  return SetStorageOffset(self, std::move(none), 0, {0}, {});
}

// Dispatches here when either side is ours. `.data =` between the CPU and this device keeps a
// Parameter's identity, so that tied weights stay tied and an optimizer made before `.to` still
// holds the parameters.
bool CompatibleShallowCopy(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& tensor) {
    return tensor.layout() == c10::kStrided && (tensor.is_cpu() || IsNeuron(tensor)) &&
           !tensor.is_quantized();
  };
  if (plain(self) && plain(from)) {
    return true;
  }
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

// A view submits nothing, but its backward does.
at::Tensor View(const at::Tensor& self, c10::IntArrayRef sizes) {
  NoteForwardLine();
  return at::native::view(self, sizes);
}
at::Tensor AsStrided(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                     std::optional<int64_t> offset) {
  NoteForwardLine();
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}
at::Tensor ReshapeAlias(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  NoteForwardLine();
  return at::native::_reshape_alias(self, sizes, strides);
}
at::Tensor Unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  NoteForwardLine();
  return at::native::unfold(self, dim, size, step);
}

}  // namespace

void RegisterFactories() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten",
                                            c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  library->impl("empty.memory_format", TORCH_FN(Empty));
  library->impl("empty_strided", TORCH_FN(EmptyStridedOp));
  library->impl("as_strided", TORCH_FN(AsStrided));
  library->impl("view", TORCH_FN(View));
  library->impl("_reshape_alias", TORCH_FN(ReshapeAlias));
  library->impl("unfold", TORCH_FN(Unfold));
  library->impl("view_as_real", TORCH_FN(at::native::view_as_real));
  library->impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  library->impl("set_.source_Storage", TORCH_FN(SetStorage));
  library->impl("set_.source_Storage_storage_offset", TORCH_FN(SetStorageOffset));
  library->impl("set_.source_Tensor", TORCH_FN(SetTensor));
  library->impl("set_", TORCH_FN(SetNothing));
  library->impl("_has_compatible_shallow_copy_type", TORCH_FN(CompatibleShallowCopy));
  library->impl("resize_", TORCH_FN(Resize));
}

}  // namespace neurond::shim
