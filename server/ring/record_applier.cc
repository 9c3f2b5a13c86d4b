#include "server/ring/record_applier.h"

#include <cstring>

#include "runtime/base/text.h"

namespace neurond::ring {

absl::Status RecordApplier::Apply(std::span<const std::byte> bytes) {
  absl::StatusOr<wire::Record> record = wire::DecodeRecord(bytes);
  if (!record.ok()) return record.status();
  absl::Status status = std::visit([this](const auto& r) { return On(r); }, *record);
  if (status.ok()) return status;
  RecordHeader h;
  std::memcpy(&h, bytes.data(), sizeof(h));
  return absl::Status(status.code(), Cat(wire::RecordName(h.type), " record, seq ", h.seq, ": ",
                                         std::string(status.message())));
}

absl::Status RecordApplier::On(const AllocRecord& r) {
  absl::Status status = session_.Alloc(r.buffer, static_cast<neurond::DType>(r.dtype),
                                       static_cast<int64_t>(r.elements), r.device);
  session_.Retire(r.h.seq, r.h.stream);
  return status;
}

absl::Status RecordApplier::On(const FreeRecord& r) {
  absl::Status status = session_.Free(r.buffer);
  session_.Retire(r.h.seq, r.h.stream);
  return status;
}

absl::Status RecordApplier::On(const wire::FreeMany& r) {
  for (uint64_t buffer : r.buffers) {
    if (absl::Status status = session_.Free(buffer); !status.ok()) return status;
  }
  session_.Retire(r.h.seq, r.h.stream);
  return absl::OkStatus();
}

absl::Status RecordApplier::On(const wire::Execute& r) {
  Session::ExecuteCommand command;
  command.seq = r.fixed.h.seq;
  command.stream = r.fixed.h.stream;
  command.program = r.fixed.program;
  command.origin = r.fixed.origin;
  command.inputs = r.inputs;
  command.outputs = r.outputs;
  command.words = r.words;
  return session_.Execute(command);
}

absl::Status RecordApplier::On(const WriteRecord& r) {
  Session::WriteCommand command;
  command.seq = r.h.seq;
  command.stream = r.h.stream;
  command.buffer = r.buffer;
  command.transfer = r.transfer;
  command.data = staging_ + r.staging_offset;
  command.bytes = static_cast<int64_t>(r.bytes);
  command.buffer_offset = static_cast<int64_t>(r.buffer_offset);
  command.total_bytes = static_cast<int64_t>(r.total_bytes);
  command.last = (r.flags & kLastChunk) != 0;
  command.origin = r.origin;
  return session_.Write(command);
}

absl::Status RecordApplier::On(const ReadRecord& r) {
  Session::ReadCommand command;
  command.seq = r.h.seq;
  command.stream = r.h.stream;
  command.buffer = r.buffer;
  command.destination = staging_ + r.staging_offset;
  command.bytes = static_cast<int64_t>(r.bytes);
  command.buffer_offset = static_cast<int64_t>(r.buffer_offset);
  command.origin = r.origin;
  command.failed =
      reinterpret_cast<uint64_t*>(staging_ + r.staging_offset + ReadStatusOffset(r.bytes));
  *command.failed = 0;
  return session_.Read(command);
}

absl::Status RecordApplier::On(const CopyRecord& r) {
  return session_.Copy(r.h.seq, r.h.stream, r.source, r.destination, r.origin);
}

absl::Status RecordApplier::On(const EventRecord& r) {
  return session_.RecordEvent(r.h.seq, r.h.stream, r.event);
}

absl::Status RecordApplier::On(const WaitRecord& r) {
  return session_.Wait(r.h.seq, r.h.stream, r.other_stream, r.seq);
}

absl::Status RecordApplier::On(const LargeRecord& r) {
  absl::StatusOr<std::span<const std::byte>> inner = reader_.CopyLarge(r, staging_);
  if (!inner.ok()) return inner.status();
  return Apply(*inner);
}

}  // namespace neurond::ring
