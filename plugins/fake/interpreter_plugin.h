// InterpreterPlugin: the smallest complete Plugin, and the one to clone for a new kind of device.
//
// Its devices are host memory and an interpreter for a subset of StableHLO (interpreter.h).
// Everything happens inside the call: buffers are ready when they are returned, `done` runs inline.
// A real device differs in exactly three places, marked CLONE: where memory comes from, how a
// module becomes an executable, and how a completion is reported later and from another thread.
//
// "Serialized" is the module's text behind a checksum, so that a truncated or altered executable
// fails to load, as a real one does.
//
// Lifetime: outlives its buffers and executables.
// Thread-safety: as Plugin says. There are no threads here, and no locks but one per buffer.

#ifndef NEUROND_PLUGINS_FAKE_INTERPRETER_PLUGIN_H_
#define NEUROND_PLUGINS_FAKE_INTERPRETER_PLUGIN_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/plugin.h"

namespace neurond::fake {

class InterpreterPlugin final : public Plugin {
 public:
  // 1 to 127 devices.
  static absl::StatusOr<std::unique_ptr<Plugin>> Create(int device_count);

  std::string name() const override { return "interpreter"; }
  std::string fingerprint() const override;
  int device_count() const override { return static_cast<int>(traits_.size()); }
  const DeviceTraits& traits(int device) const override { return traits_[device]; }

  absl::StatusOr<std::string> Compile(const std::string& module,
                                      const std::string& options) override;
  absl::StatusOr<LoadedExecutablePtr> Load(const std::string& serialized) override;
  absl::StatusOr<LoadedExecutablePtr> CompileAndLoad(const std::string& module,
                                                     const std::string& options) override;
  bool can_serialize() const override { return true; }

  absl::StatusOr<DeviceBufferPtr> Upload(int device, DType dtype, int64_t elements,
                                         const void* data) override;
  absl::StatusOr<DeviceBufferPtr> Adopt(int device, DType dtype, int64_t elements, void* block,
                                        std::function<void()> release) override;
  absl::Status Download(DeviceBuffer& buffer, int64_t offset, int64_t bytes, void* destination,
                        DoneCallback done) override;
  absl::StatusOr<DeviceBufferPtr> CopyToDevice(DeviceBuffer& buffer, int device) override;

 private:
  explicit InterpreterPlugin(int device_count);
  absl::Status CheckUpload(int device, DType dtype, int64_t elements) const;

  std::vector<DeviceTraits> traits_;
};

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_INTERPRETER_PLUGIN_H_
