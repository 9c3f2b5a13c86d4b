#include "server/grpc/utf8.h"

#include <gtest/gtest.h>

namespace neurond {
namespace {

TEST(ValidUtf8Test, KeepsWellFormedText) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
  EXPECT_EQ(ValidUtf8(text), text);
}

TEST(ValidUtf8Test, ReplacesWhatProtobufWouldRefuse) {
  EXPECT_EQ(ValidUtf8("a\xff"
                      "b"),
            "a?b");
  EXPECT_EQ(ValidUtf8("\xc3"), "?");                 // cut off
  EXPECT_EQ(ValidUtf8("\xc0\x80"), "??");            // overlong
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80"), "???");       // surrogate
  EXPECT_EQ(ValidUtf8("\xf4\x90\x80\x80"), "????");  // past U+10FFFF
  EXPECT_EQ(ValidUtf8("\xe2\x82x"), "??x");
}

}  // namespace
}  // namespace neurond
