#include "server/ring/session_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neurond::ring {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseSettingsTest, WithoutSettingsAllDevicesAreVisible) {
  auto settings = ParseSettings("", 3);
  ASSERT_TRUE(settings.ok());
  EXPECT_THAT(settings->devices, ElementsAre(0, 1, 2));
}

TEST(ParseSettingsTest, RangesAndListsKeepTheirOrder) {
  EXPECT_THAT(ParseSettings("NEURON_RT_VISIBLE_CORES=3,0-1", 4)->devices, ElementsAre(3, 0, 1));
  EXPECT_THAT(ParseSettings("NEURON_RT_NUM_CORES=2", 4)->devices, ElementsAre(0, 1));
  EXPECT_THAT(ParseSettings("NEURON_RT_NUM_CORES=1\nNEURON_RT_VISIBLE_CORES=2-3\n", 4)->devices,
              ElementsAre(2));
  EXPECT_EQ(ParseSettings("OTHER=1\nNEURON_PROCESS_TAG=a=b", 1)->tag, "a=b");
  EXPECT_EQ(ParseSettings("client_build=tracer 1\n", 1)->client_build, "tracer 1");
}

TEST(ParseSettingsTest, WhatIsNotThereIsNamed) {
  for (const char* cores : {"4", "0-4", "2-1", "-1", "a", "1,1", "1,", "0-1-2"}) {
    auto settings = ParseSettings(std::string("NEURON_RT_VISIBLE_CORES=") + cores, 4);
    EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument) << cores;
    EXPECT_THAT(std::string(settings.status().message()), HasSubstr(cores));
  }
  EXPECT_FALSE(ParseSettings("NEURON_RT_NUM_CORES=0", 4).ok());
  EXPECT_FALSE(ParseSettings("NEURON_RT_NUM_CORES=5", 4).ok());
}

}  // namespace
}  // namespace neurond::ring
