#include "client/cli/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace neurond::cli {
namespace {

using Json = nlohmann::json;

TEST(CountersJsonTest, KeysAreStableAndNumbersAreNumbers) {
  v1::GetCountersResponse counters;
  counters.mutable_programs()->set_lowerings(3);
  counters.mutable_executables()->set_compiles(int64_t{1} << 40);
  counters.mutable_executables()->set_disk_hits(5);
  counters.add_devices()->mutable_counters()->set_executes(7);
  counters.add_sessions()->set_tag("rank 0");
  const Json json = Json::parse(CountersJson(counters));
  EXPECT_EQ(json["programs"]["lowerings"], 3);
  EXPECT_EQ(json["programs"]["memory_hits"], 0);
  EXPECT_EQ(json["executables"]["compiles"], int64_t{1} << 40);
  EXPECT_EQ(json["executables"]["disk_hits"], 5);
  EXPECT_EQ(json["devices"][0]["executes"], 7);
  EXPECT_EQ(json["sessions"][0]["tag"], "rank 0");
  for (const char* key : {"workers", "remote"}) EXPECT_TRUE(json.contains(key)) << key;
}

TEST(ListJsonTest, AnEmptyListIsAList) {
  EXPECT_EQ(DevicesJson({}), "{\"devices\":[]}");
  EXPECT_EQ(SessionsJson({}), "{\"sessions\":[]}");
  EXPECT_EQ(ExecutablesJson({}), "{\"executables\":[]}");
}

}  // namespace
}  // namespace neurond::cli
