#include "client/cli/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace neurond::cli {
namespace {

TEST(TableTest, AlignsColumnsAndHidesControlCharacters) {
  Table table({{"NAME", Align::kLeft}, {"N"}});
  table.Add({"a\033[31m", "7"});
  table.Add({"\xc3\xa9", "1,000"});
  std::ostringstream out;
  table.Print(out, false);
  EXPECT_EQ(out.str(),
            "NAME        N\n"
            "a?[31m      7\n"
            "\xc3\xa9       1,000\n");
}

TEST(NumbersTest, AreReadable) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1023), "1023 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(int64_t{12} << 30), "12 GiB");
  EXPECT_EQ(Count(0), "0");
  EXPECT_EQ(Count(999), "999");
  EXPECT_EQ(Count(1234567), "1,234,567");
  EXPECT_EQ(Count(-1234), "-1,234");
  EXPECT_EQ(Duration(0.25), "250 ms");
  EXPECT_EQ(Duration(12.34), "12.3 s");
  EXPECT_EQ(Duration(245), "4 min 5 s");
  EXPECT_EQ(Duration(90000), "1 d 1 h");
}

}  // namespace
}  // namespace neurond::cli
