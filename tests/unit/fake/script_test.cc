#include "plugins/fake/script.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace neurond::fake {
namespace {

TEST(ScriptTest, AnEmptyScriptCommitsNoFaults) {
  Script script("", "");
  EXPECT_FALSE(script.Next(FaultPoint::kExecute, "aten.add.Tensor").any());
  EXPECT_EQ(script.memory_bytes(), 0);
}

TEST(ScriptTest, ARuleFiresAtItsNumberOnly) {
  Script script("execute aten.mul.Tensor 2 fail boom bang", "");
  EXPECT_FALSE(script.Next(FaultPoint::kExecute, "aten.mul.Tensor").any());
  EXPECT_FALSE(script.Next(FaultPoint::kExecute, "aten.add.Tensor").any());
  EXPECT_FALSE(script.Next(FaultPoint::kCompile, "aten.mul.Tensor").any());
  const Fault fault = script.Next(FaultPoint::kExecute, "aten.mul.Tensor");
  EXPECT_EQ(fault.error.message, "boom bang");
  EXPECT_EQ(fault.error.code, absl::StatusCode::kInternal);
  EXPECT_FALSE(fault.late);
  EXPECT_FALSE(script.Next(FaultPoint::kExecute, "aten.mul.Tensor").any());
}

TEST(ScriptTest, StarsAndPlusesMatchMany) {
  Script script("execute aten.m* 2+ oom-late\nupload * * slow 7 # comment\n", "");
  EXPECT_FALSE(script.Next(FaultPoint::kExecute, "aten.mul").any());
  for (int i = 0; i < 3; ++i) {
    const Fault fault = script.Next(FaultPoint::kExecute, "aten.mm");
    EXPECT_EQ(fault.error.code, absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(fault.error.kind, ErrorKind::kOutOfMemory);
    EXPECT_TRUE(fault.late);
    EXPECT_EQ(script.Next(FaultPoint::kUpload, "*").slow_ms, 7);
  }
}

TEST(ScriptTest, SeveralRulesAddUp) {
  Script script("execute * * slow 5; execute * 1 fail first; execute x 1 slow 6", "");
  const Fault fault = script.Next(FaultPoint::kExecute, "x");
  EXPECT_EQ(fault.slow_ms, 11);
  EXPECT_EQ(fault.error.message, "first");
}

TEST(ScriptTest, MistakesAreNamedWithTheirLine) {
  for (const char* text : {"explode * 1 fail", "execute * 0 fail", "execute * x fail",
                           "execute * 1", "execute * 1 dance", "execute * 1 slow",
                           "execute * 1 slow 9999999999", "memory lots", "execute"}) {
    const absl::Status status = Script::Check(std::string("\n") + text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(status.message().find("line 2 of the fault script"), 0u) << status;
  }
}

TEST(ScriptTest, AFileIsReadAgainWhenItChanges) {
  const std::string directory = testing::TempDir() + "/script_test";
  std::filesystem::create_directories(directory);
  const std::string file = directory + "/faults";
  std::filesystem::remove(file);
  const auto write = [&](const char* text) {
    std::ofstream(file + ".new") << text;
    std::filesystem::rename(file + ".new", file);
  };
  Script script("memory 10", file);
  EXPECT_FALSE(script.Next(FaultPoint::kExecute, "x").any()) << "no file yet";
  EXPECT_EQ(script.memory_bytes(), 10);
  write("execute x 1 fail one\nmemory 20");
  EXPECT_EQ(script.memory_bytes(), 20);
  EXPECT_EQ(script.Next(FaultPoint::kExecute, "x").error.message, "one");
  EXPECT_FALSE(script.Next(FaultPoint::kExecute, "x").any());
  write("execute x 1 fail two");
  EXPECT_EQ(script.Next(FaultPoint::kExecute, "x").error.message, "two") << "counted anew";
  write("nonsense");
  EXPECT_FALSE(script.Next(FaultPoint::kExecute, "x").any());
  write("");
  EXPECT_EQ(script.memory_bytes(), 10);
}

}  // namespace
}  // namespace neurond::fake
