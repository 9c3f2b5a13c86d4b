#include "server/grpc/remote_execution.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond {
namespace {

constexpr int kStream = 0;  // the default stream of the session's only device
constexpr int kDevice = 0;

TensorType FlatType(const BufferSpec& spec) { return {spec.dtype, {spec.elements}}; }

absl::Status FromDeferred(const DeferredError& error) {
  std::string text = Cat(error.op, ": ", error.error.message);
  if (!error.detail.empty()) Append(text, " [inputs ", error.detail, "]");
  return absl::Status(error.error.code, text);
}

}  // namespace

int64_t TensorBytes(const TensorType& type) { return type.Elements() * DTypeBytes(type.dtype); }

RemoteSignature SignatureOf(const Program& program) {
  RemoteSignature signature;
  signature.word_count = program.word_count;
  if (program.declared.has_value()) {
    signature.inputs = program.declared->inputs;
    signature.outputs = program.declared->outputs;
    return signature;
  }
  for (const BufferSpec& spec : program.buffers) signature.inputs.push_back(FlatType(spec));
  for (const BufferSpec& spec : program.created) signature.outputs.push_back(FlatType(spec));
  for (const int slot : program.written) {
    signature.outputs.push_back(FlatType(program.buffers[slot]));
  }
  return signature;
}

RemoteExecution::RemoteExecution(const DaemonState& state, StoredProgramPtr program, int device,
                                 std::function<bool()> cancelled, std::function<void()> cancel)
    : state_(state),
      stored_(std::move(program)),
      program_(*stored_->program),
      device_(device),
      cancelled_(std::move(cancelled)),
      cancel_(std::move(cancel)),
      signature_(SignatureOf(program_)),
      id_(state.sessions->NewId()) {}

RemoteExecution::~RemoteExecution() {
  if (registered_) state_.sessions->Remove(id_);
}

absl::Status RemoteExecution::Begin() {
  SessionOptions options;
  options.id = id_;
  options.tag = Cat("grpc ", program_.name);
  options.devices = {device_};
  options.streams_max = 1;
  session_ = MakeSession(*state_.devices, *state_.programs, *this, options);
  registered_ = state_.sessions->Add(id_, this);
  if (!registered_) return absl::UnavailableError("the daemon is ending");
  return AllocInputs();
}

absl::Status RemoteExecution::AllocInputs() {
  int64_t bytes = 0;
  for (const auto* types : {&signature_.inputs, &signature_.outputs}) {
    for (const TensorType& type : *types) {
      if (__builtin_add_overflow(bytes, TensorBytes(type), &bytes)) {
        return absl::ResourceExhaustedError("tensors of more than 2^63 bytes");
      }
    }
  }
  const absl::StatusOr<Session::Grant> grant = session_->ChangeGrant(kDevice, bytes);
  if (!grant.ok()) return grant.status();
  // A declared tensor without elements takes no slot; its bytes are 0 and nothing is read or
  // written.
  const bool declared = program_.declared.has_value();
  for (const TensorType& type : signature_.inputs) {
    Slot slot{0, TensorBytes(type)};
    if (slot.bytes > 0 || !declared) {
      slot.buffer = ++last_buffer_;
      const absl::Status s = session_->Alloc(slot.buffer, type.dtype, type.Elements(), kDevice);
      if (!s.ok()) return s;
      program_inputs_.push_back(slot.buffer);
    }
    inputs_.push_back(slot);
  }
  const size_t created = signature_.outputs.size() - (declared ? 0 : program_.written.size());
  for (size_t i = 0; i < created; ++i) {
    Slot slot{0, TensorBytes(signature_.outputs[i])};
    if (slot.bytes > 0 || !declared) {
      slot.buffer = ++last_buffer_;
      program_outputs_.push_back(slot.buffer);
    }
    outputs_.push_back(slot);
  }
  if (!declared) {
    for (const int slot : program_.written) outputs_.push_back(inputs_[slot]);
  }
  return absl::OkStatus();
}

absl::Status RemoteExecution::WriteInput(int index, std::string_view bytes) {
  const int count = static_cast<int>(inputs_.size());
  if (index < 0 || index >= count) {
    return absl::InvalidArgumentError(Cat("input ", index, ": the program has ", count, " inputs"));
  }
  while (writing_ < index) {
    if (absl::Status s = CheckComplete(writing_); !s.ok()) return s;
    ++writing_;
    written_ = 0;
  }
  const int64_t size = static_cast<int64_t>(bytes.size());
  const Slot& slot = inputs_[index];
  if (index < writing_ || size > slot.bytes - written_) {
    return absl::InvalidArgumentError(
        Cat("input ", index, ": expected ", slot.bytes, " bytes, saw more"));
  }
  if (size == 0) return absl::OkStatus();
  if (signature_.inputs[index].dtype == DType::kBool &&
      std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; })) {
    return absl::InvalidArgumentError(
        Cat("input ", index, ": expected 0 or 1 in every bool, saw another byte"));
  }
  Session::WriteCommand write;
  write.seq = ++last_seq_;
  write.stream = kStream;
  write.buffer = slot.buffer;
  write.transfer = slot.buffer;
  write.data = bytes.data();
  write.bytes = size;
  write.buffer_offset = written_;
  write.total_bytes = slot.bytes;
  written_ += size;
  write.last = written_ == slot.bytes;
  return session_->Write(write);
}

absl::Status RemoteExecution::CheckComplete(int index) const {
  const int64_t seen = index == writing_ ? written_ : index < writing_ ? inputs_[index].bytes : 0;
  if (seen == inputs_[index].bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("input ", index, ": expected ", inputs_[index].bytes, " bytes, saw ", seen));
}

absl::Status RemoteExecution::Run(std::span<const int64_t> words) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (absl::Status s = CheckComplete(static_cast<int>(i)); !s.ok()) return s;
  }
  if (static_cast<int>(words.size()) != signature_.word_count) {
    return absl::InvalidArgumentError(
        Cat("words: expected ", signature_.word_count, ", saw ", words.size()));
  }
  Session::ExecuteCommand execute;
  execute.seq = ++last_seq_;
  execute.stream = kStream;
  execute.program = stored_->id;
  execute.inputs = program_inputs_;
  execute.outputs = program_outputs_;
  execute.words = words;
  if (absl::Status s = session_->Execute(execute); !s.ok()) return s;
  if (absl::Status s = WaitFor(last_seq_, /*may_stop=*/true); !s.ok()) return s;
  if (const DeferredErrorPtr error = session_->TakeError(kStream, -1, last_seq_)) {
    return FromDeferred(*error);
  }
  return absl::OkStatus();
}

absl::Status RemoteExecution::ReadOutput(int index, int64_t offset, std::span<char> destination) {
  if (destination.empty()) return absl::OkStatus();
  Session::ReadCommand read;
  read.seq = ++last_seq_;
  read.stream = kStream;
  read.buffer = outputs_[index].buffer;
  read.destination = destination.data();
  read.bytes = static_cast<int64_t>(destination.size());
  read.buffer_offset = offset;
  if (absl::Status s = session_->Read(read); !s.ok()) return s;
  // Not to be abandoned: the plugin writes to `destination`. The content is there, so this is
  // short.
  if (absl::Status s = WaitFor(last_seq_, /*may_stop=*/false); !s.ok()) return s;
  if (const DeferredErrorPtr error = session_->TakeError(kStream, -1, last_seq_)) {
    return FromDeferred(*error);
  }
  return absl::OkStatus();
}

absl::Status RemoteExecution::WaitFor(uint64_t seq, bool may_stop) {
  while (true) {
    session_->Pump();
    std::unique_lock lock(mutex_);
    if (completed_seq_ >= seq) return absl::OkStatus();
    changed_.wait_for(lock, std::chrono::milliseconds(kGrpcPollMs), [&] {
      return woken_ || completed_seq_ >= seq || (may_stop && !closed_.empty());
    });
    woken_ = false;
    if (!may_stop) continue;
    if (!closed_.empty()) return absl::AbortedError(closed_);
    lock.unlock();
    if (cancelled_()) return absl::CancelledError("the call was cancelled");
  }
}

void RemoteExecution::OnCompleted(int, uint64_t seq) {
  std::lock_guard lock(mutex_);
  completed_seq_ = std::max(completed_seq_, seq);
  changed_.notify_all();
}

void RemoteExecution::Wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

SessionCounters RemoteExecution::Counters() const { return session_->Counters(); }

void RemoteExecution::Close(const std::string& reason) {
  std::lock_guard lock(mutex_);
  closed_ = Cat("session ", id_, ": ", reason);
  changed_.notify_all();
  if (waits_for_client_) cancel_();
}

void RemoteExecution::SetWaiting(bool waiting) {
  std::lock_guard lock(mutex_);
  waits_for_client_ = waiting;
  if (waiting && !closed_.empty()) cancel_();
}

absl::Status RemoteExecution::CheckOpen() {
  std::lock_guard lock(mutex_);
  return closed_.empty() ? absl::OkStatus() : absl::AbortedError(closed_);
}

}  // namespace neurond
