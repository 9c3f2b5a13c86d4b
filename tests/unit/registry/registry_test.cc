#include "plugins/registry/registry.h"

#include <gtest/gtest.h>

namespace neurond {
namespace {

TEST(MakePluginTest, UnknownOptionsAndKindsAreRefused) {
  EXPECT_EQ(MakePlugin({"fake", "", {{"colour", "blue"}}, ""}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(MakePlugin({"fake", "", {{"devices", "0"}}, ""}).ok());
  EXPECT_FALSE(MakePlugin({"fake", "", {{"devices", "many"}}, ""}).ok());
  EXPECT_FALSE(MakePlugin({"fake", "", {{"script", "oops"}}, ""}).ok());
  EXPECT_FALSE(MakePlugin({"tpu", "", {}, ""}).ok());
  EXPECT_FALSE(MakePlugin({"pjrt", "", {}, ""}).ok());
}

TEST(MakePluginTest, TheFakeTakesItsDevices) {
  auto plugin = MakePlugin({"fake", "", {{"devices", "2"}, {"async", "true"}}, ""});
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ((*plugin)->device_count(), 2);
}

}  // namespace
}  // namespace neurond
