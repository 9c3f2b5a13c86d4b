// FakeExecutable: an executable of the wrapped plugin, run at once or through its device's queue.
//
// Lifetime: the FakePlugin that made it outlives it; a queued run holds it.
// Thread-safety: all methods, from any thread.

#ifndef NEUROND_PLUGINS_FAKE_FAKE_EXECUTABLE_H_
#define NEUROND_PLUGINS_FAKE_FAKE_EXECUTABLE_H_

#include <memory>
#include <vector>

#include "plugins/fake/fake_plugin.h"
#include "plugins/fake/hlo_module.h"

namespace neurond::fake {

class FakeExecutable final : public LoadedExecutable,
                             public std::enable_shared_from_this<FakeExecutable> {
 public:
  FakeExecutable(FakePlugin& plugin, HloSignature signature, LoadedExecutablePtr inner)
      : plugin_(plugin), signature_(std::move(signature)), inner_(std::move(inner)) {}

  absl::StatusOr<ExecuteResult> Execute(int device, std::span<DeviceBuffer* const> arguments,
                                        std::span<const bool> donate, DoneCallback done) override;
  int64_t TemporaryBytes() const override { return inner_->TemporaryBytes(); }

 private:
  // One call, while it may outlive Execute.
  struct Run;

  absl::Status CheckArguments(int device, std::span<DeviceBuffer* const> arguments,
                              std::span<const bool> donate) const;
  absl::Status MakeOutputs(Run& run) const;
  // Runs it in the wrapped plugin. Nothing is donated if it fails.
  absl::Status RunInner(Run& run) const;
  // On the queue: waits for the inputs, runs, resolves the outputs.
  void RunQueued(Run& run) const;
  static void FailAll(Run& run, const Error& error);

  FakePlugin& plugin_;
  const HloSignature signature_;
  const LoadedExecutablePtr inner_;
};

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_FAKE_EXECUTABLE_H_
