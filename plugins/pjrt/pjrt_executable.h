// PjrtExecutable: one loaded executable, run on any one device of the client.
//
// What an Execute would have to ask the plugin each time (number, types and sizes of the results)
// is asked once, when it is loaded.
//
// Lifetime: the PjrtPlugin that made it outlives it. Running work keeps what it needs alive inside
// the plugin. Thread-safety: all methods, from any thread.

#ifndef NEUROND_PLUGINS_PJRT_PJRT_EXECUTABLE_H_
#define NEUROND_PLUGINS_PJRT_PJRT_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plugins/pjrt/pjrt_api.h"
#include "runtime/device/plugin.h"

namespace neurond::pjrt {

class PjrtExecutable final : public LoadedExecutable {
 public:
  // Takes `executable`, also on failure. UNIMPLEMENTED if a result has an element type that the
  // runtime has no name for.
  static absl::StatusOr<std::shared_ptr<PjrtExecutable>> Make(const PjrtApi& api,
                                                              std::span<PJRT_Device* const> devices,
                                                              PJRT_LoadedExecutable* executable);
  ~PjrtExecutable() override;

  absl::StatusOr<ExecuteResult> Execute(int device, std::span<DeviceBuffer* const> arguments,
                                        std::span<const bool> donate, DoneCallback done) override;
  int64_t TemporaryBytes() const override { return temporary_bytes_; }

  PJRT_LoadedExecutable* pjrt() const { return executable_; }

 private:
  struct Output {
    DType dtype;
    int64_t elements;
  };
  PjrtExecutable(const PjrtApi& api, std::span<PJRT_Device* const> devices,
                 PJRT_LoadedExecutable* executable)
      : api_(api), devices_(devices), executable_(executable) {}
  absl::Status ReadOutputs(PJRT_Executable* executable);
  void ReadMemory(PJRT_Executable* executable);
  // False if the run will probably fail for want of memory.
  bool HasRoom() const;

  const PjrtApi& api_;
  const std::span<PJRT_Device* const> devices_;
  PJRT_LoadedExecutable* const executable_;
  std::vector<Output> outputs_;
  int64_t temporary_bytes_ = 0;
  int64_t allocated_bytes_ =
      0;  // by one run that donates: results without an alias, and temporaries
};

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_PJRT_EXECUTABLE_H_
