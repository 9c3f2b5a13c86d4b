// Plugin: one vendor's devices, as the runtime sees them. plugins/pjrt implements it over any PJRT
// C-API library, plugins/fake with scripted latency and faults.
//
// Lifetime: a Plugin outlives everything it made. DeviceBuffer and LoadedExecutable are
// shared_ptr-owned. Thread-safety: every method of Plugin and LoadedExecutable may be called from
// any thread. Callbacks run on a thread of the plugin or inline in the call, never under a lock of
// the plugin; they must be short and may not throw. Errors: a failed call leaves nothing behind. No
// method ends the process on bad input that passed its documented preconditions.

#ifndef NEUROND_RUNTIME_DEVICE_PLUGIN_H_
#define NEUROND_RUNTIME_DEVICE_PLUGIN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

namespace neurond {

// Called once, with ok or an error.
using DoneCallback = std::function<void(Error)>;

// A block of device memory with a flat, one-dimensional content; maybe not computed yet.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual DType dtype() const = 0;
  virtual int64_t elements() const = 0;
  virtual int device() const = 0;
  // True once the content is there (or failed).
  virtual bool IsReady() const = 0;
  // Runs `done` when the content is there or failed; inline if that is so already.
  virtual void OnReady(DoneCallback done) = 0;
};
using DeviceBufferPtr = std::shared_ptr<DeviceBuffer>;

struct ExecuteResult {
  std::vector<DeviceBufferPtr> outputs;  // in module result order
};

class LoadedExecutable {
 public:
  virtual ~LoadedExecutable() = default;
  // Runs on `device`. `arguments` in module parameter order, all on that device, their dtype and
  // element count checked by the caller. donate[i]: the caller gives argument i away if the module
  // aliases it; on an error returned here nothing was donated. Returns once the work is enqueued
  // (small programs: once it is done). `done` runs when it completed or failed.
  virtual absl::StatusOr<ExecuteResult> Execute(int device,
                                                std::span<DeviceBuffer* const> arguments,
                                                std::span<const bool> donate,
                                                DoneCallback done) = 0;
  // Bytes of temporaries, 0 if the plugin does not know.
  virtual int64_t TemporaryBytes() const = 0;
};
using LoadedExecutablePtr = std::shared_ptr<LoadedExecutable>;

struct DeviceTraits {
  std::string name;      // "cpu:0"
  std::string platform;  // "cpu"
  int64_t memory_bytes = 0;
  bool host_memory = false;  // buffers are host memory: zero-copy uploads
  bool may_fail_after_dispatch =
      false;  // a computation can fail once Execute returned ok (not counting checks)
};

class Plugin {
 public:
  virtual ~Plugin() = default;

  virtual std::string name() const = 0;
  // Changes with everything but module and options that an executable depends on: the library's
  // content and API version, its own options, what its compiler reads of the process.
  virtual std::string fingerprint() const = 0;
  virtual int device_count() const = 0;
  virtual const DeviceTraits& traits(int device) const = 0;

  // Compiles a StableHLO module for one device, portable to any. `options` is plugin-specific text,
  // part of the cache key. May take seconds; blocks. Serialized bytes, or FAILED_PRECONDITION if
  // this plugin cannot serialize.
  virtual absl::StatusOr<std::string> Compile(const std::string& module,
                                              const std::string& options) = 0;
  virtual absl::StatusOr<LoadedExecutablePtr> Load(const std::string& serialized) = 0;
  // For plugins that cannot serialize.
  virtual absl::StatusOr<LoadedExecutablePtr> CompileAndLoad(const std::string& module,
                                                             const std::string& options) = 0;
  virtual bool can_serialize() const = 0;

  // Copies `elements` values from `data`, which may be reused when the call returns.
  virtual absl::StatusOr<DeviceBufferPtr> Upload(int device, DType dtype, int64_t elements,
                                                 const void* data) = 0;
  // Adopts a 64-byte-aligned host block without copying where the device is host memory, else
  // copies. `release` runs once the block is no longer used, by the buffer or any heir through
  // donation.
  virtual absl::StatusOr<DeviceBufferPtr> Adopt(int device, DType dtype, int64_t elements,
                                                void* block, std::function<void()> release) = 0;
  // Copies bytes [offset, +bytes) to `destination`, which must stay valid until `done` ran.
  virtual absl::Status Download(DeviceBuffer& buffer, int64_t offset, int64_t bytes,
                                void* destination, DoneCallback done) = 0;
  virtual absl::StatusOr<DeviceBufferPtr> CopyToDevice(DeviceBuffer& buffer, int device) = 0;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_DEVICE_PLUGIN_H_
