#include "plugins/fake/fake_executable.h"

#include <cstdlib>
#include <utility>

#include "runtime/base/text.h"

namespace neurond::fake {

struct FakeExecutable::Run {
  int device = 0;
  std::vector<FakeContentPtr> inputs;
  std::unique_ptr<bool[]> donate;  // per input, and only where the module aliases it
  std::vector<FakeContentPtr> outputs;
  Fault fault;
  DoneCallback done;
};

absl::Status FakeExecutable::CheckArguments(int device, std::span<DeviceBuffer* const> arguments,
                                            std::span<const bool> donate) const {
  const std::vector<HloType>& parameters = signature_.parameters;
  if (device < 0 || device >= plugin_.device_count()) {
    return absl::InvalidArgumentError(Cat("no device ", device));
  }
  if (arguments.size() != parameters.size() || donate.size() != parameters.size()) {
    return absl::InvalidArgumentError(Cat("got ", arguments.size(), " arguments and ",
                                          donate.size(), " donate flags, expected ",
                                          parameters.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& buffer = static_cast<const FakeBuffer&>(*arguments[i]);
    if (buffer.device() != device) {
      return absl::InvalidArgumentError(
          Cat("argument ", i, " is on device ", buffer.device(), ", expected ", device));
    }
    if (buffer.bytes() != parameters[i].bytes()) {
      return absl::InvalidArgumentError(
          Cat("argument ", i, " has ", buffer.bytes(), " bytes, expected ", parameters[i].bytes()));
    }
    if (buffer.content() == nullptr) {
      return absl::InvalidArgumentError(Cat("argument ", i, " has been deleted or donated"));
    }
  }
  return absl::OkStatus();
}

// Pending outputs, each with its share of memory: a donated input's share goes over to its heir.
absl::Status FakeExecutable::MakeOutputs(Run& run) const {
  std::vector<bool> inherits(signature_.results.size(), false);
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    if (run.donate[i]) inherits[signature_.aliases[i]] = true;
  }
  for (size_t r = 0; r < signature_.results.size(); ++r) {
    MemoryCharge charge;
    if (!inherits[r]) {
      absl::StatusOr<MemoryCharge> taken =
          plugin_.Charge(run.device, signature_.results[r].bytes());
      if (!taken.ok()) return taken.status();
      charge = *std::move(taken);
    }
    run.outputs.push_back(std::make_shared<FakeContent>(std::move(charge)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExecuteResult> FakeExecutable::Execute(int device,
                                                      std::span<DeviceBuffer* const> arguments,
                                                      std::span<const bool> donate,
                                                      DoneCallback done) {
  if (absl::Status status = CheckArguments(device, arguments, donate); !status.ok()) return status;
  auto run = std::make_shared<Run>();
  run->fault = plugin_.script().Next(FaultPoint::kExecute, signature_.name);
  if (run->fault.crash) std::abort();
  const bool late = run->fault.late && plugin_.traits(device).may_fail_after_dispatch;
  if (!run->fault.error.ok() && !late) return run->fault.error.ToStatus();
  run->device = device;
  run->donate.reset(new bool[arguments.size()]);
  bool pending = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    run->inputs.push_back(static_cast<FakeBuffer*>(arguments[i])->content());
    run->donate[i] = donate[i] && signature_.aliases[i] >= 0;
    pending = pending || run->inputs.back()->buffer() == nullptr;
  }
  if (absl::Status status = MakeOutputs(*run); !status.ok()) return status;

  DeviceQueue& queue = plugin_.device(device).queue;
  const bool queued = pending || run->fault.any() || plugin_.async() || !queue.Idle();
  run->done = std::move(done);
  if (!queued) {
    if (absl::Status status = RunInner(*run); !status.ok()) return status;
  }
  ExecuteResult result;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!run->donate[i]) continue;
    run->outputs[signature_.aliases[i]]->SetCharge(run->inputs[i]->TakeCharge());
    static_cast<FakeBuffer*>(arguments[i])->Donate();
  }
  for (size_t r = 0; r < run->outputs.size(); ++r) {
    result.outputs.push_back(std::make_shared<FakeBuffer>(
        run->outputs[r], signature_.results[r].dtype, signature_.results[r].elements(), device));
  }
  if (queued) {
    const int delay_ms = run->fault.slow_ms;
    queue.Push(delay_ms, [self = shared_from_this(), run] { self->RunQueued(*run); });
  }
  return result;
}

absl::Status FakeExecutable::RunInner(Run& run) const {
  std::vector<DeviceBufferPtr> held;  // the wrapped plugin needs them during the call
  std::vector<DeviceBuffer*> arguments;
  for (const FakeContentPtr& input : run.inputs) {
    held.push_back(input->buffer());
    arguments.push_back(held.back().get());
  }
  absl::StatusOr<ExecuteResult> result =
      inner_->Execute(run.device, arguments, {run.donate.get(), run.inputs.size()}, run.done);
  if (!result.ok()) return result.status();
  for (size_t r = 0; r < run.outputs.size(); ++r) {
    run.outputs[r]->Resolve(std::move(result->outputs[r]));
  }
  return absl::OkStatus();
}

void FakeExecutable::RunQueued(Run& run) const {
  Error error = run.fault.error;
  for (const FakeContentPtr& input : run.inputs) {
    input->Wait();
    if (error.ok()) error = input->error();
  }
  if (error.ok()) error = Error::From(RunInner(run));
  if (!error.ok()) FailAll(run, error);
}

void FakeExecutable::FailAll(Run& run, const Error& error) {
  for (const FakeContentPtr& output : run.outputs) output->Fail(error);
  run.done(error);
}

}  // namespace neurond::fake
