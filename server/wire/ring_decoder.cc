#include "server/wire/ring_decoder.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/base/text.h"

namespace neurond::wire {
namespace {

using ring::RecordHeader;
using ring::RecordType;

constexpr uint64_t kInt64Max = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

absl::Status Malformed(const RecordHeader& h, std::string_view what) {
  return absl::InvalidArgumentError(
      Cat("malformed ", RecordName(h.type), " record, seq ", h.seq, ": ", what));
}

template <class T>
absl::StatusOr<T> Fixed(std::span<const std::byte> bytes, const RecordHeader& h) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != sizeof(T)) {
    return Malformed(h, Cat("expected ", sizeof(T), " bytes, got ", bytes.size()));
  }
  T record;
  std::memcpy(&record, bytes.data(), sizeof(T));
  return record;
}

bool InStaging(uint64_t offset, uint64_t bytes) {
  return offset <= ring::kStagingBytes && bytes <= ring::kStagingBytes - offset;
}

template <class T>
std::span<const T> Words(std::span<const std::byte> bytes, uint64_t offset, uint64_t count) {
  return {reinterpret_cast<const T*>(bytes.data() + offset), count};
}

absl::StatusOr<Record> DecodeAlloc(std::span<const std::byte> bytes, const RecordHeader& h) {
  auto record = Fixed<ring::AllocRecord>(bytes, h);
  if (!record.ok()) return record.status();
  if (record->dtype == 0 || record->dtype > static_cast<uint8_t>(ring::DType::kC128)) {
    return Malformed(h, Cat("unknown element type ", record->dtype));
  }
  if (record->elements == 0 || record->elements > kInt64Max) {
    return Malformed(h, Cat("expected a positive element count, got ", record->elements));
  }
  return Record(*record);
}

absl::StatusOr<Record> DecodeFreeMany(std::span<const std::byte> bytes, const RecordHeader& h) {
  if (bytes.size() < sizeof(ring::FreeManyRecord))
    return Malformed(h, "shorter than its fixed part");
  ring::FreeManyRecord fixed;
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (bytes.size() != sizeof(fixed) + uint64_t{8} * fixed.count) {
    return Malformed(h, Cat(fixed.count, " ids do not fill ", bytes.size(), " bytes"));
  }
  return Record(FreeMany{h, Words<uint64_t>(bytes, sizeof(fixed), fixed.count)});
}

absl::StatusOr<Record> DecodeExecute(std::span<const std::byte> bytes, const RecordHeader& h) {
  Execute record;
  if (bytes.size() < sizeof(record.fixed)) return Malformed(h, "shorter than its fixed part");
  std::memcpy(&record.fixed, bytes.data(), sizeof(record.fixed));
  const uint64_t inputs = record.fixed.input_count, outputs = record.fixed.output_count,
                 words = record.fixed.word_count;
  if (bytes.size() != sizeof(record.fixed) + 8 * (inputs + outputs + words)) {
    return Malformed(h, Cat(inputs, " inputs, ", outputs, " outputs and ", words,
                            " words do not fill ", bytes.size(), " bytes"));
  }
  const uint64_t at = sizeof(record.fixed);
  record.inputs = Words<uint64_t>(bytes, at, inputs);
  record.outputs = Words<uint64_t>(bytes, at + 8 * inputs, outputs);
  record.words = Words<int64_t>(bytes, at + 8 * (inputs + outputs), words);
  return Record(record);
}

absl::StatusOr<Record> DecodeWrite(std::span<const std::byte> bytes, const RecordHeader& h) {
  auto record = Fixed<ring::WriteRecord>(bytes, h);
  if (!record.ok()) return record.status();
  const ring::WriteRecord& r = *record;
  if (r.bytes == 0 || !InStaging(r.staging_offset, r.bytes)) {
    return Malformed(h, Cat("staging range ", r.staging_offset, " +", r.bytes));
  }
  if (r.total_bytes > kInt64Max || r.bytes > r.total_bytes ||
      r.buffer_offset > kInt64Max - r.total_bytes) {
    return Malformed(
        h, Cat(r.bytes, " bytes at ", r.buffer_offset, " of a transfer of ", r.total_bytes));
  }
  if ((r.flags & ~ring::kLastChunk) != 0) return Malformed(h, Cat("unknown flags ", r.flags));
  return Record(r);
}

absl::StatusOr<Record> DecodeRead(std::span<const std::byte> bytes, const RecordHeader& h) {
  auto record = Fixed<ring::ReadRecord>(bytes, h);
  if (!record.ok()) return record.status();
  const ring::ReadRecord& r = *record;
  if (r.bytes == 0 || r.bytes > ring::kStagingBytes ||
      !InStaging(r.staging_offset, ring::ReadStatusOffset(r.bytes) + sizeof(uint64_t))) {
    return Malformed(h, Cat("staging range ", r.staging_offset, " +", r.bytes, " and status"));
  }
  if (r.staging_offset % 8 != 0) {
    return Malformed(h, Cat("staging offset ", r.staging_offset, " is no multiple of 8"));
  }
  if (r.buffer_offset > kInt64Max - r.bytes) {
    return Malformed(h, Cat("buffer offset ", r.buffer_offset));
  }
  return Record(r);
}

absl::StatusOr<Record> DecodeWait(std::span<const std::byte> bytes, const RecordHeader& h) {
  auto record = Fixed<ring::WaitRecord>(bytes, h);
  if (!record.ok()) return record.status();
  if (record->other_stream >= ring::kStreamsMax) {
    return Malformed(h, Cat("stream ", record->other_stream, " is out of range"));
  }
  return Record(*record);
}

absl::StatusOr<Record> DecodeLarge(std::span<const std::byte> bytes, const RecordHeader& h) {
  auto record = Fixed<ring::LargeRecord>(bytes, h);
  if (!record.ok()) return record.status();
  if (record->record_bytes < sizeof(RecordHeader) || record->record_bytes % 8 != 0 ||
      record->record_bytes > ring::kLargeRecordBytesMax ||
      !InStaging(record->staging_offset, record->record_bytes)) {
    return Malformed(h, Cat("staging range ", record->staging_offset, " +", record->record_bytes));
  }
  return Record(*record);
}

template <class T>
absl::StatusOr<Record> DecodePlain(std::span<const std::byte> bytes, const RecordHeader& h) {
  auto record = Fixed<T>(bytes, h);
  if (!record.ok()) return record.status();
  return Record(*record);
}

}  // namespace

std::string RecordName(uint16_t type) {
  static constexpr std::string_view kNames[] = {
      "",     "Pad",    "Alloc", "Free",  "Execute",  "Write",     "Read",
      "Copy", "Record", "Wait",  "Large", "FreeMany", "Collective"};
  if (type == 0 || type >= std::size(kNames)) return Cat("type ", type);
  return std::string(kNames[type]);
}

absl::StatusOr<Record> DecodeRecord(std::span<const std::byte> bytes) {
  RecordHeader h{};
  if (bytes.size() < sizeof(h)) return absl::InvalidArgumentError("a record without a header");
  std::memcpy(&h, bytes.data(), sizeof(h));
  if (h.bytes != bytes.size()) {
    return Malformed(h, Cat("its header says ", h.bytes, " bytes, there are ", bytes.size()));
  }
  if (h.stream >= ring::kStreamsMax) {
    return Malformed(h, Cat("stream ", h.stream, " is out of range"));
  }
  switch (static_cast<RecordType>(h.type)) {
    case RecordType::kAlloc:
      return DecodeAlloc(bytes, h);
    case RecordType::kFree:
      return DecodePlain<ring::FreeRecord>(bytes, h);
    case RecordType::kFreeMany:
      return DecodeFreeMany(bytes, h);
    case RecordType::kExecute:
      return DecodeExecute(bytes, h);
    case RecordType::kWrite:
      return DecodeWrite(bytes, h);
    case RecordType::kRead:
      return DecodeRead(bytes, h);
    case RecordType::kCopy:
      return DecodePlain<ring::CopyRecord>(bytes, h);
    case RecordType::kRecord:
      return DecodePlain<ring::EventRecord>(bytes, h);
    case RecordType::kWait:
      return DecodeWait(bytes, h);
    case RecordType::kLarge:
      return DecodeLarge(bytes, h);
    case RecordType::kPad:
    case RecordType::kCollective:
      break;
  }
  return Malformed(h, "a record of this type is not accepted here");
}

}  // namespace neurond::wire
