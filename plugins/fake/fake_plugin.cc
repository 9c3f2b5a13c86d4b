#include "plugins/fake/fake_plugin.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "plugins/fake/fake_executable.h"
#include "plugins/fake/hlo_module.h"
#include "runtime/base/text.h"

namespace neurond::fake {
namespace {

constexpr std::string_view kMagic = "fake1";

std::string Pack(const std::string& signature, const std::string& inner) {
  return Cat(kMagic, " ", signature.size(), "\n", signature, inner);
}

struct Unpacked {
  std::string signature;
  std::string inner;
};

absl::StatusOr<Unpacked> Unpack(const std::string& serialized) {
  const size_t line = serialized.find('\n');
  if (line == std::string::npos || line > 32 || serialized.compare(0, kMagic.size(), kMagic) != 0) {
    return absl::InvalidArgumentError("not an executable of the fake plugin");
  }
  const size_t size = std::strtoull(serialized.c_str() + kMagic.size(), nullptr, 10);
  if (size > serialized.size() - line - 1) {
    return absl::InvalidArgumentError("the executable is truncated");
  }
  return Unpacked{serialized.substr(line + 1, size), serialized.substr(line + 1 + size)};
}

FakeBuffer& AsFake(DeviceBuffer& buffer) { return static_cast<FakeBuffer&>(buffer); }

}  // namespace

absl::StatusOr<std::unique_ptr<Plugin>> FakePlugin::Create(std::unique_ptr<Plugin> inner,
                                                           const FakeOptions& options) {
  if (absl::Status status = Script::Check(options.script); !status.ok()) return status;
  return std::unique_ptr<Plugin>(new FakePlugin(std::move(inner), options));
}

FakePlugin::FakePlugin(std::unique_ptr<Plugin> inner, const FakeOptions& options)
    : inner_(std::move(inner)),
      script_(options.script, options.script_file),
      async_(options.async) {
  const int64_t memory_bytes = script_.memory_bytes();
  for (int i = 0; i < inner_->device_count(); ++i) {
    auto& device = devices_.emplace_back(std::make_unique<FakeDevice>());
    device->traits = inner_->traits(i);
    device->traits.name = Cat("fake:", i);
    device->traits.may_fail_after_dispatch = options.fails_late;
    if (memory_bytes > 0) device->traits.memory_bytes = memory_bytes;
  }
}

FakePlugin::~FakePlugin() {
  for (auto& device : devices_) device->queue.Stop();
  for (auto& device : devices_) device->queue.Join();
}

std::string FakePlugin::name() const { return Cat("fake/", inner_->name()); }

std::string FakePlugin::fingerprint() const { return Cat(kMagic, "-", inner_->fingerprint()); }

absl::Status FakePlugin::CheckDevice(int device) const {
  if (device >= 0 && device < device_count()) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("no device ", device, ": the plugin has ", device_count()));
}

absl::StatusOr<MemoryCharge> FakePlugin::Charge(int device, int64_t bytes) {
  const int64_t bound = script_.memory_bytes();
  std::atomic<int64_t>& used = devices_[device]->used_bytes;
  MemoryCharge charge = MemoryCharge::Take(used, bytes, bound);
  if (!charge) {
    return absl::ResourceExhaustedError(Cat("out of memory on ", traits(device).name,
                                            ": allocating ", bytes, " bytes with ", used.load(),
                                            " of ", bound, " in use"));
  }
  return charge;
}

absl::Status FakePlugin::Blocking(FaultPoint point, std::string_view name) {
  const Fault fault = script_.Next(point, name);
  if (fault.slow_ms > 0) {
    // Without a lock of its own: any number of callers may be slow at once.
    std::mutex mutex;
    std::unique_lock<std::mutex> lock(mutex);
    std::condition_variable never;
    never.wait_for(lock, std::chrono::milliseconds(fault.slow_ms), [] { return false; });
  }
  if (fault.crash) std::abort();
  return fault.error.ToStatus();
}

absl::StatusOr<std::string> FakePlugin::Compile(const std::string& module,
                                                const std::string& options) {
  absl::StatusOr<HloSignature> signature = ParseSignature(module);
  if (!signature.ok()) return signature.status();
  if (absl::Status status = Blocking(FaultPoint::kCompile, signature->name); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::string> bytes = inner_->Compile(module, options);
  if (!bytes.ok()) return bytes.status();
  return Pack(signature->ToText(), *bytes);
}

absl::StatusOr<LoadedExecutablePtr> FakePlugin::Load(const std::string& serialized) {
  absl::StatusOr<Unpacked> unpacked = Unpack(serialized);
  if (!unpacked.ok()) return unpacked.status();
  absl::StatusOr<HloSignature> signature = ParseSignature(unpacked->signature);
  if (!signature.ok()) return signature.status();
  if (absl::Status status = Blocking(FaultPoint::kLoad, signature->name); !status.ok()) {
    return status;
  }
  absl::StatusOr<LoadedExecutablePtr> inner = inner_->Load(unpacked->inner);
  if (!inner.ok()) return inner.status();
  return std::make_shared<FakeExecutable>(*this, *std::move(signature), *std::move(inner));
}

absl::StatusOr<LoadedExecutablePtr> FakePlugin::CompileAndLoad(const std::string& module,
                                                               const std::string& options) {
  absl::StatusOr<HloSignature> signature = ParseSignature(module);
  if (!signature.ok()) return signature.status();
  if (absl::Status status = Blocking(FaultPoint::kCompile, signature->name); !status.ok()) {
    return status;
  }
  absl::StatusOr<LoadedExecutablePtr> inner = inner_->CompileAndLoad(module, options);
  if (!inner.ok()) return inner.status();
  return std::make_shared<FakeExecutable>(*this, *std::move(signature), *std::move(inner));
}

absl::StatusOr<DeviceBufferPtr> FakePlugin::FromHost(int device, DType dtype, int64_t elements,
                                                     const MakeBuffer& make) {
  if (absl::Status status = CheckDevice(device); !status.ok()) return status;
  // The wrapped plugin refuses impossible sizes before any memory is counted.
  const bool possible = IsValid(dtype) && elements > 0 && elements < INT64_MAX / 16;
  if (!possible) return make();
  if (absl::Status status = Blocking(FaultPoint::kUpload, "*"); !status.ok()) return status;
  absl::StatusOr<MemoryCharge> charge = Charge(device, elements * DTypeBytes(dtype));
  if (!charge.ok()) return charge.status();
  absl::StatusOr<DeviceBufferPtr> buffer = make();
  if (!buffer.ok()) return buffer.status();
  auto content = std::make_shared<FakeContent>(*std::move(charge));
  content->Resolve(*std::move(buffer));
  return std::make_shared<FakeBuffer>(std::move(content), dtype, elements, device);
}

absl::StatusOr<DeviceBufferPtr> FakePlugin::Upload(int device, DType dtype, int64_t elements,
                                                   const void* data) {
  return FromHost(device, dtype, elements,
                  [&] { return inner_->Upload(device, dtype, elements, data); });
}

absl::StatusOr<DeviceBufferPtr> FakePlugin::Adopt(int device, DType dtype, int64_t elements,
                                                  void* block, std::function<void()> release) {
  return FromHost(device, dtype, elements, [&] {
    return inner_->Adopt(device, dtype, elements, block, std::move(release));
  });
}

absl::Status FakePlugin::Download(DeviceBuffer& buffer, int64_t offset, int64_t bytes,
                                  void* destination, DoneCallback done) {
  FakeBuffer& source = AsFake(buffer);
  if (offset < 0 || bytes < 0 || offset > source.bytes() || bytes > source.bytes() - offset) {
    return absl::InvalidArgumentError(Cat("bytes [", offset, ", +", bytes,
                                          ") are not within a buffer of ", source.bytes(),
                                          " bytes"));
  }
  const FakeContentPtr content = source.content();
  if (content == nullptr) {
    return absl::InvalidArgumentError("the buffer has been deleted or donated");
  }
  const Fault fault = script_.Next(FaultPoint::kDownload, "*");
  if (fault.crash) std::abort();
  if (!fault.error.ok() && !fault.late) return fault.error.ToStatus();
  // Where the content is there, it is read now: a later donation must not be seen.
  auto read = [this, content, offset, bytes, destination, done](const Error& late) {
    Error error = late.ok() ? content->error() : late;
    if (error.ok()) {
      const absl::Status status =
          inner_->Download(*content->buffer(), offset, bytes, destination, done);
      if (status.ok()) return;
      error = Error::From(status);
    }
    done(std::move(error));
  };
  if (fault.any()) {
    // A slow or failed read: in line with the device's other work.
    devices_[source.device()]->queue.Push(fault.slow_ms, [content, read, fault] {
      content->Wait();
      read(fault.error);
    });
  } else {
    content->OnResolved([read] { read(Error{}); });
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceBufferPtr> FakePlugin::CopyToDevice(DeviceBuffer& buffer, int device) {
  if (absl::Status status = CheckDevice(device); !status.ok()) return status;
  FakeBuffer& source = AsFake(buffer);
  const FakeContentPtr content = source.content();
  if (content == nullptr) {
    return absl::InvalidArgumentError("the buffer has been deleted or donated");
  }
  if (source.device() == device) {
    return absl::InvalidArgumentError(Cat("the buffer is on device ", device, " already"));
  }
  const Fault fault = script_.Next(FaultPoint::kCopy, "*");
  if (fault.crash) std::abort();
  if (!fault.error.ok() && !fault.late) return fault.error.ToStatus();
  absl::StatusOr<MemoryCharge> charge = Charge(device, source.bytes());
  if (!charge.ok()) return charge.status();
  auto copy = std::make_shared<FakeContent>(*std::move(charge));
  auto start = [this, content, copy, device](const Error& late) {
    const Error error = late.ok() ? content->error() : late;
    if (!error.ok()) return copy->Fail(error);
    absl::StatusOr<DeviceBufferPtr> made = inner_->CopyToDevice(*content->buffer(), device);
    made.ok() ? copy->Resolve(*std::move(made)) : copy->Fail(Error::From(made.status()));
  };
  if (fault.any()) {
    devices_[source.device()]->queue.Push(fault.slow_ms, [content, start, fault] {
      content->Wait();
      start(fault.error);
    });
  } else {
    content->OnResolved([start] { start(Error{}); });
  }
  return std::make_shared<FakeBuffer>(std::move(copy), source.dtype(), source.elements(), device);
}

}  // namespace neurond::fake
