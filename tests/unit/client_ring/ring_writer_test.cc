#include "client/ring/ring_writer.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

namespace neurond::client {
namespace {

using ring::kRingBytes;

class RingWriterTest : public ::testing::Test {
 protected:
  std::byte* Push(uint64_t bytes) {
    uint64_t needed;
    std::byte* at = writer_.TryReserve(bytes, &needed);
    if (at != nullptr) writer_.Publish();
    return at;
  }
  uint64_t EventCount() {
    uint64_t count = 0;
    return read(event_, &count, sizeof(count)) == sizeof(count) ? count : 0;
  }
  ~RingWriterTest() override { close(event_); }

  std::unique_ptr<ring::RingHeader> header_ = std::make_unique<ring::RingHeader>();
  std::vector<std::byte> data_ = std::vector<std::byte>(kRingBytes);
  int event_ = eventfd(0, EFD_NONBLOCK);
  RingWriter writer_{header_.get(), data_.data(), event_};
};

TEST_F(RingWriterTest, AFullRingNamesTheTailItNeeds) {
  for (uint64_t at = 0; at < kRingBytes; at += ring::kRecordBytesMax) {
    ASSERT_EQ(Push(ring::kRecordBytesMax), data_.data() + at);
  }
  uint64_t needed = 0;
  EXPECT_EQ(writer_.TryReserve(24, &needed), nullptr);
  EXPECT_EQ(needed, 24u);
  header_->tail = 24;
  EXPECT_EQ(Push(24), data_.data());
}

TEST_F(RingWriterTest, ARecordNeverWraps) {
  for (uint64_t at = 0; at + ring::kRecordBytesMax < kRingBytes; at += ring::kRecordBytesMax) {
    Push(ring::kRecordBytesMax);
  }
  Push(ring::kRecordBytesMax - 40);  // 40 bytes are left
  header_->tail = header_->head.load();
  EXPECT_EQ(Push(48), data_.data());
  ring::RecordHeader pad;
  std::memcpy(&pad, data_.data() + kRingBytes - 40, sizeof(pad));
  EXPECT_EQ(pad.type, static_cast<uint16_t>(ring::RecordType::kPad));
  EXPECT_EQ(pad.bytes, 40u);
  EXPECT_EQ(header_->head.load(), kRingBytes + 48);
}

TEST_F(RingWriterTest, OnlyASleepingDaemonIsWoken) {
  Push(24);
  EXPECT_EQ(EventCount(), 0u);
  header_->daemon_waiting = 1;
  Push(24);
  EXPECT_EQ(EventCount(), 1u);
  EXPECT_EQ(header_->daemon_waiting.load(), 0u);
  Push(24);
  EXPECT_EQ(EventCount(), 0u);
}

}  // namespace
}  // namespace neurond::client
