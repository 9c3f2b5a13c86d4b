// The submission ring as a hostile client could fill it: the first 8 bytes choose `head`, the rest
// is the ring's data (and, for large records, staging). Everything that comes out must lie within
// what was copied.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "server/wire/ring_decoder.h"
#include "server/wire/ring_reader.h"

namespace {

using neurond::wire::DecodeRecord;
using neurond::wire::Execute;
using neurond::wire::FreeMany;
using neurond::wire::Record;
using neurond::wire::RingReader;

constexpr size_t kInputBytesMax = 64 << 10;

uint64_t sink;

template <class T>
void Touch(std::span<const T> values) {
  for (T value : values) sink += static_cast<uint64_t>(value);
}

void Check(bool condition) {
  if (!condition) std::abort();
}

void Use(RingReader& reader, const std::byte* staging, std::span<const std::byte> bytes, int depth);

void Visit(RingReader& reader, const std::byte* staging, const Record& record, int depth) {
  namespace ring = neurond::ring;
  if (const auto* execute = std::get_if<Execute>(&record)) {
    Touch(execute->inputs);
    Touch(execute->outputs);
    Touch(execute->words);
  } else if (const auto* many = std::get_if<FreeMany>(&record)) {
    Touch(many->buffers);
  } else if (const auto* write = std::get_if<ring::WriteRecord>(&record)) {
    Check(write->staging_offset + write->bytes <= ring::kStagingBytes);
  } else if (const auto* read = std::get_if<ring::ReadRecord>(&record)) {
    Check(read->staging_offset + ring::ReadStatusOffset(read->bytes) + 8 <= ring::kStagingBytes);
  } else if (const auto* large = std::get_if<ring::LargeRecord>(&record)) {
    // Nothing but zeros lies beyond the input; copying 16 MiB of them would be all that is done.
    if (large->record_bytes > kInputBytesMax) return;
    auto inner = reader.CopyLarge(*large, staging);
    if (inner.ok()) Use(reader, staging, *inner, depth + 1);
  }
}

void Use(RingReader& reader, const std::byte* staging, std::span<const std::byte> bytes,
         int depth) {
  Check(depth <= 1);
  auto record = DecodeRecord(bytes);
  if (record.ok()) Visit(reader, staging, *record, depth);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Static: 4 MiB and 256 MiB that only a few bytes of are ever touched.
  static std::vector<std::byte> ring(neurond::ring::kRingBytes);
  static auto* staging = static_cast<std::byte*>(std::calloc(neurond::ring::kStagingBytes, 1));
  if (size < 8) return 0;
  uint64_t head;
  std::memcpy(&head, data, 8);
  data += 8;
  size = std::min(size - 8, kInputBytesMax);
  std::memcpy(ring.data(), data, size);
  std::memcpy(staging, data, size);
  RingReader reader(ring.data());
  for (;;) {
    auto bytes = reader.Next(head);
    if (!bytes.ok() || bytes->empty()) break;
    Use(reader, staging, *bytes, 0);
  }
  std::memset(ring.data(), 0, size);
  std::memset(staging, 0, size);
  return 0;
}
