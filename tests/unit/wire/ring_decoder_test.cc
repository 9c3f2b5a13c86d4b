#include "server/wire/ring_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

namespace neurond::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 8-byte aligned record bytes, as RingReader hands them out.
class Bytes {
 public:
  template <class T>
  explicit Bytes(const T& fixed) {
    Append(fixed);
  }
  template <class T>
  Bytes& Append(const T& value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), at, at + sizeof(value));
    return *this;
  }
  absl::StatusOr<Record> Decode() {
    words_.assign((bytes_.size() + 7) / 8, 0);
    const auto size = static_cast<uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &size, sizeof(size));
    std::memcpy(words_.data(), bytes_.data(), bytes_.size());
    return DecodeRecord(
        std::span(reinterpret_cast<const std::byte*>(words_.data()), bytes_.size()));
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<uint64_t> words_;
};

ring::RecordHeader Header(ring::RecordType type, uint16_t stream = 0) {
  return {0, static_cast<uint16_t>(type), stream, 7};
}

ring::WriteRecord GoodWrite() {
  ring::WriteRecord r{};
  r.h = Header(ring::RecordType::kWrite);
  r.buffer = 1;
  r.bytes = r.total_bytes = 64;
  r.flags = ring::kLastChunk;
  return r;
}

TEST(DecodeRecordTest, ExecuteGivesItsThreeLists) {
  ring::ExecuteRecord fixed{};
  fixed.h = Header(ring::RecordType::kExecute, 3);
  fixed.program = 9;
  fixed.input_count = 2;
  fixed.output_count = 1;
  fixed.word_count = 1;
  Bytes bytes(fixed);
  for (uint64_t value : {11, 12, 21, 31}) bytes.Append(value);
  auto record = bytes.Decode();
  ASSERT_TRUE(record.ok()) << record.status();
  const Execute& execute = std::get<Execute>(*record);
  EXPECT_EQ(execute.fixed.program, 9u);
  EXPECT_THAT(execute.inputs, ElementsAre(11, 12));
  EXPECT_THAT(execute.outputs, ElementsAre(21));
  EXPECT_THAT(execute.words, ElementsAre(31));
}

TEST(DecodeRecordTest, CountsThatDoNotFillTheRecordAreRefused) {
  ring::ExecuteRecord fixed{};
  fixed.h = Header(ring::RecordType::kExecute);
  fixed.input_count = fixed.output_count = fixed.word_count =
      0xffffffff;  // 3 * 8 * 2^32 does not wrap
  EXPECT_THAT(std::string(Bytes(fixed).Decode().status().message()), HasSubstr("do not fill"));
  ring::FreeManyRecord many{};
  many.h = Header(ring::RecordType::kFreeMany);
  many.count = 3;
  EXPECT_FALSE(Bytes(many).Append(uint64_t{1}).Append(uint64_t{2}).Decode().ok());
  many.count = 1;
  EXPECT_FALSE(Bytes(many).Append(uint64_t{1}).Append(uint64_t{2}).Decode().ok());
  many.count = 3;
  fixed.input_count = 1;
  fixed.output_count = fixed.word_count = 0;
  EXPECT_TRUE(Bytes(fixed).Append(uint64_t{1}).Decode().ok());
  EXPECT_FALSE(Bytes(fixed).Append(uint64_t{1}).Append(uint64_t{2}).Decode().ok());
  EXPECT_TRUE(
      Bytes(many).Append(uint64_t{1}).Append(uint64_t{2}).Append(uint64_t{3}).Decode().ok());
}

TEST(DecodeRecordTest, WriteMustLieWithinStagingAndItsTransfer) {
  ASSERT_TRUE(Bytes(GoodWrite()).Decode().ok());
  const auto refused = [](auto change) {
    ring::WriteRecord r = GoodWrite();
    change(r);
    return !Bytes(r).Decode().ok();
  };
  EXPECT_TRUE(refused([](auto& r) { r.bytes = r.total_bytes = 0; }));
  EXPECT_TRUE(refused([](auto& r) { r.staging_offset = ring::kStagingBytes - 63; }));
  EXPECT_TRUE(refused([](auto& r) { r.staging_offset = ~uint64_t{0} - 8; }));
  EXPECT_TRUE(refused([](auto& r) { r.bytes = 65; }));
  EXPECT_TRUE(refused([](auto& r) { r.total_bytes = ~uint64_t{0}; }));
  EXPECT_TRUE(refused([](auto& r) { r.buffer_offset = ~uint64_t{0}; }));
  EXPECT_TRUE(refused([](auto& r) { r.flags = 2; }));
}

TEST(DecodeRecordTest, ReadNeedsRoomForItsStatus) {
  ring::ReadRecord r{};
  r.h = Header(ring::RecordType::kRead);
  r.buffer = 1;
  r.bytes = 9;
  r.staging_offset = ring::kStagingBytes - 24;
  EXPECT_TRUE(Bytes(r).Decode().ok());
  r.staging_offset += 8;
  EXPECT_FALSE(Bytes(r).Decode().ok());
  r.staging_offset = 4;  // the status word would not be aligned
  EXPECT_FALSE(Bytes(r).Decode().ok());
  r.staging_offset = 0;
  r.bytes = ~uint64_t{0} - 3;  // rounding up wraps
  EXPECT_FALSE(Bytes(r).Decode().ok());
}

TEST(DecodeRecordTest, AllocNeedsATypeAndElements) {
  ring::AllocRecord r{};
  r.h = Header(ring::RecordType::kAlloc);
  r.elements = 1;
  r.dtype = 12;
  EXPECT_TRUE(Bytes(r).Decode().ok());
  r.dtype = 16;
  EXPECT_FALSE(Bytes(r).Decode().ok());
  r.dtype = 12;
  r.elements = ~uint64_t{0};
  EXPECT_FALSE(Bytes(r).Decode().ok());
}

TEST(DecodeRecordTest, ALargeRecordIsBoundedAndLiesWithinStaging) {
  ring::LargeRecord r{Header(ring::RecordType::kLarge), 0, ring::kLargeRecordBytesMax};
  EXPECT_TRUE(Bytes(r).Decode().ok());
  r.record_bytes += 8;
  EXPECT_FALSE(Bytes(r).Decode().ok());
  r.record_bytes = 20;  // no multiple of 8
  EXPECT_FALSE(Bytes(r).Decode().ok());
  r.record_bytes = 64;
  r.staging_offset = ring::kStagingBytes - 56;
  EXPECT_FALSE(Bytes(r).Decode().ok());
}

TEST(DecodeRecordTest, AWaitNamesAStreamThatExists) {
  ring::WaitRecord r{};
  r.h = Header(ring::RecordType::kWait);
  r.other_stream = ring::kStreamsMax - 1;
  EXPECT_TRUE(Bytes(r).Decode().ok());
  r.other_stream = ring::kStreamsMax;
  EXPECT_FALSE(Bytes(r).Decode().ok());
}

TEST(DecodeRecordTest, AHeaderThatLiesAboutItsLengthIsRefused) {
  for (const int lie : {-8, 8}) {
    ring::FreeRecord r{Header(ring::RecordType::kFree), 1};
    r.h.bytes = static_cast<uint32_t>(static_cast<int>(sizeof(r)) + lie);
    const auto record = DecodeRecord(std::as_bytes(std::span(&r, 1)));
    EXPECT_THAT(std::string(record.status().message()), HasSubstr("its header says"));
  }
}

TEST(DecodeRecordTest, UnknownTypesStreamsAndSizesAreRefusedByName) {
  ring::FreeRecord r{Header(ring::RecordType::kCollective), 1};
  EXPECT_THAT(std::string(Bytes(r).Decode().status().message()), HasSubstr("Collective"));
  r.h = Header(static_cast<ring::RecordType>(77));
  EXPECT_THAT(std::string(Bytes(r).Decode().status().message()), HasSubstr("type 77"));
  r.h = Header(ring::RecordType::kFree, ring::kStreamsMax);
  EXPECT_THAT(std::string(Bytes(r).Decode().status().message()), HasSubstr("stream 256"));
  r.h = Header(ring::RecordType::kFree);
  EXPECT_FALSE(Bytes(r).Append(uint64_t{0}).Decode().ok());
  EXPECT_FALSE(DecodeRecord({}).ok());
}

}  // namespace
}  // namespace neurond::wire
