// Dispatch: Commands are started when their Stream, inputs, Executable and the device's gate allow,
// finished when the plugin is done, and their failures spread.

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/session/session_impl.h"

namespace neurond {
namespace {

bool MayFailLate(const Device& device) {
  return const_cast<Device&>(device).traits().may_fail_after_dispatch;
}

}  // namespace

SessionImpl::CommandPtr SessionImpl::NewCommand(Command::Kind kind, int stream, int device,
                                                uint64_t seq, uint64_t origin) {
  CommandPtr command;
  if (spare_.empty()) {
    command = std::make_unique<Command>();
  } else {
    command = std::move(spare_.back());
    spare_.pop_back();
  }
  command->kind = kind;
  command->stream = stream;
  command->device = device;
  command->seq = seq;
  command->origin = origin;
  return command;
}

void SessionImpl::EnsureTicket(Command& command) {
  if (command.has_ticket) return;
  command.ticket = progress_->Enter(command.stream, command.seq);
  command.has_ticket = true;
}

void SessionImpl::Submit(CommandPtr command) {
  std::deque<CommandPtr>& queue = queues_[command->stream];
  if (queue.empty()) {
    if (TryStart(command.get())) {
      command.release();  // whoever finishes it owns it
      return;
    }
    waiting_streams_.push_back(command->stream);
  }
  EnsureTicket(*command);
  queue.push_back(std::move(command));
}

bool SessionImpl::TryStart(Command* command) {
  bool failed = false;
  for (const VersionPtr& input : command->inputs) {
    if (input->pending()) return false;  // its producer's finish runs the queues again
    failed = failed || input->failed();
  }
  if (failed) {
    Fail(command, OldestRoot(*command));
    return true;
  }
  switch (command->kind) {
    case Command::Kind::kExecute:
      return StartExecute(command);
    case Command::Kind::kRead:
      return StartRead(command);
    case Command::Kind::kCopy:
      return StartCopy(command);
    case Command::Kind::kPatch:
      return StartPatch(command);
    case Command::Kind::kWait:
      return StartWait(command);
    case Command::Kind::kWrite:
      break;  // never queued
  }
  return true;
}

// --- Execute ------------------------------------------------------------------------------------

bool SessionImpl::ExecutableReady(Command* command, Error* failure) {
  Executable* executable = command->program->executable;
  if (executable->loaded() != nullptr) return true;
  // One look: another session may ask for another try of a failed one at any moment.
  *failure = executable->error();
  if (!failure->ok()) return true;
  if (const int current = executable->tries(); command->awaited_try != current) {
    command->awaited_try = current;
    executable->OnResolved([progress = progress_] { progress->Wake(); });
  }
  return false;
}

bool SessionImpl::MemoryAvailable(Command* command) {
  const SessionProgram& program = *command->program;
  Device& where = device(command->device);
  if (where.memory_bytes() <= 0) return true;
  const int64_t need = program.result_bytes + program.executable->loaded()->TemporaryBytes();
  if (need < kPhysicalCheckBytesMin) return true;
  int64_t reused = 0;
  for (size_t i = 0; i < command->inputs.size(); ++i) {
    if (MayDonate(*command, i)) reused += command->inputs[i]->charged_bytes();
  }
  return where.counters().physical_bytes + need - reused <= where.memory_bytes();
}

bool SessionImpl::EnterGate(Command* command) {
  Device& where = device(command->device);
  command->gate = &where;
  return where.TryEnter() ||
         where.TryEnter(progress_.get(), [progress = progress_] { progress->Wake(); });
}

bool SessionImpl::StartExecute(Command* command) {
  const SessionProgram& program = *command->program;
  if (program.executable == nullptr) {  // nothing to run
    BindResults(*command, true);
    Retire(command);
    return true;
  }
  Error failure;
  if (!ExecutableReady(command, &failure)) return false;
  if (!failure.ok()) {
    Fail(command, NewRoot(*command, std::move(failure)));
    return true;
  }
  if (!MemoryAvailable(command)) {
    // Only what was submitted before may still make room; a later Free must not be waited for.
    needs_retirement_ = true;
    progress_->WakeOnRetire(true);
    if (progress_->running() > 0) return false;
    Fail(command,
         NewRoot(
             *command,
             {absl::StatusCode::kResourceExhausted, ErrorKind::kOutOfMemory,
              Cat("neuron out of memory: results and temporaries of ", program.program.name,
                  " take ", program.result_bytes + program.executable->loaded()->TemporaryBytes(),
                  " bytes and do not fit beside what is in use on neuron:", command->device)}));
    return true;
  }
  if (!EnterGate(command)) return false;
  return RunExecute(command);
}

bool SessionImpl::MayDonate(const Command& command, size_t parameter) const {
  const SessionProgram& program = *command.program;
  const int written = program.aliased[parameter];
  if (written < 0 || program.checked || MayFailLate(device(command.device))) return false;
  const VersionPtr& version = command.inputs[parameter];
  const Version& next = *command.outputs[program.program.created.size() + written];
  const int ours = 1 + (next.previous == version ? 1 : 0);
  // Only completion threads drop references meanwhile, each when it is done with the content: a
  // count that is too high only costs a copy.
  return version.use_count() == ours && version->content.use_count() == 1;
}

bool SessionImpl::RunExecute(Command* command) {
  const SessionProgram& program = *command->program;
  Device& where = device(command->device);
  arguments_.clear();
  donate_.clear();
  for (size_t i = 0; i < command->inputs.size(); ++i) {
    arguments_.push_back(command->inputs[i]->content.get());
    donate_.push_back(MayDonate(*command, i));
  }
  DeviceBufferPtr words;
  if (!command->words.empty()) {
    absl::StatusOr<DeviceBufferPtr> made = words_.Get(where, command->words);
    if (!made.ok()) {
      where.Leave();
      Fail(command, NewRoot(*command, Error::From(made.status())));
      return true;
    }
    words = *std::move(made);
    arguments_.push_back(words.get());
    donate_.push_back(false);
  }
  command->pending.store(2, std::memory_order_relaxed);  // the owner and the Execute
  command->needs_owner = program.checked;
  command->tells_owner = MayFailLate(where);
  command->progress = progress_;
  absl::StatusOr<ExecuteResult> result = program.executable->loaded()->Execute(
      where.index(), arguments_, donate_,
      [command](Error error) { command->OnExecuted(std::move(error)); });
  if (!result.ok()) {
    where.Leave();
    if (absl::IsResourceExhausted(result.status())) {
      needs_retirement_ = true;
      progress_->WakeOnRetire(true);
      if (progress_->running() > 0) return false;  // what is under way may make room
    }
    command->error = Error::From(result.status());
    FinishFailed(command);
    return true;
  }
  if (command->pending.load(std::memory_order_acquire) == 1 && !command->error.ok()) {
    FinishFailed(command);  // it failed before Execute returned: nothing is bound
    return true;
  }
  command->results = std::move(result->outputs);
  if (program.checked) {
    CheckResults(command);
  } else {
    for (size_t i = 0; i < command->inputs.size(); ++i) {
      if (!donate_[i]) continue;
      command->inputs[i]->PassCharge(
          *command->outputs[program.program.created.size() + program.aliased[i]]);
    }
    BindResults(*command, !command->tells_owner);
  }
  if (!command->tells_owner) command->inputs.clear();
  LetGo(command);
  return true;
}

void SessionImpl::BindResults(Command& command, bool good) {
  const Program& program = command.program->program;
  Device& where = device(command.device);
  const size_t created = program.created.size();
  for (size_t i = 0; i < command.outputs.size(); ++i) {
    const int result =
        i < created ? program.created_results[i] : program.written_results[i - created];
    Version& version = *command.outputs[i];
    if (result < 0) {
      version.Bind(nullptr, good);
      continue;
    }
    DeviceBufferPtr& content = command.results[result];
    if (version.charged_bytes() == 0) {
      version.Charge(where, content->elements() * DTypeBytes(content->dtype()));
    }
    version.Bind(std::move(content), good);
  }
  // While the Command holds its outputs, no other can donate them.
  if (good) command.outputs.clear();
}

void SessionImpl::CheckResults(Command* command) {
  const Program& program = command->program->program;
  command->pending.fetch_add(1, std::memory_order_relaxed);
  const absl::Status status =
      device(command->device)
          .plugin()
          .Download(*command->results[program.check_result], 0, sizeof(command->check),
                    command->check,
                    [command](Error error) { command->OnChecked(std::move(error)); });
  if (!status.ok()) command->OnChecked(Error::From(status));
}

// --- Other Commands -----------------------------------------------------------------------------

bool SessionImpl::StartRead(Command* command) {
  if (command->bytes == 0) {
    Retire(command);
    return true;
  }
  command->source = command->inputs[0]->content;
  command->gate = &device(command->device);
  command->progress = progress_;
  command->pending.store(2, std::memory_order_relaxed);
  // The download starts where the content appears: no hop over the owner.
  if (command->source->IsReady()) {
    command->OnReadable(Error{});
  } else {
    command->source->OnReady([command](Error error) { command->OnReadable(std::move(error)); });
  }
  LetGo(command);
  return true;
}

bool SessionImpl::StartCopy(Command* command) {
  Device& where = device(command->device);
  DeviceBufferPtr content = command->inputs[0]->content;
  if (content != nullptr && content->device() != where.index()) {
    absl::StatusOr<DeviceBufferPtr> moved = where.plugin().CopyToDevice(*content, where.index());
    if (!moved.ok()) {
      command->error = Error::From(moved.status());
      FinishFailed(command);
      return true;
    }
    content = *std::move(moved);
    command->outputs[0]->Charge(where, command->bytes);
  }
  // On one device the two Versions share the content, which nobody changes.
  const bool good = !MayFailLate(where);
  command->outputs[0]->Bind(content, good);
  command->tells_owner = !good;
  if (good) {
    command->inputs.clear();
    command->outputs.clear();
  }
  command->progress = progress_;
  command->pending.store(1, std::memory_order_relaxed);
  if (content != nullptr && !(good && content->IsReady())) {  // ready may also mean failed
    command->pending.store(2, std::memory_order_relaxed);
    content->OnReady([command](Error error) { command->OnTransferred(std::move(error)); });
  }
  LetGo(command);
  return true;
}

void SessionImpl::RunWrite(CommandPtr owned, Buffer& buffer, HostBlock block) {
  Command* command = owned.release();
  Device& where = device(buffer.device);
  absl::StatusOr<DeviceBufferPtr> content = Content(where, buffer.dtype, buffer.elements, block);
  if (!content.ok()) {
    Fail(command, NewRoot(*command, Error::From(content.status())));
    return;
  }
  command->outputs[0]->Charge(where, buffer.bytes());
  command->outputs[0]->Bind(*content, true);
  command->outputs.clear();
  command->progress = progress_;
  command->pending.store(1, std::memory_order_relaxed);
  if (!(*content)->IsReady()) {
    command->pending.store(2, std::memory_order_relaxed);
    (*content)->OnReady([command](Error error) { command->OnTransferred(std::move(error)); });
  }
  LetGo(command);
}

bool SessionImpl::StartPatch(Command* command) {
  const DeviceBufferPtr& old = command->inputs[0]->content;
  const int64_t total = old->elements() * DTypeBytes(old->dtype());
  command->block = blocks_->Take(total);
  if (!command->block) {
    Fail(command, NewRoot(*command, {absl::StatusCode::kResourceExhausted, ErrorKind::kOutOfMemory,
                                     Cat("no host memory for a Write into ", total, " bytes")}));
    return true;
  }
  command->source = old;
  command->needs_owner = true;
  command->progress = progress_;
  command->pending.store(2, std::memory_order_relaxed);
  const absl::Status status =
      device(command->device)
          .plugin()
          .Download(*command->source, 0, total, command->block.data(),
                    [command](Error error) { command->OnTransferred(std::move(error)); });
  if (!status.ok()) command->OnTransferred(Error::From(status));
  LetGo(command);
  return true;
}

bool SessionImpl::FinishPatch(Command& command) {
  std::memcpy(command.block.data() + command.offset, command.patch.data(),
              static_cast<size_t>(command.bytes));
  Device& where = device(command.device);
  const int64_t elements = command.source->elements();
  const DType dtype = command.source->dtype();
  absl::StatusOr<DeviceBufferPtr> content = Content(where, dtype, elements, command.block);
  if (!content.ok()) {
    command.error = Error::From(content.status());
    return false;
  }
  command.outputs[0]->Charge(where, elements * DTypeBytes(dtype));
  command.outputs[0]->Bind(*std::move(content), true);
  return true;
}

bool SessionImpl::StartWait(Command* command) {
  needs_retirement_ = true;
  progress_->WakeOnRetire(true);  // before looking, so that no retirement is missed
  if (!progress_->Retired(command->other_stream, command->other_seq)) return false;
  Retire(command);
  return true;
}

absl::StatusOr<DeviceBufferPtr> SessionImpl::Content(Device& where, DType dtype, int64_t elements,
                                                     HostBlock& block) {
  if (elements * DTypeBytes(dtype) < kAdoptBytesMin) {
    return where.plugin().Upload(where.index(), dtype, elements, block.data());
  }
  void* const data = block.data();
  return where.plugin().Adopt(where.index(), dtype, elements, data, block.Release());
}

void SessionImpl::RunQueues() {
  needs_retirement_ = false;
  bool again = true;
  while (again && !waiting_streams_.empty()) {
    again = false;
    for (int stream : waiting_streams_) {
      std::deque<CommandPtr>& queue = queues_[stream];
      while (!queue.empty() && TryStart(queue.front().get())) {
        queue.front().release();
        queue.pop_front();
        again = true;
      }
    }
    std::erase_if(waiting_streams_, [this](int stream) { return queues_[stream].empty(); });
  }
  if (!needs_retirement_) progress_->WakeOnRetire(false);
}

}  // namespace neurond
