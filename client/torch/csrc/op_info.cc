#include "client/torch/csrc/op_info.h"

#include <ATen/core/jit_type.h>

#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace neurond::shim {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<const c10::OperatorName*, std::unique_ptr<OpInfo>> infos;
};
Registry& Infos() {
  static Registry* registry = new Registry();
  return *registry;
}
std::atomic<uint64_t> next_id{1};

ArgKind KindOf(const c10::Argument& arg) {
  c10::TypePtr type = arg.real_type();
  if (type->kind() == c10::TypeKind::OptionalType) {
    type = type->castRaw<c10::OptionalType>()->getElementType();
  }
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return ArgKind::kTensor;
    case c10::TypeKind::NumberType:
      return ArgKind::kScalar;
    case c10::TypeKind::ScalarTypeType:
      return ArgKind::kDtype;
    case c10::TypeKind::LayoutType:
      return ArgKind::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return ArgKind::kMemoryFormat;
    case c10::TypeKind::DeviceObjType:
      return ArgKind::kDevice;
    case c10::TypeKind::GeneratorType:
      return ArgKind::kGenerator;
    case c10::TypeKind::ListType: {
      c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
      if (element->kind() == c10::TypeKind::OptionalType) {
        element = element->castRaw<c10::OptionalType>()->getElementType();
      }
      if (element->kind() == c10::TypeKind::TensorType) {
        return ArgKind::kTensors;
      }
      return element->kind() == c10::TypeKind::NumberType ? ArgKind::kScalars : ArgKind::kValue;
    }
    default:
      return ArgKind::kValue;
  }
}

// Ops whose failure depends on values (zeros would raise or be meaningless), or without a CPU
// kernel.
bool Divides(std::string_view name) {
  for (const std::string_view word : {"divide", "::div", "::fmod", "::remainder", "::gcd", "::lcm",
                                      "::_foreach_div", "::__idiv__"}) {
    if (name.find(word) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

bool SkipsReference(std::string_view name) {
  if (name.starts_with("aten::linalg_vector_norm") || name.starts_with("aten::linalg_cross")) {
    return false;  // no factorization
  }
  static constexpr std::string_view kPrefixes[] = {
      "aten::linalg_",
      "aten::_linalg_",
      "aten::cholesky",
      "aten::_cholesky",
      "aten::lu_",
      "aten::_lu_",
      "aten::geqrf",
      "aten::orgqr",
      "aten::ormqr",
      "aten::triangular_solve",
      "aten::multinomial",
      "aten::_assert_async",
      "aten::_functional_assert_async",
      "aten::ctc_loss",
      "aten::_ctc_loss",
      "aten::_scaled_dot_product_",
      "aten::segment_reduce",
      "aten::_segment_reduce_backward",
      "aten::embedding_bag",
      "aten::_embedding_bag",
      "neuron::",
  };
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) {
      return true;
    }
  }
  return false;
}

bool IndexesFromHost(std::string_view name) {
  return name.starts_with("aten::index.Tensor") || name.starts_with("aten::index_put") ||
         name.starts_with("aten::_index_put_impl_") || name.starts_with("aten::_unsafe_index") ||
         name.starts_with("aten::_unsafe_masked_index");
}

// Running statistics that these ops update without saying so.
std::vector<size_t> SilentlyWritten(std::string_view name) {
  if (name.starts_with("aten::native_batch_norm") &&
      !name.starts_with("aten::native_batch_norm_")) {
    return {3, 4};
  }
  if (name.starts_with("aten::batch_norm_update_stats")) {
    return {1, 2};
  }
  if (name.starts_with("aten::batch_norm_gather_stats")) {
    return {3, 4};
  }
  return {};
}

}  // namespace

OpInfo::OpInfo(const c10::OperatorHandle& handle) : op(handle), id(next_id.fetch_add(1)) {
  const c10::FunctionSchema& schema_of = handle.schema();
  name = handle.operator_name().name;
  if (!handle.operator_name().overload_name.empty()) {
    name += "." + handle.operator_name().overload_name;
  }
  schema = c10::toString(schema_of);
  for (const c10::Argument& arg : schema_of.arguments()) {
    args.push_back(KindOf(arg));
    written.push_back(arg.alias_info() != nullptr && arg.alias_info()->isWrite());
    any_written = any_written || written.back();
  }
  persisted =
      name.starts_with("aten::") || name.starts_with("prims::") || name.starts_with("neuron::");
  counts_versions = any_written && name.starts_with("aten::_foreach_");
  is_graph = name == "neuron::run_graph";
  skip_reference = SkipsReference(name);
  silently_written = SilentlyWritten(name);
  fills = name == "aten::zero_" || name == "aten::fill_.Scalar";
  divides = Divides(name);
  indexes_from_host = IndexesFromHost(name);
}

OpInfo& OpInfo::Of(const c10::OperatorHandle& op) {
  const c10::OperatorName* key = &op.operator_name();
  struct Slot {
    const c10::OperatorName* key = nullptr;
    OpInfo* info = nullptr;
  };
  thread_local std::array<Slot, 512> recent;
  Slot& slot = recent[(reinterpret_cast<uintptr_t>(key) >> 6) & 511];
  if (slot.key == key) [[likely]] {
    return *slot.info;
  }
  Registry& registry = Infos();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::unique_ptr<OpInfo>& info = registry.infos[key];
  if (!info) {
    info = std::make_unique<OpInfo>(op);
  }
  slot = {key, info.get()};
  return *info;
}

OpInfo& OpInfo::Named(const char* name, const char* overload) {
  return Of(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

std::vector<const OpInfo*> OpInfo::All() {
  Registry& registry = Infos();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<const OpInfo*> all;
  for (const auto& [key, info] : registry.infos) {
    all.push_back(info.get());
  }
  return all;
}

}  // namespace neurond::shim
