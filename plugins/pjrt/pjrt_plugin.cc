#include "plugins/pjrt/pjrt_plugin.h"

#include <dlfcn.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "plugins/pjrt/compile_options.h"
#include "plugins/pjrt/element_type.h"
#include "plugins/pjrt/fingerprint.h"
#include "plugins/pjrt/library_pages.h"
#include "plugins/pjrt/module_check.h"
#include "plugins/pjrt/pjrt_buffer.h"
#include "plugins/pjrt/pjrt_executable.h"
#include "runtime/base/limits.h"

namespace neurond::pjrt {
namespace {

PJRT_NamedValue ToNamedValue(const std::string& name, const std::string& value) {
  NEUROND_PJRT_ARGS(PJRT_NamedValue, result);
  result.name = name.data();
  result.name_size = name.size();
  result.value_size = 1;
  int64_t integer;
  float number;
  if (value == "true" || value == "false") {
    result.type = PJRT_NamedValue_kBool;
    result.bool_value = value == "true";
  } else if (absl::SimpleAtoi(value, &integer)) {
    result.type = PJRT_NamedValue_kInt64;
    result.int64_value = integer;
  } else if (absl::SimpleAtof(value, &number)) {
    result.type = PJRT_NamedValue_kFloat;
    result.float_value = number;
  } else {
    result.type = PJRT_NamedValue_kString;
    result.string_value = value.data();
    result.value_size = value.size();
  }
  return result;
}

// MLIR's parser and verifier report as UNKNOWN what is the module's fault.
absl::Status CompileStatus(const absl::Status& status) {
  return absl::IsUnknown(status) ? absl::InvalidArgumentError(status.message()) : status;
}

absl::Status CheckElements(DType dtype, int64_t elements) {
  if (!IsValid(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid element type ", static_cast<int>(dtype)));
  }
  if (elements <= 0 || elements > std::numeric_limits<int64_t>::max() / DTypeBytes(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a device buffer needs at least one element, got ", elements));
  }
  return absl::OkStatus();
}

// XLA's CPU compiler drops NaN in minimum and maximum unless told not to; PyTorch and StableHLO
// keep it.
constexpr absl::string_view kCpuOptions = "xla_cpu_enable_fast_min_max=false";

constexpr absl::string_view kDeviceCountOption = "cpu_device_count";

// XLA's CPU plugin ends the process on a negative one.
absl::Status CheckDeviceCount(const std::string& name, const std::string& value) {
  int count = 0;
  const bool good = absl::SimpleAtoi(value, &count) && count >= 1 && count <= kPluginDevicesMax;
  if (name != kDeviceCountOption || good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": expected 1 to ", kPluginDevicesMax, ", saw \"", value, "\""));
}

PjrtBuffer& AsPjrt(DeviceBuffer& buffer) { return static_cast<PjrtBuffer&>(buffer); }

}  // namespace

absl::StatusOr<std::unique_ptr<Plugin>> PjrtPlugin::Create(const PjrtOptions& options) {
  // XLA logs to stderr, chattily; an operator who wants that sets the variable.
  setenv("TF_CPP_MIN_LOG_LEVEL", "2", /*overwrite=*/0);
  absl::StatusOr<PjrtApi> api = PjrtApi::Open(options.path);
  if (!api.ok()) return api.status();
  std::unique_ptr<PjrtPlugin> plugin(new PjrtPlugin(*api));
  if (absl::Status status = plugin->CreateClient(options); !status.ok()) return status;
  if (absl::Status status = plugin->ListDevices(); !status.ok()) return status;
  ReleaseReadOnlyPages(reinterpret_cast<const void*>((*api)->PJRT_Client_Create));
  return plugin;
}

PjrtPlugin::~PjrtPlugin() {
  if (client_ == nullptr) return;
  NEUROND_PJRT_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = client_;
  api_.TakeError(api_->PJRT_Client_Destroy(&args));
}

absl::Status PjrtPlugin::CreateClient(const PjrtOptions& options) {
  environment_ = CompileEnvironment();  // as the library is about to see it
  for (const auto& [name, value] : options.create_options) {
    // Executables are compiled for one device and run on any: a worker has one.
    if (name != kDeviceCountOption) absl::StrAppend(&environment_, " ", name, "=", value);
  }
  keep_directory_ = options.keep_directory;
  library_path_ = options.path;
  Dl_info info;  // the file that dlopen found, which `path` may leave open
  if (dladdr(reinterpret_cast<void*>(api_->PJRT_Client_Create), &info) != 0 && info.dli_fname) {
    library_path_ = info.dli_fname;
  }
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, value] : options.create_options) {
    if (absl::Status status = CheckDeviceCount(name, value); !status.ok()) return status;
    values.push_back(ToNamedValue(name, value));
  }
  NEUROND_PJRT_ARGS(PJRT_Client_Create_Args, args);
  args.create_options = values.data();
  args.num_options = values.size();
  absl::Status status = api_.Take(api_->PJRT_Client_Create(&args));
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(options.path, ": cannot create a client: ", status.message()));
  }
  client_ = args.client;
  return absl::OkStatus();
}

absl::Status PjrtPlugin::ListDevices() {
  NEUROND_PJRT_ARGS(PJRT_Client_PlatformName_Args, platform);
  platform.client = client_;
  NEUROND_PJRT_ARGS(PJRT_Client_AddressableDevices_Args, devices);
  devices.client = client_;
  absl::Status status = api_.Take(api_->PJRT_Client_PlatformName(&platform));
  if (status.ok()) status = api_.Take(api_->PJRT_Client_AddressableDevices(&devices));
  if (!status.ok()) return status;
  if (devices.num_addressable_devices == 0 || devices.num_addressable_devices > kPluginDevicesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat(library_path_, " has ", devices.num_addressable_devices,
                     " devices, expected 1 to ", kPluginDevicesMax));
  }
  const std::string name =
      absl::AsciiStrToLower(absl::string_view(platform.platform_name, platform.platform_name_size));
  name_ = absl::StrCat("pjrt/", name);
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    devices_.push_back(devices.addressable_devices[i]);
    DeviceTraits& traits = traits_.emplace_back();
    traits.name = absl::StrCat(name, ":", i);
    traits.platform = name;
    traits.host_memory = name == "cpu";
    traits.may_fail_after_dispatch = name != "cpu";
    if (!api_.has_memory_stats()) continue;
    NEUROND_PJRT_ARGS(PJRT_Device_MemoryStats_Args, stats);
    stats.device = devices_[i];
    if (api_.TakeError(api_->PJRT_Device_MemoryStats(&stats)).ok() && stats.bytes_limit_is_set) {
      traits.memory_bytes = stats.bytes_limit;
    }
  }
  return absl::OkStatus();
}

std::string PjrtPlugin::fingerprint() const {
  std::call_once(fingerprint_once_, [this] {
    absl::StatusOr<std::string> hash = FileFingerprint(library_path_, keep_directory_);
    if (!hash.ok()) {
      spdlog::warn("no executable can be cached: {}", std::string(hash.status().message()));
      hash = absl::StrCat("unreadable-", getpid(), "-", time(nullptr));  // meets nobody's entry
    }
    fingerprint_ =
        absl::StrCat("pjrt-", api_.version(), "-", *hash, "-", kCpuOptions, "-", environment_);
  });
  return fingerprint_;
}

absl::Status PjrtPlugin::CheckDevice(int device) const {
  if (device >= 0 && device < device_count()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no device ", device, ": the plugin has ", device_count()));
}

absl::StatusOr<PJRT_LoadedExecutable*> PjrtPlugin::CompileToPjrt(const std::string& module,
                                                                 const std::string& options) {
  if (absl::Status status = CheckModule(module); !status.ok()) return status;
  const bool cpu = device_count() > 0 && traits(0).platform == "cpu";
  absl::StatusOr<std::string> bytes =
      SerializeCompileOptions(cpu ? absl::StrCat(kCpuOptions, ",", options) : options);
  if (!bytes.ok()) return bytes.status();
  constexpr absl::string_view kFormat = "mlir";
  NEUROND_PJRT_ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(module.data());  // read only here
  program.code_size = module.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  NEUROND_PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = client_;
  args.program = &program;
  args.compile_options = bytes->data();
  args.compile_options_size = bytes->size();
  absl::Status status = api_.Take(api_->PJRT_Client_Compile(&args));
  if (!status.ok()) return CompileStatus(status);
  return args.executable;
}

absl::StatusOr<std::string> PjrtPlugin::Serialize(PJRT_LoadedExecutable* executable) {
  NEUROND_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, get);
  get.loaded_executable = executable;
  absl::Status status = api_.Take(api_->PJRT_LoadedExecutable_GetExecutable(&get));
  if (!status.ok()) return status;
  NEUROND_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = get.executable;
  status = api_.Take(api_->PJRT_Executable_Serialize(&args));
  std::string bytes;
  if (status.ok()) {
    bytes.assign(args.serialized_bytes, args.serialized_bytes_size);
    args.serialized_executable_deleter(args.serialized_executable);
  }
  NEUROND_PJRT_ARGS(PJRT_Executable_Destroy_Args, destroy);
  destroy.executable = get.executable;
  api_.TakeError(api_->PJRT_Executable_Destroy(&destroy));
  if (absl::IsUnimplemented(status)) can_serialize_ = false;
  if (!status.ok()) return status;
  return bytes;
}

absl::StatusOr<std::string> PjrtPlugin::Compile(const std::string& module,
                                                const std::string& options) {
  if (!can_serialize_) {
    return absl::FailedPreconditionError(absl::StrCat(name_, " cannot serialize executables"));
  }
  absl::StatusOr<PJRT_LoadedExecutable*> executable = CompileToPjrt(module, options);
  if (!executable.ok()) return executable.status();
  absl::StatusOr<std::string> bytes = Serialize(*executable);
  NEUROND_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, destroy);
  destroy.executable = *executable;
  api_.TakeError(api_->PJRT_LoadedExecutable_Destroy(&destroy));
  if (absl::IsUnimplemented(bytes.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_, " cannot serialize executables: ", bytes.status().message()));
  }
  return bytes;
}

absl::StatusOr<LoadedExecutablePtr> PjrtPlugin::Load(const std::string& serialized) {
  if (!can_serialize_) {
    return absl::FailedPreconditionError(absl::StrCat(name_, " cannot load executables"));
  }
  NEUROND_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = client_;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  absl::Status status = api_.Take(api_->PJRT_Executable_DeserializeAndLoad(&args));
  if (!status.ok()) return status;
  return PjrtExecutable::Make(api_, devices_, args.loaded_executable);
}

absl::StatusOr<LoadedExecutablePtr> PjrtPlugin::CompileAndLoad(const std::string& module,
                                                               const std::string& options) {
  absl::StatusOr<PJRT_LoadedExecutable*> executable = CompileToPjrt(module, options);
  if (!executable.ok()) return executable.status();
  return PjrtExecutable::Make(api_, devices_, *executable);
}

absl::StatusOr<PjrtPlugin::HostCopy> PjrtPlugin::FromHost(int device, DType dtype, int64_t elements,
                                                          const void* data,
                                                          PJRT_HostBufferSemantics semantics) {
  if (absl::Status status = CheckDevice(device); !status.ok()) return status;
  if (absl::Status status = CheckElements(dtype, elements); !status.ok()) return status;
  NEUROND_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = client_;
  args.data = data;
  args.type = ToPjrt(dtype);
  args.dims = &elements;
  args.num_dims = 1;
  args.host_buffer_semantics = semantics;
  args.device = devices_[device];
  if (PJRT_Error* error = api_->PJRT_Client_BufferFromHostBuffer(&args); error != nullptr) {
    return api_.Take(error);
  }
  return HostCopy{
      std::make_shared<PjrtBuffer>(api_, args.buffer, dtype, elements, device, /*ready=*/false),
      args.done_with_host_buffer};
}

absl::StatusOr<DeviceBufferPtr> PjrtPlugin::Upload(int device, DType dtype, int64_t elements,
                                                   const void* data) {
  absl::StatusOr<HostCopy> copy =
      FromHost(device, dtype, elements, data, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  if (!copy.ok()) return copy.status();
  if (copy->done_with_host != nullptr) api_.Destroy(copy->done_with_host);
  return std::move(copy->buffer);
}

absl::StatusOr<DeviceBufferPtr> PjrtPlugin::Adopt(int device, DType dtype, int64_t elements,
                                                  void* block, std::function<void()> release) {
  // Mutable, so that a program that updates the buffer in place keeps the block. A library may copy
  // instead (a block that is not 64-byte aligned, memory that is not the host's); then the event
  // fires early, and release with it.
  absl::StatusOr<HostCopy> copy =
      FromHost(device, dtype, elements, block, PJRT_HostBufferSemantics_kMutableZeroCopy);
  if (!copy.ok()) return copy.status();
  if (copy->done_with_host == nullptr) {
    release();
  } else {
    api_.Watch(copy->done_with_host, [release = std::move(release)](Error) { release(); });
  }
  return std::move(copy->buffer);
}

absl::Status PjrtPlugin::Download(DeviceBuffer& buffer, int64_t offset, int64_t bytes,
                                  void* destination, DoneCallback done) {
  PjrtBuffer& source = AsPjrt(buffer);
  if (offset < 0 || bytes < 0 || offset > source.bytes() || bytes > source.bytes() - offset) {
    return absl::InvalidArgumentError(absl::StrCat("bytes [", offset, ", +", bytes,
                                                   ") are not within a buffer of ", source.bytes(),
                                                   " bytes"));
  }
  if (traits_[source.device()].host_memory && source.HasContent()) {
    NEUROND_PJRT_ARGS(PJRT_Buffer_UnsafePointer_Args, args);
    args.buffer = source.pjrt();
    absl::Status status = api_.Take(api_->PJRT_Buffer_UnsafePointer(&args));
    if (!status.ok()) return status;
    std::memcpy(destination, reinterpret_cast<const char*>(args.buffer_pointer) + offset,
                static_cast<size_t>(bytes));
    done(Error{});
    return absl::OkStatus();
  }
  if (offset == 0 && bytes == source.bytes()) {
    return DownloadWhole(source.pjrt(), source.bytes(), offset, bytes, destination,
                         std::move(done));
  }
  if (api_.can_copy_raw() && !copy_raw_refused_) {
    absl::Status status = DownloadRaw(source.pjrt(), offset, bytes, destination, done);
    if (!absl::IsUnimplemented(status)) return status;
    copy_raw_refused_ = true;
  }
  return DownloadWhole(source.pjrt(), source.bytes(), offset, bytes, destination, std::move(done));
}

absl::Status PjrtPlugin::DownloadRaw(PJRT_Buffer* buffer, int64_t offset, int64_t bytes,
                                     void* destination, DoneCallback done) {
  NEUROND_PJRT_ARGS(PJRT_Buffer_CopyRawToHost_Args, args);
  args.buffer = buffer;
  args.dst = destination;
  args.offset = offset;
  args.transfer_size = bytes;
  absl::Status status = api_.Take(api_->PJRT_Buffer_CopyRawToHost(&args));
  if (status.ok()) api_.Watch(args.event, std::move(done));
  return status;
}

absl::Status PjrtPlugin::DownloadWhole(PJRT_Buffer* buffer, int64_t buffer_bytes, int64_t offset,
                                       int64_t bytes, void* destination, DoneCallback done) {
  const bool whole = offset == 0 && bytes == buffer_bytes;
  std::shared_ptr<char[]> copy;
  if (!whole) copy.reset(new char[static_cast<size_t>(buffer_bytes)]);
  NEUROND_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = buffer;
  args.dst = whole ? destination : copy.get();
  args.dst_size = static_cast<size_t>(buffer_bytes);
  absl::Status status = api_.Take(api_->PJRT_Buffer_ToHostBuffer(&args));
  if (!status.ok()) return status;
  if (whole) {
    api_.Watch(args.event, std::move(done));
    return status;
  }
  api_.Watch(args.event, [copy, offset, bytes, destination, done = std::move(done)](Error error) {
    if (error.ok()) {
      std::memcpy(destination, copy.get() + offset, static_cast<size_t>(bytes));
    }
    done(std::move(error));
  });
  return status;
}

absl::StatusOr<DeviceBufferPtr> PjrtPlugin::CopyToDevice(DeviceBuffer& buffer, int device) {
  if (absl::Status status = CheckDevice(device); !status.ok()) return status;
  PjrtBuffer& source = AsPjrt(buffer);
  if (source.device() == device) {
    return absl::InvalidArgumentError(absl::StrCat("the buffer is on device ", device, " already"));
  }
  NEUROND_PJRT_ARGS(PJRT_Buffer_CopyToDevice_Args, args);
  args.buffer = source.pjrt();
  args.dst_device = devices_[device];
  absl::Status status = api_.Take(api_->PJRT_Buffer_CopyToDevice(&args));
  if (!status.ok()) return status;
  return std::make_shared<PjrtBuffer>(api_, args.dst_buffer, source.dtype(), source.elements(),
                                      device, /*ready=*/false);
}

}  // namespace neurond::pjrt
