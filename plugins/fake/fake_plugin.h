// FakePlugin: another Plugin with scripted faults: the numbers are real, the trouble is made up.
//
// It wraps the interpreter (no library needed; runs under ThreadSanitizer) or a PJRT library.
// Without a fault in sight it passes a call on, inline. A slow or late one goes through a queue per
// device with a thread of its own, and so does everything behind it; so a result may not be there
// yet, may fail after Execute returned, and dependents wait for it, as on an accelerator.
//
// Options: script (rules, see script.h), script_file, devices (of the interpreter; default 4),
// async = true (every Execute goes through the queue), fails_late = false (a late fault is an
// immediate one: the runtime may then donate, as on a device that cannot fail after dispatch).
// With a wrapped library all others are its create options.
//
// A serialized executable is the module's signature and the wrapped plugin's bytes.
//
// Lifetime: outlives its buffers and executables. The destructor runs what is queued, without
// delays. Thread-safety: as Plugin says. Scripted delays of uploads, loads and compiles block the
// caller.

#ifndef NEUROND_PLUGINS_FAKE_FAKE_PLUGIN_H_
#define NEUROND_PLUGINS_FAKE_FAKE_PLUGIN_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/fake/device_queue.h"
#include "plugins/fake/fake_buffer.h"
#include "plugins/fake/script.h"
#include "runtime/device/plugin.h"

namespace neurond::fake {

struct FakeOptions {
  std::string script;
  std::string script_file;
  bool async = false;
  bool fails_late = true;
};

// One device's state.
struct FakeDevice {
  DeviceTraits traits;
  DeviceQueue queue;
  std::atomic<int64_t> used_bytes{0};
};

class FakePlugin final : public Plugin {
 public:
  static absl::StatusOr<std::unique_ptr<Plugin>> Create(std::unique_ptr<Plugin> inner,
                                                        const FakeOptions& options);
  ~FakePlugin() override;

  std::string name() const override;
  std::string fingerprint() const override;
  int device_count() const override { return static_cast<int>(devices_.size()); }
  const DeviceTraits& traits(int device) const override { return devices_[device]->traits; }

  absl::StatusOr<std::string> Compile(const std::string& module,
                                      const std::string& options) override;
  absl::StatusOr<LoadedExecutablePtr> Load(const std::string& serialized) override;
  absl::StatusOr<LoadedExecutablePtr> CompileAndLoad(const std::string& module,
                                                     const std::string& options) override;
  bool can_serialize() const override { return inner_->can_serialize(); }

  absl::StatusOr<DeviceBufferPtr> Upload(int device, DType dtype, int64_t elements,
                                         const void* data) override;
  absl::StatusOr<DeviceBufferPtr> Adopt(int device, DType dtype, int64_t elements, void* block,
                                        std::function<void()> release) override;
  absl::Status Download(DeviceBuffer& buffer, int64_t offset, int64_t bytes, void* destination,
                        DoneCallback done) override;
  absl::StatusOr<DeviceBufferPtr> CopyToDevice(DeviceBuffer& buffer, int device) override;

  // For FakeExecutable.
  Script& script() { return script_; }
  FakeDevice& device(int index) { return *devices_[index]; }
  bool async() const { return async_; }
  // RESOURCE_EXHAUSTED if the device has no room.
  absl::StatusOr<MemoryCharge> Charge(int device, int64_t bytes);

 private:
  FakePlugin(std::unique_ptr<Plugin> inner, const FakeOptions& options);
  absl::Status CheckDevice(int device) const;
  // The scripted delay and fault of a call that has no queue.
  absl::Status Blocking(FaultPoint point, std::string_view name);
  using MakeBuffer = std::function<absl::StatusOr<DeviceBufferPtr>()>;
  absl::StatusOr<DeviceBufferPtr> FromHost(int device, DType dtype, int64_t elements,
                                           const MakeBuffer& make);

  const std::unique_ptr<Plugin> inner_;
  Script script_;
  const bool async_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;
};

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_FAKE_PLUGIN_H_
