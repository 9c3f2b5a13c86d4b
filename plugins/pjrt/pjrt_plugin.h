// PjrtPlugin: any vendor's PJRT C-API library as a Plugin.
//
// What it must work around, each seen on a real library, is said where it is done: modules
// that end the process, compile options that may not be empty, zero-copy that depends on alignment,
// parse errors that come as UNKNOWN. Two things are left to the caller, because a call cannot see
// them: a PJRT Execute checks byte sizes only, so dtypes and shapes are checked above; and it
// blocks from about the 32nd computation in flight on a device, so a Device's gate lets in fewer.
//
// Lifetime: outlives its buffers and executables. The library itself is never unloaded.
// Thread-safety: as Plugin says.

#ifndef NEUROND_PLUGINS_PJRT_PJRT_PLUGIN_H_
#define NEUROND_PLUGINS_PJRT_PJRT_PLUGIN_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/pjrt/pjrt_api.h"
#include "runtime/device/plugin.h"

namespace neurond::pjrt {

struct PjrtOptions {
  std::string path;
  // Create options of the library. A value is sent as true/false, int64, float (with a point) or
  // string, by its look.
  std::map<std::string, std::string> create_options;
  std::string keep_directory;  // see fingerprint.h
};

class PjrtPlugin final : public Plugin {
 public:
  static absl::StatusOr<std::unique_ptr<Plugin>> Create(const PjrtOptions& options);
  ~PjrtPlugin() override;

  std::string name() const override { return name_; }
  std::string fingerprint() const override;
  int device_count() const override { return static_cast<int>(devices_.size()); }
  const DeviceTraits& traits(int device) const override { return traits_[device]; }

  absl::StatusOr<std::string> Compile(const std::string& module,
                                      const std::string& options) override;
  absl::StatusOr<LoadedExecutablePtr> Load(const std::string& serialized) override;
  absl::StatusOr<LoadedExecutablePtr> CompileAndLoad(const std::string& module,
                                                     const std::string& options) override;
  bool can_serialize() const override { return can_serialize_; }

  absl::StatusOr<DeviceBufferPtr> Upload(int device, DType dtype, int64_t elements,
                                         const void* data) override;
  absl::StatusOr<DeviceBufferPtr> Adopt(int device, DType dtype, int64_t elements, void* block,
                                        std::function<void()> release) override;
  absl::Status Download(DeviceBuffer& buffer, int64_t offset, int64_t bytes, void* destination,
                        DoneCallback done) override;
  absl::StatusOr<DeviceBufferPtr> CopyToDevice(DeviceBuffer& buffer, int device) override;

 private:
  struct HostCopy {
    DeviceBufferPtr buffer;
    PJRT_Event* done_with_host = nullptr;
  };
  explicit PjrtPlugin(PjrtApi api) : api_(api), can_serialize_(api.can_serialize()) {}

  absl::Status CreateClient(const PjrtOptions& options);
  absl::Status ListDevices();
  absl::Status CheckDevice(int device) const;
  absl::StatusOr<PJRT_LoadedExecutable*> CompileToPjrt(const std::string& module,
                                                       const std::string& options);
  absl::StatusOr<std::string> Serialize(PJRT_LoadedExecutable* executable);
  absl::StatusOr<HostCopy> FromHost(int device, DType dtype, int64_t elements, const void* data,
                                    PJRT_HostBufferSemantics semantics);
  // Downloads by the plugin's own asynchronous copy, which holds the buffer against donation until
  // it is done.
  absl::Status DownloadRaw(PJRT_Buffer* buffer, int64_t offset, int64_t bytes, void* destination,
                           DoneCallback done);
  absl::Status DownloadWhole(PJRT_Buffer* buffer, int64_t buffer_bytes, int64_t offset,
                             int64_t bytes, void* destination, DoneCallback done);

  const PjrtApi api_;
  PJRT_Client* client_ = nullptr;
  std::string name_;
  std::string library_path_;
  std::string keep_directory_;
  std::string environment_;  // what a compile depends on beside the library and the module
  std::vector<PJRT_Device*> devices_;
  std::vector<DeviceTraits> traits_;
  std::atomic<bool> can_serialize_;  // cleared when the library turns out not to
  std::atomic<bool> copy_raw_refused_{false};
  mutable std::once_flag fingerprint_once_;
  mutable std::string fingerprint_;
};

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_PJRT_PLUGIN_H_
