// Finish: what becomes of a Command once the plugin is done with it, and how failures spread.

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/session/session_impl.h"

namespace neurond {
namespace {

std::string_view OpName(const Command& command) {
  switch (command.kind) {
    case Command::Kind::kExecute:
      return command.program == nullptr ? "alloc" : std::string_view(command.program->program.name);
    case Command::Kind::kWrite:
    case Command::Kind::kPatch:
      return "write";
    case Command::Kind::kRead:
      return "read";
    case Command::Kind::kCopy:
      return "copy";
    case Command::Kind::kWait:
      return "wait";
  }
  return "";
}

absl::StatusCode CodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kIndex:
      return absl::StatusCode::kOutOfRange;
    case ErrorKind::kOutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    case ErrorKind::kValue:
    case ErrorKind::kZeroDivision:
    case ErrorKind::kLinalg:
      return absl::StatusCode::kInvalidArgument;
    case ErrorKind::kRuntime:
      break;
  }
  return absl::StatusCode::kFailedPrecondition;
}

}  // namespace

void SessionImpl::LetGo(Command* command) {
  if (command->pending.load(std::memory_order_acquire) == 1) {  // everything ran inline
    Finish(command);
    return;
  }
  EnsureTicket(*command);
  progress_->Started();
  if (command->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    progress_->Finished();
    Finish(command);
  }
}

void SessionImpl::Finish(Command* command) {
  if (!command->error.ok() || !command->check_error.ok()) {
    FinishFailed(command);
    return;
  }
  if (command->kind == Command::Kind::kExecute && command->program->checked) {
    if (command->check[0] != 0) {
      Fail(command, NewRoot(*command, CheckError(*command)));
      return;
    }
    BindResults(*command, true);
  }
  if (command->kind == Command::Kind::kPatch && !FinishPatch(*command)) {
    FinishFailed(command);
    return;
  }
  for (const VersionPtr& output : command->outputs) output->BecomeGood();
  Retire(command);
}

void SessionImpl::FinishFailed(Command* command) {
  RootPtr root = OldestRoot(*command);
  if (root == nullptr) {
    for (const VersionPtr& input : command->inputs) {
      if (input->state != Version::State::kDispatched) continue;
      // The input's producer may be what failed; its own end is still to come.
      EnsureTicket(*command);
      undetermined_.push_back(command);
      return;
    }
    root = NewRoot(*command, command->error.ok() ? command->check_error : command->error);
  }
  Fail(command, root);
}

RootPtr SessionImpl::OldestRoot(const Command& command) const {
  RootPtr oldest;
  for (const VersionPtr& input : command.inputs) {
    if (!input->failed()) continue;
    if (oldest == nullptr || input->root->error->seq < oldest->error->seq) oldest = input->root;
  }
  return oldest;
}

RootPtr SessionImpl::NewRoot(const Command& command, Error error) const {
  auto deferred = std::make_shared<DeferredError>();
  deferred->error = std::move(error);
  deferred->seq = command.seq;
  deferred->origin = command.origin;
  deferred->stream = command.stream;
  deferred->device = command.device;
  deferred->op = OpName(command);
  if (command.program != nullptr) {
    deferred->detail = command.program->program.detail;
    deferred->stack = command.program->program.stack;
  }
  auto root = std::make_shared<Root>();
  root->error = std::move(deferred);
  return root;
}

Error SessionImpl::CheckError(const Command& command) const {
  const std::vector<CheckSpec>& checks = command.program->program.checks;
  const int64_t number = command.check[0];
  if (number < 1 || number > static_cast<int64_t>(checks.size())) {
    return {absl::StatusCode::kInternal, ErrorKind::kRuntime,
            Cat("the Program reported check ", number, " of ", checks.size())};
  }
  const CheckSpec& spec = checks[number - 1];
  std::string message = spec.message;
  constexpr std::string_view kValue = "{value}";
  if (const size_t at = message.find(kValue); at != std::string::npos) {
    message.replace(at, kValue.size(), Cat(command.check[1]));
  }
  return {CodeOf(spec.kind), spec.kind, std::move(message)};
}

void SessionImpl::Fail(Command* command, const RootPtr& root) {
  if (root->error->seq == command->seq) errors_total_.Add(1);
  for (const VersionPtr& output : command->outputs) output->Fail(root);
  if (command->failed != nullptr) *command->failed = 1;
  const bool reader = command->kind == Command::Kind::kRead;
  const bool changed = reader ? errors_.Raise(root, command->stream, command->device, command->seq)
                              : errors_.Note(root, command->stream, command->device, command->seq);
  if (changed) TellUnreported();
  if (root->reported) {  // the client knows: no Buffer stays behind the error
    for (const VersionPtr& output : command->outputs) RevertBuffer(*output);
  }
  Retire(command);
}

void SessionImpl::Retire(Command* command) {
  if (!command->retired) {
    if (command->has_ticket) {
      progress_->Retire(command->stream, command->ticket);
    } else {
      progress_->RetireNow(command->stream, command->seq);
    }
  }
  if (spare_.size() < static_cast<size_t>(kSpareCommandsMax)) {
    command->Reset();
    spare_.emplace_back(command);
  } else {
    delete command;
  }
}

void SessionImpl::Pump() {
  for (Command* command : progress_->TakePosted()) Finish(command);
  SettleUndetermined();
  RunQueues();
}

void SessionImpl::SettleUndetermined() {
  while (!undetermined_.empty()) {
    std::vector<Command*> open = std::exchange(undetermined_, {});
    for (Command* command : open) FinishFailed(command);
    if (undetermined_.size() == open.size()) return;
  }
}

}  // namespace neurond
