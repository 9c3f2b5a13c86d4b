// Submission: what a Command names is checked completely, then Versions are captured and made.
// Nothing half-submitted is left behind.

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/session/session_impl.h"

namespace neurond {
namespace {

absl::Status CheckBounds(const Program& program, std::span<const int64_t> words) {
  for (const OffsetBound& bound : program.bounds) {
    const int64_t offset = words[bound.word];
    if (offset < 0 || offset > bound.elements - bound.span) {
      return absl::InvalidArgumentError(Cat(program.name, ": offset ", offset, " with a span of ",
                                            bound.span, " leaves a storage of ", bound.elements,
                                            " elements (buffer slot ", bound.buffer, ")"));
    }
  }
  return absl::OkStatus();
}

std::string Describe(const BufferSpec& spec) {
  return Cat(TorchName(spec.dtype), "[", spec.elements, "]");
}

bool RangeOk(int64_t offset, int64_t bytes, int64_t total) {
  return offset >= 0 && bytes >= 0 && offset <= total && bytes <= total - offset;
}

}  // namespace

absl::Status SessionImpl::CheckStream(int stream, uint64_t seq) {
  if (stream < 0 || stream >= options_.streams_max || devices_.empty()) {
    return absl::InvalidArgumentError(
        Cat("no stream ", stream, ": a session has ", options_.streams_max));
  }
  newest_seq_ = std::max(newest_seq_, seq);
  return absl::OkStatus();
}

absl::StatusOr<Buffer*> SessionImpl::Need(uint64_t id) {
  Buffer* buffer = buffers_.Find(id);
  if (buffer == nullptr) return absl::NotFoundError(Cat("no Buffer ", id));
  return buffer;
}

SessionProgram* SessionImpl::FindProgram(uint64_t id) {
  auto it = program_table_.find(id);
  if (it != program_table_.end()) return it->second.get();
  StoredProgramPtr stored = programs_.Find(id);
  if (stored == nullptr) return nullptr;
  return (program_table_[id] = std::make_unique<SessionProgram>(std::move(stored))).get();
}

VersionPtr SessionImpl::Next(uint64_t id, Buffer& buffer) {
  return buffer.current = std::make_shared<Version>(id, std::move(buffer.current));
}

absl::StatusOr<DeviceBufferPtr> SessionImpl::Zeros(Device& device, const Buffer& buffer) {
  static constexpr char kZeros[kAdoptBytesMin] = {};
  const int64_t bytes = buffer.bytes();
  if (bytes <= static_cast<int64_t>(sizeof(kZeros))) {
    return device.plugin().Upload(device.index(), buffer.dtype, buffer.elements, kZeros);
  }
  HostBlock block = blocks_->Take(bytes);
  if (!block) return absl::ResourceExhaustedError(Cat("no host memory for ", bytes, " bytes"));
  std::memset(block.data(), 0, static_cast<size_t>(bytes));
  void* const data = block.data();
  return device.plugin().Adopt(device.index(), buffer.dtype, buffer.elements, data,
                               block.Release());
}

VersionPtr SessionImpl::Current(uint64_t id, Buffer& buffer) {
  if (buffer.current != nullptr) return buffer.current;
  Device& where = device(buffer.device);
  auto version = std::make_shared<Version>(id, nullptr);
  if (absl::StatusOr<DeviceBufferPtr> zeros = Zeros(where, buffer); zeros.ok()) {
    version->Bind(*std::move(zeros), true);
    version->Charge(where, buffer.bytes());
  } else {
    Command at;  // the error belongs to whoever touched the Buffer first
    at.seq = newest_seq_;
    at.device = buffer.device;
    version->Fail(NewRoot(at, Error::From(zeros.status())));
  }
  return buffer.current = std::move(version);
}

absl::StatusOr<int> SessionImpl::CheckExecute(const SessionProgram& from,
                                              const ExecuteCommand& command) {
  const Program& program = from.program;
  if (command.inputs.size() != program.buffers.size() ||
      command.outputs.size() != program.created.size() ||
      static_cast<int64_t>(command.words.size()) != program.word_count) {
    return absl::InvalidArgumentError(
        Cat(program.name, ": expected ", program.buffers.size(), " inputs, ",
            program.created.size(), " outputs and ", program.word_count, " words, got ",
            command.inputs.size(), ", ", command.outputs.size(), " and ", command.words.size()));
  }
  if (absl::Status status = CheckBounds(program, command.words); !status.ok()) return status;
  int device = -1;
  slots_.clear();
  for (size_t i = 0; i < command.inputs.size(); ++i) {
    Buffer* buffer = buffers_.Find(command.inputs[i]);
    if (buffer == nullptr) {
      return absl::NotFoundError(Cat(program.name, ": no Buffer ", command.inputs[i]));
    }
    const BufferSpec& spec = program.buffers[i];
    if (buffer->dtype != spec.dtype || buffer->elements != spec.elements) {
      return absl::InvalidArgumentError(Cat(program.name, ": expected ", Describe(spec),
                                            " in buffer slot ", i, ", got ",
                                            Describe({buffer->dtype, buffer->elements})));
    }
    if (device >= 0 && buffer->device != device) {
      return absl::InvalidArgumentError(
          Cat(program.name, ": inputs on neuron:", device, " and neuron:", buffer->device));
    }
    device = buffer->device;
    slots_.push_back(buffer);
  }
  for (int slot : program.written) {
    if (slots_[slot]->written_seq == command.seq) {
      return absl::InvalidArgumentError(
          Cat(program.name, ": Buffer ", command.inputs[slot], " would be written twice"));
    }
    slots_[slot]->written_seq = command.seq;
  }
  new_ids_.assign(command.outputs.begin(), command.outputs.end());
  std::sort(new_ids_.begin(), new_ids_.end());
  for (size_t i = 0; i < new_ids_.size(); ++i) {
    const uint64_t id = new_ids_[i];
    if (buffers_.Find(id) != nullptr || (i > 0 && new_ids_[i - 1] == id)) {
      return absl::AlreadyExistsError(Cat(program.name, ": Buffer ", id, " exists already"));
    }
  }
  if (buffers_.count() + static_cast<int64_t>(command.outputs.size()) > kSessionBuffersMax) {
    return absl::ResourceExhaustedError(
        Cat("a session may hold ", kSessionBuffersMax, " Buffers at once"));
  }
  return device >= 0 ? device : command.stream % static_cast<int>(devices_.size());
}

void SessionImpl::CaptureExecute(const ExecuteCommand& from, Command& command) {
  const Program& program = command.program->program;
  for (int slot : program.parameters) {
    command.inputs.push_back(Current(from.inputs[slot], *slots_[slot]));
  }
  command.outputs.resize(program.created.size());
  for (int slot : program.written) {
    command.outputs.push_back(Next(from.inputs[slot], *slots_[slot]));
  }
  // Adding Buffers moves the table, so slots_ is not used from here on.
  for (size_t i = 0; i < program.created.size(); ++i) {
    Buffer made;
    made.dtype = program.created[i].dtype;
    made.elements = program.created[i].elements;
    made.device = command.device;
    command.outputs[i] = Next(from.outputs[i], made);
    buffers_.Add(from.outputs[i], std::move(made)).IgnoreError();  // checked before
  }
  command.words.assign(from.words.begin(), from.words.end());
}

absl::Status SessionImpl::Execute(const ExecuteCommand& command) {
  if (absl::Status status = CheckStream(command.stream, command.seq); !status.ok()) return status;
  SessionProgram* program = FindProgram(command.program);
  if (program == nullptr) return absl::NotFoundError(Cat("no Program ", command.program));
  absl::StatusOr<int> device = CheckExecute(*program, command);
  if (!device.ok()) return device.status();
  if (absl::Status status = buffers_.Reserve(*device, program->created_bytes); !status.ok()) {
    return status;
  }
  CommandPtr made =
      NewCommand(Command::Kind::kExecute, command.stream, *device, command.seq, command.origin);
  made->program = program;
  CaptureExecute(command, *made);
  executes_.Add(1);
  // A compile that failed for a reason that may not repeat gets another chance.
  if (program->executable != nullptr && program->executable->loaded() == nullptr &&
      program->executable->resolved()) {
    program->executable->Retry();
  }
  Submit(std::move(made));
  return absl::OkStatus();
}

absl::StatusOr<SessionImpl::Transfer*> SessionImpl::Chunk(const WriteCommand& command,
                                                          const Buffer& buffer) {
  auto it = transfers_.find(command.transfer);
  if (it == transfers_.end()) {
    if (!RangeOk(command.buffer_offset, command.total_bytes, buffer.bytes()) ||
        command.total_bytes == 0) {
      return absl::InvalidArgumentError(Cat("a Write of ", command.total_bytes, " bytes at ",
                                            command.buffer_offset, " leaves Buffer ",
                                            command.buffer, " of ", buffer.bytes(), " bytes"));
    }
    if (static_cast<int>(transfers_.size()) >= kSessionTransfersMax) {
      return absl::ResourceExhaustedError(
          Cat("a session may have ", kSessionTransfersMax, " Writes under way"));
    }
    Transfer transfer;
    transfer.buffer = command.buffer;
    transfer.start = command.buffer_offset;
    transfer.total = command.total_bytes;
    transfer.block = blocks_->Take(command.total_bytes);
    if (!transfer.block) {
      return absl::ResourceExhaustedError(
          Cat("no host memory for a Write of ", command.total_bytes, " bytes"));
    }
    it = transfers_.emplace(command.transfer, std::move(transfer)).first;
  }
  Transfer& transfer = it->second;
  if (command.buffer != transfer.buffer || command.total_bytes != transfer.total ||
      command.buffer_offset != transfer.start + transfer.received ||
      !RangeOk(transfer.received, command.bytes, transfer.total) ||
      command.last != (transfer.received + command.bytes == transfer.total)) {
    transfers_.erase(it);
    return absl::InvalidArgumentError(
        Cat("transfer ", command.transfer, ": chunks must follow each other without a gap"));
  }
  std::memcpy(transfer.block.data() + transfer.received, command.data,
              static_cast<size_t>(command.bytes));
  transfer.received += command.bytes;
  return &transfer;
}

absl::Status SessionImpl::Write(const WriteCommand& command) {
  if (absl::Status status = CheckStream(command.stream, command.seq); !status.ok()) return status;
  absl::StatusOr<Buffer*> buffer = Need(command.buffer);
  if (!buffer.ok()) {
    transfers_.erase(command.transfer);
    return buffer.status();
  }
  absl::StatusOr<Transfer*> transfer = Chunk(command, **buffer);
  if (!transfer.ok()) return transfer.status();
  bytes_written_.Add(command.bytes);
  if (!command.last) {
    progress_->RetireNow(command.stream, command.seq);
    return absl::OkStatus();
  }
  Transfer whole = std::move(**transfer);
  transfers_.erase(command.transfer);
  writes_.Add(1);
  const bool replaces = whole.total == (*buffer)->bytes();
  CommandPtr made = NewCommand(replaces ? Command::Kind::kWrite : Command::Kind::kPatch,
                               command.stream, (*buffer)->device, command.seq, command.origin);
  if (replaces) {
    made->outputs.push_back(Next(command.buffer, **buffer));
    RunWrite(std::move(made), **buffer, std::move(whole.block));
    return absl::OkStatus();
  }
  made->inputs.push_back(Current(command.buffer, **buffer));
  made->outputs.push_back(Next(command.buffer, **buffer));
  made->patch = std::move(whole.block);
  made->offset = whole.start;
  made->bytes = whole.total;
  Submit(std::move(made));
  return absl::OkStatus();
}

absl::Status SessionImpl::Read(const ReadCommand& command) {
  if (absl::Status status = CheckStream(command.stream, command.seq); !status.ok()) return status;
  absl::StatusOr<Buffer*> buffer = Need(command.buffer);
  if (!buffer.ok()) return buffer.status();
  if (!RangeOk(command.buffer_offset, command.bytes, (*buffer)->bytes())) {
    return absl::InvalidArgumentError(Cat("a Read of ", command.bytes, " bytes at ",
                                          command.buffer_offset, " leaves Buffer ", command.buffer,
                                          " of ", (*buffer)->bytes(), " bytes"));
  }
  reads_.Add(1);
  bytes_read_.Add(command.bytes);
  if ((*buffer)->current == nullptr) {  // zeros, without making them on the device
    std::memset(command.destination, 0, static_cast<size_t>(command.bytes));
    progress_->RetireNow(command.stream, command.seq);
    return absl::OkStatus();
  }
  CommandPtr made = NewCommand(Command::Kind::kRead, command.stream, (*buffer)->device, command.seq,
                               command.origin);
  made->inputs.push_back((*buffer)->current);
  made->destination = command.destination;
  made->failed = command.failed;
  made->bytes = command.bytes;
  made->offset = command.buffer_offset;
  Submit(std::move(made));
  return absl::OkStatus();
}

absl::Status SessionImpl::Copy(uint64_t seq, int stream, uint64_t source, uint64_t destination,
                               uint64_t origin) {
  if (absl::Status status = CheckStream(stream, seq); !status.ok()) return status;
  absl::StatusOr<Buffer*> from = Need(source);
  if (!from.ok()) return from.status();
  absl::StatusOr<Buffer*> to = Need(destination);
  if (!to.ok()) return to.status();
  if ((*from)->dtype != (*to)->dtype || (*from)->elements != (*to)->elements) {
    return absl::InvalidArgumentError(Cat("a Copy from ",
                                          Describe({(*from)->dtype, (*from)->elements}), " to ",
                                          Describe({(*to)->dtype, (*to)->elements})));
  }
  copies_.Add(1);
  CommandPtr made = NewCommand(Command::Kind::kCopy, stream, (*to)->device, seq, origin);
  made->inputs.push_back(Current(source, **from));
  made->outputs.push_back(Next(destination, **to));
  made->bytes = (*to)->bytes();
  Submit(std::move(made));
  return absl::OkStatus();
}

absl::Status SessionImpl::Wait(uint64_t seq, int stream, int other_stream, uint64_t other_seq) {
  if (absl::Status status = CheckStream(stream, seq); !status.ok()) return status;
  if (other_stream < 0 || other_stream >= options_.streams_max || other_seq >= seq) {
    return absl::InvalidArgumentError(
        Cat("Command ", seq, " cannot wait for Command ", other_seq, " of stream ", other_stream));
  }
  CommandPtr made =
      NewCommand(Command::Kind::kWait, stream, stream % static_cast<int>(devices_.size()), seq, 0);
  made->other_stream = other_stream;
  made->other_seq = other_seq;
  Submit(std::move(made));
  return absl::OkStatus();
}

}  // namespace neurond
