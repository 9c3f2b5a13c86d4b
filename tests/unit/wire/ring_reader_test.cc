#include "server/wire/ring_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace neurond::wire {
namespace {

using ring::kRingBytes;
using ring::RecordHeader;
using ring::RecordType;

class RingReaderTest : public ::testing::Test {
 protected:
  // Writes a record of `bytes` at ring position `at`.
  void Put(uint64_t at, uint32_t bytes, uint64_t seq, RecordType type = RecordType::kFree) {
    const RecordHeader h{bytes, static_cast<uint16_t>(type), 0, seq};
    std::memcpy(data_.data() + at % kRingBytes, &h, sizeof(h));
  }

  std::vector<std::byte> data_ = std::vector<std::byte>(kRingBytes);
  RingReader reader_{data_.data()};
};

TEST_F(RingReaderTest, GivesRecordsInOrderAndThenNothing) {
  Put(0, 24, 1);
  Put(24, 40, 2);
  for (size_t bytes : {24, 40}) {
    auto record = reader_.Next(64);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->size(), bytes);
  }
  auto end = reader_.Next(64);
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->empty());
  EXPECT_EQ(reader_.tail(), 64u);
  EXPECT_EQ(reader_.last_seq(), 2u);
}

TEST_F(RingReaderTest, TheCopyDoesNotChangeWithTheRing) {
  Put(0, 24, 1);
  auto record = reader_.Next(24);
  ASSERT_TRUE(record.ok());
  Put(0, 4096, 9);
  RecordHeader h;
  std::memcpy(&h, record->data(), sizeof(h));
  EXPECT_EQ(h.bytes, 24u);
  EXPECT_EQ(h.seq, 1u);
}

TEST_F(RingReaderTest, PaddingLeadsBackToTheStart) {
  uint64_t seq = 0, at = 0;
  const uint32_t step = ring::kRecordBytesMax;
  for (; at + step < kRingBytes; at += step) {
    Put(at, step, ++seq);
    ASSERT_TRUE(reader_.Next(at + step).ok());
  }
  Put(at, step, 0, RecordType::kPad);
  Put(at + step, 24, ++seq);
  auto record = reader_.Next(at + step + 24);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->size(), 24u);
}

TEST_F(RingReaderTest, ARecordDoesNotPassTheRingsEnd) {
  uint64_t seq = 0, at = 0;
  const uint32_t step = ring::kRecordBytesMax;
  for (; at + step + 24 <= kRingBytes; at += step) {
    Put(at, step, ++seq);
    ASSERT_TRUE(reader_.Next(at + step).ok());
  }
  if (kRingBytes - at >= step) {  // leaves too little for another one
    Put(at, 24, ++seq);
    ASSERT_TRUE(reader_.Next(at + 24).ok());
    at += 24;
  }
  ASSERT_LT(kRingBytes - at, step);
  Put(at, step, ++seq);
  EXPECT_FALSE(reader_.Next(at + step).ok());
}

TEST_F(RingReaderTest, ARestTooSmallForPaddingIsSkipped) {
  uint64_t seq = 0, at = 0;
  while (kRingBytes - at > 8) {
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>(ring::kRecordBytesMax, kRingBytes - at - 8));
    Put(at, bytes, ++seq);
    auto record = reader_.Next(at + bytes);
    ASSERT_TRUE(record.ok()) << record.status();
    at += bytes;
  }
  Put(kRingBytes, 24, ++seq);
  auto record = reader_.Next(kRingBytes + 24);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->size(), 24u);
}

TEST_F(RingReaderTest, RefusesWhatDoesNotFit) {
  const auto refused = [this](uint64_t head) { return !RingReader(data_.data()).Next(head).ok(); };
  EXPECT_TRUE(refused(kRingBytes + 8));  // more than the ring holds
  EXPECT_TRUE(refused(~uint64_t{0}));    // before the tail
  EXPECT_TRUE(refused(12));              // no multiple of 8
  EXPECT_TRUE(refused(8));               // within a header
  Put(0, 8, 1);
  EXPECT_TRUE(refused(64));  // shorter than a header
  Put(0, 28, 1);
  EXPECT_TRUE(refused(64));  // no multiple of 8
  Put(0, 72, 1);
  EXPECT_TRUE(refused(64));  // behind the head
  Put(0, 24, 2);
  EXPECT_TRUE(refused(64));  // a sequence number left out
  Put(0, 24, 0, RecordType::kPad);
  EXPECT_TRUE(refused(64));  // padding in the middle
  Put(0, ring::kRecordBytesMax + 8, 1);
  EXPECT_TRUE(refused(ring::kRecordBytesMax + 8));
  Put(0, 64, 1);
  EXPECT_FALSE(refused(64));
}

TEST_F(RingReaderTest, ALargeRecordMustBeTheOneAnnounced) {
  std::vector<std::byte> staging(1024);
  ring::LargeRecord large{{32, static_cast<uint16_t>(RecordType::kLarge), 2, 5}, 64, 48};
  RecordHeader inner{48, static_cast<uint16_t>(RecordType::kExecute), 2, 5};
  const auto copy = [&] {
    std::memcpy(staging.data() + 64, &inner, sizeof(inner));
    return reader_.CopyLarge(large, staging.data());
  };
  EXPECT_TRUE(copy().ok());
  inner.seq = 6;
  EXPECT_FALSE(copy().ok());
  inner.seq = 5;
  inner.bytes = 56;
  EXPECT_FALSE(copy().ok());
  inner.bytes = 48;
  inner.stream = 1;
  EXPECT_FALSE(copy().ok());
  inner.stream = 2;
  inner.type = static_cast<uint16_t>(RecordType::kLarge);  // or it would go on for ever
  EXPECT_FALSE(copy().ok());
}

}  // namespace
}  // namespace neurond::wire
