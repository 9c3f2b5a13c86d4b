// The pool with real neurond-compiler processes over the fake plugin, whose script makes them fail.
#include "server/compiler/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "runtime/base/text.h"

namespace neurond {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string Module(const std::string& name) {
  return "module @" + name +
         " {\n  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
         "    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>\n"
         "    return %0 : tensor<4xf32>\n  }\n}\n";
}

class WorkerPoolTest : public ::testing::Test {
 protected:
  void Start(const std::string& script, int workers = 2) {
    WorkerPoolOptions options;
    options.program = program_;
    options.plugin.kind = "fake";
    options.plugin.options["script"] = script;
    auto plugin = MakePlugin(options.plugin);
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    options.fingerprint = fingerprint_.empty() ? (*plugin)->fingerprint() : fingerprint_;
    options.workers_max = workers;
    auto pool = WorkerPool::Start(std::move(options));
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  void Ask(const std::string& name) {
    {
      std::lock_guard lock(mutex_);
      ++asked_;
    }
    pool_->Compile({name, Module(name), ""}, [this, name](CompileResult result) {
      std::lock_guard lock(mutex_);
      results_[name] = std::move(result);
      --asked_;
      arrived_.notify_all();
    });
  }
  void WaitAll() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return asked_ == 0; });
  }
  CompileResult Compile(const std::string& name) {
    Ask(name);
    WaitAll();
    return results_[name];
  }

  std::string program_ = std::getenv("NEUROND_COMPILER");
  std::string fingerprint_;
  std::unique_ptr<WorkerPool> pool_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  int asked_ = 0;
  std::map<std::string, CompileResult> results_;
};

TEST_F(WorkerPoolTest, WhatAWorkerMadeCanBeLoaded) {
  Start("");
  CompileResult result = Compile("good");
  ASSERT_TRUE(result.error.ok()) << result.error.message;
  EXPECT_GT(result.seconds, 0);
  PluginConfig config;
  config.kind = "fake";
  auto plugin = MakePlugin(config);
  ASSERT_TRUE(plugin.ok());
  EXPECT_TRUE((*plugin)->Load(result.serialized).ok());
}

// The kernel's word for it: who made the module need not be trusted.
TEST_F(WorkerPoolTest, AWorkerSitsInItsSandbox) {
  Start("", 1);
  ASSERT_TRUE(Compile("good").error.ok());
  int workers = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (std::string pid; children >> pid; ++workers) {
      EXPECT_THAT(Text("/proc/" + pid + "/status"),
                  AllOf(HasSubstr("Seccomp:\t2"), HasSubstr("NoNewPrivs:\t1")));
      EXPECT_THAT(Text("/proc/" + pid + "/limits"),
                  Not(ContainsRegex("Max cpu time +unlimited")));  // each compile has its own
    }
  }
  EXPECT_EQ(workers, 1);
}

TEST_F(WorkerPoolTest, OneWorkerServesManyRequests) {
  Start("", 1);
  for (int i = 0; i < 20; ++i) Ask(Cat("p", i));
  WaitAll();
  for (const auto& [name, result] : results_)
    EXPECT_TRUE(result.error.ok()) << result.error.message;
  EXPECT_EQ(pool_->counters().started, 1);
}

TEST_F(WorkerPoolTest, ACrashIsTriedOnceMoreAlone) {
  Start("compile flaky 1 crash", 1);  // each worker counts for itself: the second one crashes too
  const CompileResult result = Compile("flaky");
  EXPECT_EQ(result.error.code, absl::StatusCode::kInternal);
  EXPECT_THAT(result.error.message, HasSubstr("flaky"));
  EXPECT_THAT(result.error.message, HasSubstr("signal 6"));
  EXPECT_TRUE(result.deterministic);
  EXPECT_EQ(pool_->counters().crashed, 2);
  EXPECT_TRUE(Compile("other").error.ok());  // the pool goes on
  EXPECT_EQ(pool_->counters().started, 3);
}

TEST_F(WorkerPoolTest, ACrashHarmsNoNeighbour) {
  Start("compile bad * crash", 2);
  for (int i = 0; i < 6; ++i) Ask(Cat("good", i));
  Ask("bad");
  for (int i = 6; i < 12; ++i) Ask(Cat("good", i));
  WaitAll();
  for (const auto& [name, result] : results_) {
    EXPECT_EQ(result.error.ok(), name != "bad") << name << ": " << result.error.message;
  }
}

TEST_F(WorkerPoolTest, APluginsRefusalIsPassedOn) {
  Start("compile p * fail no such thing");
  const CompileResult result = Compile("p");
  EXPECT_EQ(result.error.code, absl::StatusCode::kInternal);
  EXPECT_THAT(result.error.message, HasSubstr("no such thing"));
  EXPECT_FALSE(result.deterministic);
}

TEST_F(WorkerPoolTest, AnUpgradeUnderneathGivesNoOtherWorkers) {
  const std::filesystem::path copy =
      std::filesystem::temp_directory_path() / Cat("neurond-compiler-", getpid());
  std::filesystem::copy(program_, copy);
  program_ = copy;
  Start("");
  std::filesystem::remove(copy);
  std::ofstream(copy) << "#!/bin/false\n";
  std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
  const CompileResult result = Compile("p");
  EXPECT_TRUE(result.error.ok()) << result.error.message;
  std::filesystem::remove(copy);
}

TEST_F(WorkerPoolTest, AnotherPluginInTheWorkerIsRefused) {
  fingerprint_ = "something else";
  Start("");
  EXPECT_THAT(Compile("p").error.message, HasSubstr("have changed"));
}

TEST_F(WorkerPoolTest, ShutdownAnswersEverybody) {
  Start("compile * * slow 60000", 1);
  for (int i = 0; i < 3; ++i) Ask(Cat("p", i));
  pool_->Shutdown();
  WaitAll();
  for (const auto& [name, result] : results_) {
    EXPECT_EQ(result.error.code, absl::StatusCode::kCancelled) << name;
  }
  EXPECT_EQ(Compile("late").error.code, absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace neurond
