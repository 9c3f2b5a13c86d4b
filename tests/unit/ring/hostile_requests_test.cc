// Requests that lie about lengths, devices and numbers.
#include <gmock/gmock.h>

#include <limits>

#include "server/ring/request_handler.h"
#include "tests/unit/ring/ring_fixture.h"

namespace neurond::ring {
namespace {

using ::testing::HasSubstr;

class HostileRequestTest : public testing::Test {
 protected:
  HostileRequestTest() {
    SessionOptions options;
    options.devices = {1};  // of two
    session_ = MakeSession(host_.host.devices, *host_.host.programs, observer_, options);
    handler_ = std::make_unique<RequestHandler>(host_.state, *session_, options.devices,
                                                RequestHandler::AliasOwner{0, ""});
  }
  absl::StatusCode Refusal(FrameType type, const std::string& payload) {
    return handler_->Handle(type, payload).status().code();
  }

  RingHost host_;
  TestObserver observer_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<RequestHandler> handler_;
};

TEST_F(HostileRequestTest, GrantsCannotBeMadeToOverflow) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto grant = [&](int64_t delta) {
    return handler_->Handle(FrameType::kGrant, Bytes(GrantFrame{0, 0, delta}));
  };
  ASSERT_TRUE(grant(1 << 20).ok());
  EXPECT_EQ(grant(kMax).status().code(), absl::StatusCode::kResourceExhausted);
  for (int64_t delta : {kMin, kMin + 1, int64_t{-1}}) {
    auto reply = grant(delta);  // gives back what is there, not more
    ASSERT_TRUE(reply.ok()) << reply.status();
    GrantReplyFrame frame;
    ASSERT_EQ(reply->size(), sizeof(frame));
    std::memcpy(&frame, reply->data(), sizeof(frame));
    EXPECT_EQ(frame.granted_bytes, 0);
    EXPECT_EQ(host_.host.devices.at(1).granted_bytes(), 0);
  }
}

TEST_F(HostileRequestTest, ADeviceThatTheSessionDoesNotSeeIsRefused) {
  for (uint32_t device : {1u, 127u, 0xffffffffu}) {
    EXPECT_EQ(Refusal(FrameType::kGrant, Bytes(GrantFrame{device, 0, 1})),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(HostileRequestTest, ErrorsOfScopesThatDoNotExistAreNone) {
  for (int32_t scope :
       {-2, 300, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    for (uint64_t buffer : {uint64_t{0}, uint64_t{77}, ~uint64_t{0}}) {
      auto reply = handler_->Handle(FrameType::kTakeError,
                                    Bytes(TakeErrorFrame{scope, scope, ~uint64_t{0}, buffer}));
      ASSERT_TRUE(reply.ok());
      EXPECT_EQ(*reply, Bytes(TakeErrorReplyFrame{}));
    }
  }
}

TEST_F(HostileRequestTest, PartsThatReachPastTheirFrameAreRefused) {
  const uint64_t huge = ~uint64_t{0};
  EXPECT_EQ(Refusal(FrameType::kLookup, Bytes(LookupFrame{0xffffffff, 0}) + "key"),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(FrameType::kDefine, Bytes(DefineFrame{3, 4, huge - 6}) + "keymeta"),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(FrameType::kDefine, Bytes(DefineFrame{0, 0, 3}) + "abc"),
            absl::StatusCode::kInvalidArgument);  // what DecodeProgram says
  EXPECT_EQ(Refusal(FrameType::kLookup, Bytes(LookupFrame{3, 0}) + "key"),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Refusal(FrameType::kEventTime, Bytes(EventTimeFrame{huge})),
            absl::StatusCode::kNotFound);
}

TEST_F(HostileRequestTest, WhatIsNoRequestIsNotHandled) {
  for (int type : {0, 1, 2, 4, 17, 18, 19, 20, 65535}) {
    EXPECT_FALSE(RequestHandler::IsRequest(static_cast<FrameType>(type))) << type;
    EXPECT_FALSE(handler_->Handle(static_cast<FrameType>(type), "").ok()) << type;
  }
}

TEST_F(HostileRequestTest, DevicesAreThoseOfTheSession) {
  auto reply = handler_->Handle(FrameType::kDevices, "");
  ASSERT_TRUE(reply.ok());
  ASSERT_EQ(reply->size(), sizeof(DevicesReplyFrame) + sizeof(DeviceFrame));
  EXPECT_THAT(*reply, HasSubstr("test:1"));
}

}  // namespace
}  // namespace neurond::ring
