#include "server/daemon/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace neurond {
namespace {

// Whether a config file with this content is taken; what it says goes to `config`.
bool Parse(const std::string& content, DaemonConfig* config) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string path = testing::TempDir() + "/neurond_config_" + test->name() + ".toml";
  std::ofstream(path) << content;
  std::string program = "neurond", flag = "--config";
  char* argv[] = {program.data(), flag.data(), path.data()};
  int exit_code = 0;
  const bool good = ParseFlags(3, argv, config, &exit_code);
  EXPECT_EQ(good, exit_code == 0);
  return good;
}

TEST(ConfigTest, AFileSetsFlags) {
  DaemonConfig config;
  ASSERT_TRUE(Parse("plugin-kind = \"fake\"\ndevices = 2\n", &config));
  EXPECT_EQ(config.plugin_kind, "fake");
  EXPECT_EQ(config.devices, 2);
}

TEST(ConfigTest, WhatNoFlagIsNamedSoIsRefused) {
  DaemonConfig config;
  EXPECT_FALSE(Parse("plugin-kid = \"fake\"\n", &config));
  EXPECT_FALSE(Parse("[plugin]\nkind = \"fake\"\n", &config));
  EXPECT_FALSE(Parse("[plugin]\ndevices = 2\n", &config));
}

}  // namespace
}  // namespace neurond
