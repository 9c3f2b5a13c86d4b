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

TEST(ConfigTest, AValueThatMeansNothingIsRefused) {
  DaemonConfig config;
  for (const char* line :
       {"log-level = \"verbose\"", "log-level = \"\"", "device-memory-bytes = -1",
        "cache-bytes-max = -1", "idle-exit-seconds = -1", "devices = 128", "devices = -1",
        "plugin-option = [\"cpu_device_count\"]", "plugin-option = [\"=2\"]",
        "grpc-address = \"127.0.0.1\"", "grpc-address = \"127.0.0.1:65536\"",
        "grpc-address = \"127.0.0.1:-1\"", "grpc-address = \"127.0.0.1:http\"",
        "grpc-address = \":50051\"", "grpc-address = \"50051\"", "grpc-address = \"::1:50051\"",
        "grpc-address = \"unix:/tmp/s\"", "grpc-address = \"unix:/tmp/s:1\""}) {
    EXPECT_FALSE(Parse(line, &config)) << line;
  }
  for (const char* line :
       {"log-level = \"debug\"", "idle-exit-seconds = 0", "plugin-option = [\"a=b=c\", \"d=\"]",
        "grpc-address = \"127.0.0.1:0\"", "grpc-address = \"[::1]:65535\"",
        "grpc-address = \"localhost:50051\""}) {
    EXPECT_TRUE(Parse(line, &config)) << line;
  }
}

}  // namespace
}  // namespace neurond
