#include "plugins/pjrt/pjrt_executable.h"

#include <sys/mman.h>

#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "plugins/pjrt/element_type.h"
#include "plugins/pjrt/pjrt_buffer.h"

namespace neurond::pjrt {
namespace {

// Most programs of an eager session fit: no allocation for the argument lists.
constexpr size_t kInlineArguments = 16;
constexpr size_t kInlineOutputs = 8;

// From here on a run costs more than the question whether the host has that much memory.
constexpr int64_t kWorthAProbeBytes = int64_t{64} << 20;

using IndexList = absl::InlinedVector<int64_t, kInlineArguments>;
using BufferList = absl::InlinedVector<PJRT_Buffer*, kInlineArguments>;
using OutputList = absl::InlinedVector<PJRT_Buffer*, kInlineOutputs>;

}  // namespace

absl::StatusOr<std::shared_ptr<PjrtExecutable>> PjrtExecutable::Make(
    const PjrtApi& api, std::span<PJRT_Device* const> devices, PJRT_LoadedExecutable* executable) {
  std::shared_ptr<PjrtExecutable> result(new PjrtExecutable(api, devices, executable));
  NEUROND_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, get);
  get.loaded_executable = executable;
  if (absl::Status status = api.Take(api->PJRT_LoadedExecutable_GetExecutable(&get));
      !status.ok()) {
    return status;
  }
  absl::Status status = result->ReadOutputs(get.executable);
  result->ReadMemory(get.executable);
  NEUROND_PJRT_ARGS(PJRT_Executable_Destroy_Args, destroy);
  destroy.executable = get.executable;
  api.TakeError(api->PJRT_Executable_Destroy(&destroy));
  if (!status.ok()) return status;
  return result;
}

PjrtExecutable::~PjrtExecutable() {
  NEUROND_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = executable_;
  api_.TakeError(api_->PJRT_LoadedExecutable_Destroy(&args));
}

absl::Status PjrtExecutable::ReadOutputs(PJRT_Executable* executable) {
  NEUROND_PJRT_ARGS(PJRT_Executable_NumOutputs_Args, count);
  count.executable = executable;
  NEUROND_PJRT_ARGS(PJRT_Executable_OutputElementTypes_Args, types);
  types.executable = executable;
  NEUROND_PJRT_ARGS(PJRT_Executable_OutputDimensions_Args, dims);
  dims.executable = executable;
  absl::Status status = api_.Take(api_->PJRT_Executable_NumOutputs(&count));
  if (status.ok() && count.num_outputs == 0) return status;
  if (status.ok()) status = api_.Take(api_->PJRT_Executable_OutputElementTypes(&types));
  if (status.ok()) status = api_.Take(api_->PJRT_Executable_OutputDimensions(&dims));
  if (!status.ok()) return status;
  if (types.num_output_types != count.num_outputs || dims.num_outputs != count.num_outputs) {
    return absl::InternalError(absl::StrCat("the plugin reports ", count.num_outputs,
                                            " results, but ", types.num_output_types,
                                            " element types and ", dims.num_outputs, " shapes"));
  }
  const int64_t* dim = dims.dims;
  outputs_.reserve(count.num_outputs);
  for (size_t i = 0; i < count.num_outputs; ++i) {
    Output output{FromPjrt(types.output_types[i]), 1};
    if (output.dtype == DType::kInvalid) {
      return absl::UnimplementedError(absl::StrCat("result ", i, " has PJRT element type ",
                                                   static_cast<int>(types.output_types[i]),
                                                   ", which is not supported"));
    }
    for (size_t d = 0; d < dims.dim_sizes[i]; ++d) output.elements *= *dim++;
    outputs_.push_back(output);
  }
  return absl::OkStatus();
}

void PjrtExecutable::ReadMemory(PJRT_Executable* executable) {
  if (!api_.has_compiled_memory_stats()) return;
  NEUROND_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, stats);
  stats.executable = executable;
  if (api_.TakeError(api_->PJRT_Executable_GetCompiledMemoryStats(&stats)).ok()) {
    temporary_bytes_ = stats.temp_size_in_bytes;
    allocated_bytes_ = temporary_bytes_ - stats.alias_size_in_bytes;
  }
  for (const Output& output : outputs_) {
    allocated_bytes_ += output.elements * DTypeBytes(output.dtype);
  }
}

bool PjrtExecutable::HasRoom() const {
  if (allocated_bytes_ < kWorthAProbeBytes) return true;
  // A mapping that is never touched: the kernel says what it would say to the plugin's allocator.
  const auto bytes = static_cast<size_t>(allocated_bytes_);
  void* probe =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

absl::StatusOr<ExecuteResult> PjrtExecutable::Execute(int device,
                                                      std::span<DeviceBuffer* const> arguments,
                                                      std::span<const bool> donate,
                                                      DoneCallback done) {
  if (device < 0 || static_cast<size_t>(device) >= devices_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no device ", device, ": the plugin has ", devices_.size()));
  }
  if (donate.size() != arguments.size()) {
    return absl::InvalidArgumentError(absl::StrCat("expected one donate flag per argument, got ",
                                                   donate.size(), " for ", arguments.size()));
  }
  BufferList inputs(arguments.size());
  IndexList kept;
  // XLA's CPU client takes donated arguments before it allocates results, and does not give them
  // back when that fails. So a run that will fail donates nothing.
  const bool may_donate = HasRoom();
  for (size_t i = 0; i < arguments.size(); ++i) {
    inputs[i] = static_cast<PjrtBuffer*>(arguments[i])->pjrt();
    if (!donate[i] || !may_donate) kept.push_back(static_cast<int64_t>(i));
  }
  OutputList results(outputs_.size());

  NEUROND_PJRT_ARGS(PJRT_ExecuteOptions, options);
  options.non_donatable_input_indices = kept.data();
  options.num_non_donatable_input_indices = kept.size();
  PJRT_Buffer* const* argument_list = inputs.data();
  PJRT_Buffer** output_list = results.data();
  PJRT_Event* complete = nullptr;
  NEUROND_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &output_list;
  args.device_complete_events = &complete;
  args.execute_device = devices_[device];
  if (PJRT_Error* error = api_->PJRT_LoadedExecutable_Execute(&args); error != nullptr) {
    return api_.Take(error);
  }

  const bool ready = api_.ConsumeIfOk(complete);
  ExecuteResult result;
  result.outputs.reserve(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    result.outputs.push_back(std::make_shared<PjrtBuffer>(api_, results[i], outputs_[i].dtype,
                                                          outputs_[i].elements, device, ready));
  }
  if (ready) {
    done(Error{});
  } else {
    api_.Watch(complete, std::move(done));
  }
  return result;
}

}  // namespace neurond::pjrt
