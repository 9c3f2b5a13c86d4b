#include "runtime/stream/command.h"

#include <utility>

namespace neurond {

void Command::Reset() {
  inputs.clear();
  outputs.clear();
  program = nullptr;
  words.clear();
  awaited_try = 0;
  results.clear();
  check[0] = check[1] = 0;
  destination = nullptr;
  failed = nullptr;
  source.reset();
  block.Reset();
  patch.Reset();
  needs_owner = false;
  tells_owner = false;
  has_ticket = false;
  retired = false;
  progress.reset();
  gate = nullptr;
  if (!error.ok()) error = Error{};
  if (!check_error.ok()) check_error = Error{};
}

void Command::GiveBack() {
  if (pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // The owner let go of it: this thread finishes it.
  const std::shared_ptr<Progress> shared = progress;
  shared->Finished();
  if (needs_owner || !error.ok() || !check_error.ok()) {
    shared->Post(this);
    return;
  }
  if (!tells_owner) {  // before anyone hears of it: the next writer may then donate what was read
    source.reset();
    inputs.clear();
  }
  shared->Retire(stream, ticket);
  if (tells_owner) {
    retired = true;
    shared->Post(this);
  } else {
    delete this;
  }
}

void Command::OnExecuted(Error result) {
  if (!result.ok()) error = std::move(result);
  Device* const device = gate;
  GiveBack();  // first: a client may wait for it
  device->Leave();
}

void Command::OnChecked(Error result) {
  if (!result.ok()) check_error = std::move(result);
  GiveBack();
}

void Command::OnReadable(Error result) {
  if (!result.ok()) {
    error = std::move(result);
    GiveBack();
    return;
  }
  // The destination is the client's memory, valid only while the Session lives.
  if (!progress->BeginAccess()) {
    GiveBack();
    return;
  }
  const absl::Status status =
      gate->plugin().Download(*source, offset, bytes, destination, [this](Error error) {
        progress->EndAccess();
        OnTransferred(std::move(error));
      });
  if (!status.ok()) {
    progress->EndAccess();
    OnTransferred(Error::From(status));
  }
}

void Command::OnTransferred(Error result) {
  if (!result.ok()) error = std::move(result);
  GiveBack();
}

}  // namespace neurond
