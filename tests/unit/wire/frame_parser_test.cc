#include "server/wire/frame_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neurond::wire {
namespace {

template <class T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string Frame(ring::FrameType type, const std::string& payload, uint32_t request = 1) {
  const ring::FrameHeader h{ring::kMagic,
                            static_cast<uint16_t>(type),
                            0,
                            static_cast<uint32_t>(payload.size()),
                            request,
                            0};
  return Bytes(h) + payload;
}

TEST(FrameParserTest, AFrameMayArriveByteByByte) {
  FrameParser parser;
  const std::string bytes = Frame(ring::FrameType::kStats, "payload");
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(parser.HasFrame());
    EXPECT_GT(parser.Wanted(), 0u);
    ASSERT_TRUE(parser.Append(bytes.substr(i, 1)).ok());
  }
  ASSERT_TRUE(parser.HasFrame());
  EXPECT_EQ(parser.Wanted(), 0u);
  EXPECT_EQ(parser.Front().payload, "payload");
  parser.Pop();
  EXPECT_FALSE(parser.HasFrame());
}

TEST(FrameParserTest, FramesFollowEachOther) {
  FrameParser parser;
  for (uint32_t request : {1, 2, 3}) {
    ASSERT_TRUE(
        parser.Append(Frame(ring::FrameType::kDevices, std::string(request, 'x'), request)).ok());
    ASSERT_TRUE(parser.HasFrame());
    EXPECT_EQ(parser.Front().header.request, request);
    EXPECT_EQ(parser.Front().payload.size(), request);
    parser.Pop();
  }
}

TEST(FrameParserTest, RefusesForeignBytesAndImpossibleLengths) {
  FrameParser http;
  EXPECT_FALSE(http.Append("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  ring::FrameHeader h{ring::kMagic, 1, 0, 0xffffffff, 0, 0};
  FrameParser huge;
  EXPECT_FALSE(huge.Append(Bytes(h)).ok());
}

TEST(FrameParserTest, AnAnnouncedLengthReservesNothing) {
  FrameParser parser;
  const ring::FrameHeader h{
      ring::kMagic, 5, 0, static_cast<uint32_t>(ring::kFrameBytesMax - 24), 0, 0};
  ASSERT_TRUE(parser.Append(Bytes(h)).ok());
  EXPECT_LE(parser.Wanted(), size_t{1} << 20);
}

TEST(DecodeFramesTest, DefineCutsItsThreeParts) {
  const ring::DefineFrame fixed{3, 4, 7};
  const std::string payload = Bytes(fixed) + "keymetaprogram";  // what is decoded points into it
  auto define = DecodeDefine(payload);
  ASSERT_TRUE(define.ok()) << define.status();
  EXPECT_EQ(define->key, "key");
  EXPECT_EQ(define->meta, "meta");
  EXPECT_EQ(define->program, "program");
  EXPECT_FALSE(DecodeDefine(Bytes(fixed) + "keymetaprogra").ok());
  EXPECT_FALSE(DecodeDefine(Bytes(fixed) + "keymetaprogramm").ok());
  const ring::DefineFrame wraps{3, 4, ~uint64_t{0} - 6};
  EXPECT_FALSE(DecodeDefine(Bytes(wraps) + "keymeta").ok());
  const ring::DefineFrame balanced{3, 100, uint64_t{4} - 100};  // the sum of all three is right
  EXPECT_FALSE(DecodeDefine(Bytes(balanced) + "keymeta").ok());
  EXPECT_FALSE(DecodeDefine("").ok());
}

TEST(DecodeFramesTest, FixedFramesHaveOneSize) {
  EXPECT_TRUE(DecodeGrant(Bytes(ring::GrantFrame{1, 0, -5})).ok());
  EXPECT_FALSE(DecodeGrant(Bytes(ring::GrantFrame{}) + "x").ok());
  EXPECT_FALSE(DecodeTakeError("short").ok());
  EXPECT_TRUE(DecodeEventTime(Bytes(ring::EventTimeFrame{4})).ok());
  const std::string lookup = Bytes(ring::LookupFrame{2, 0}) + "ab";
  auto key = DecodeLookup(lookup);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(*key, "ab");
  const std::string greeting = Bytes(ring::HelloFrame{1, 1, 42, 2, 3}) + "idA=1";
  auto hello = DecodeHello(greeting);
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->build_id, "id");
  EXPECT_EQ(hello->settings, "A=1");
}

}  // namespace
}  // namespace neurond::wire
