#include "runtime/executable/executable_cache.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "gtest/gtest.h"
#include "runtime/base/cpu_features.h"
#include "runtime/base/hash.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/executable/executable_entry.h"
#include "tests/unit/session/test_plugin.h"

namespace neurond {
namespace {

namespace fs = std::filesystem;

class ExecutableCacheTest : public testing::Test {
 protected:
  ExecutableCacheTest() {
    char name[] = "/tmp/neurond-cache-XXXXXX";
    directory = mkdtemp(name);
    for (int i = 0; i < 40; ++i) {
      plugin.Register(Cat("k", i), {{{DType::kF32, 4}}, nullptr});
    }
  }
  ~ExecutableCacheTest() override { fs::remove_all(directory); }

  std::unique_ptr<ExecutableCache> Make(ExecutableCacheOptions options = {}) {
    options.directory = directory;
    return MakeExecutableCache(plugin, compiler, options);
  }
  static Program Named(int i) {
    Program program;
    program.name = Cat("program", i);
    program.module = Cat("k", i);
    return program;
  }
  static void Await(const ExecutablePtr& executable) {
    std::promise<void> resolved;
    executable->OnResolved([&] { resolved.set_value(); });
    resolved.get_future().wait();
  }
  // Loaded, or the test fails.
  static void Use(ExecutableCache& cache, int i) {
    const ExecutablePtr executable = cache.Get(Named(i));
    Await(executable);
    EXPECT_NE(executable->loaded(), nullptr) << executable->error().message;
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& file : fs::recursive_directory_iterator(directory)) {
      if (file.is_regular_file()) files.push_back(file.path());
    }
    return files;
  }

  std::string directory;
  TestPlugin plugin;
  TestCompiler compiler;
};

TEST_F(ExecutableCacheTest, ASecondGetIsAMemoryHit) {
  auto cache = Make();
  Use(*cache, 0);
  Use(*cache, 0);
  EXPECT_EQ(compiler.requests, 1);
  EXPECT_EQ(cache->counters().memory_hits, 1);
  EXPECT_EQ(cache->counters().compiles, 1);
  EXPECT_EQ(cache->counters().compile_seconds, 0.5);
  ASSERT_EQ(cache->List().size(), 1u);
  EXPECT_EQ(cache->List()[0].name, "program0");
  EXPECT_EQ(cache->List()[0].uses, 2);
  EXPECT_EQ(cache->List()[0].key, cache->Get(Named(0))->key());
}

TEST_F(ExecutableCacheTest, ConcurrentCallersShareOneCompile) {
  auto cache = Make();
  compiler.Hold(true);
  std::vector<ExecutablePtr> got(8);
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) callers.emplace_back([&, i] { got[i] = cache->Get(Named(0)); });
  for (std::thread& caller : callers) caller.join();
  EXPECT_FALSE(got[0]->resolved());
  EXPECT_EQ(got[0]->loaded(), nullptr);
  while (!compiler.AnswerNext()) std::this_thread::yield();
  for (const ExecutablePtr& executable : got) {
    Await(executable);
    EXPECT_EQ(executable->loaded(), got[0]->loaded());
  }
  EXPECT_EQ(compiler.requests, 1);
}

TEST_F(ExecutableCacheTest, ANewProcessLoadsFromDisk) {
  {
    auto cache = Make();
    Use(*cache, 0);
  }
  auto cache = Make();
  Use(*cache, 0);
  EXPECT_EQ(compiler.requests, 1);
  EXPECT_EQ(cache->counters().disk_hits, 1);
  EXPECT_EQ(cache->counters().compiles, 0);
}

TEST_F(ExecutableCacheTest, OptionsAndModuleAreInTheKey) {
  {
    auto cache = Make();
    Use(*cache, 0);
    Use(*cache, 1);
    EXPECT_EQ(compiler.requests, 2);
  }
  ExecutableCacheOptions options;
  options.options = "fast";
  auto cache = Make(options);
  Use(*cache, 0);
  EXPECT_EQ(compiler.requests, 3);
}

class OtherBuildPlugin final : public TestPlugin {
 public:
  std::string fingerprint() const override { return "test-2"; }
};

TEST_F(ExecutableCacheTest, AnotherBuildOfThePluginMeetsNothingOld) {
  { Use(*Make(), 0); }
  OtherBuildPlugin other;
  other.Register("k0", {{{DType::kF32, 4}}, nullptr});
  ExecutableCacheOptions options;
  options.directory = directory;
  auto cache = MakeExecutableCache(other, compiler, options);
  Use(*cache, 0);
  EXPECT_EQ(compiler.requests, 2);
  EXPECT_EQ(cache->counters().disk_hits, 0);
}

// The machine cannot be changed here: that its features count shows in the key alone.
TEST_F(ExecutableCacheTest, TheKeyNamesModulePluginOptionsAndMachine) {
  ExecutableCacheOptions options;
  options.options = "fast";
  auto cache = Make(options);
  const std::string features = CpuFeatures();
  EXPECT_FALSE(features.empty());
  const std::string_view parts[] = {"k0", "test-1", "fast", features};
  EXPECT_EQ(cache->Get(Named(0))->key(), HashParts(parts).Hex());
}

TEST_F(ExecutableCacheTest, ADamagedFileIsCompiledAgain) {
  { Use(*Make(), 0); }
  ASSERT_EQ(Files().size(), 1u);
  const fs::path file = Files()[0];
  const auto size = fs::file_size(file);
  int64_t compiles = 1;
  // Truncated at many places, and every byte of the header and many behind it flipped.
  for (uintmax_t length = 0; length < size; length += 7) {
    const std::string good = [&] {
      std::ifstream in(file, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(in), {});
    }();
    fs::resize_file(file, length);
    auto cache = Make();
    Use(*cache, 0);
    EXPECT_EQ(compiler.requests, ++compiles) << "truncated to " << length;
    EXPECT_EQ(cache->counters().corrupt_entries, 1);
    cache.reset();
    ASSERT_EQ(fs::file_size(file), size);
    std::string bad = good;
    bad[length] = static_cast<char>(bad[length] ^ 0x10);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bad;
    Use(*Make(), 0);
    EXPECT_EQ(compiler.requests, ++compiles) << "flipped at " << length;
  }
}

TEST_F(ExecutableCacheTest, DeletingTheDirectoryHarmsNothing) {
  { Use(*Make(), 0); }  // the file is there once the cache is gone
  auto cache = Make();
  Use(*cache, 0);
  fs::remove_all(directory);
  Use(*cache, 0);
  Use(*cache, 1);
  EXPECT_EQ(compiler.requests, 2);
  cache = Make();
  Use(*cache, 1);  // written into a new folder
  EXPECT_EQ(compiler.requests, 2);
}

TEST_F(ExecutableCacheTest, TheSizeIsBounded) {
  ExecutableCacheOptions options;
  options.disk_bytes_max = 1000;
  auto cache = Make(options);
  for (int i = 0; i < 40; ++i) Use(*cache, i);
  cache.reset();
  int64_t bytes = 0;
  for (const fs::path& file : Files()) bytes += static_cast<int64_t>(fs::file_size(file));
  EXPECT_LE(bytes, 1000);
  EXPECT_GE(bytes, 500);
}

TEST_F(ExecutableCacheTest, ADeterministicFailureIsRemembered) {
  auto cache = Make();
  compiler.FailNext({absl::StatusCode::kInvalidArgument, ErrorKind::kRuntime, "bad module"}, true);
  for (int i = 0; i < 3; ++i) {
    const ExecutablePtr executable = cache->Get(Named(0));
    Await(executable);
    EXPECT_EQ(executable->loaded(), nullptr);
    EXPECT_NE(executable->error().message.find("bad module"), std::string::npos);
    EXPECT_NE(executable->error().message.find("program0"), std::string::npos);
    EXPECT_EQ(executable->error().code, absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(compiler.requests, 1);
  EXPECT_EQ(cache->counters().compile_failures, 1);
  EXPECT_TRUE(Files().empty());
}

TEST_F(ExecutableCacheTest, AFailureIsToldToEveryoneWhoWaits) {
  for (const bool deterministic : {true, false}) {
    auto cache = Make();
    const int64_t before = compiler.requests;
    compiler.Hold(true);
    std::vector<ExecutablePtr> waiting;
    for (int i = 0; i < 4; ++i) waiting.push_back(cache->Get(Named(0)));
    compiler.FailNext({absl::StatusCode::kInternal, ErrorKind::kRuntime, "it broke"},
                      deterministic);
    while (!compiler.AnswerNext()) std::this_thread::yield();
    for (const ExecutablePtr& executable : waiting) {
      Await(executable);
      EXPECT_EQ(executable->loaded(), nullptr);
      EXPECT_NE(executable->error().message.find("it broke"), std::string::npos);
    }
    EXPECT_EQ(compiler.requests, before + 1);
    compiler.Hold(false);
    Await(cache->Get(Named(0)));
    EXPECT_EQ(compiler.requests, before + (deterministic ? 1 : 2));
    // Failures are remembered in memory only.
    cache = Make();
    Use(*cache, 0);
    cache.reset();
    fs::remove_all(directory);
  }
}

TEST_F(ExecutableCacheTest, WhoeverAskedFirstMayGo) {
  auto cache = Make();
  compiler.Hold(true);
  ExecutablePtr first = cache->Get(Named(0));
  bool told = false;
  first->OnResolved([&] { told = true; });
  const ExecutablePtr second = cache->Get(Named(0));
  first.reset();
  EXPECT_EQ(cache->Clear(), 0);  // it is in use
  while (!compiler.AnswerNext()) std::this_thread::yield();
  Await(second);
  EXPECT_NE(second->loaded(), nullptr);
  EXPECT_TRUE(told);
  EXPECT_EQ(compiler.requests, 1);
}

TEST_F(ExecutableCacheTest, AnEntryInUseIsNotEvictedFromMemory) {
  ExecutableCacheOptions options;
  options.memory_entries_max = 2;
  auto cache = Make(options);
  const ExecutablePtr used = cache->Get(Named(0));
  Await(used);
  for (int i = 1; i < 20; ++i) Use(*cache, i);
  EXPECT_LT(cache->counters().entries, 10);
  EXPECT_EQ(cache->Get(Named(0)), used);
  EXPECT_NE(used->loaded(), nullptr);
}

TEST_F(ExecutableCacheTest, MemoryIsBoundedByBytesToo) {
  ExecutableCacheOptions options;
  options.memory_bytes_max = 30;  // of "executable:k0"
  auto cache = Make(options);
  const ExecutablePtr used = cache->Get(Named(0));
  Await(used);
  for (int i = 1; i < 30; ++i) Use(*cache, i);
  EXPECT_LT(cache->counters().entries, 15);
  EXPECT_EQ(cache->Get(Named(0)), used);
  // What went comes back from disk, and is counted again.
  for (int i = 1; i < 30; ++i) Use(*cache, i);
  EXPECT_LT(cache->counters().entries, 15);
  EXPECT_EQ(cache->counters().compiles, 30);
}

// A compiler's message may quote the module, which has MBs, and is kept with every failure.
TEST_F(ExecutableCacheTest, AFailuresTextIsShortened) {
  auto cache = Make();
  const std::string text(5'000'000, 'x');
  compiler.FailNext({absl::StatusCode::kInvalidArgument, ErrorKind::kRuntime, text}, true);
  const ExecutablePtr executable = cache->Get(Named(0));
  Await(executable);
  EXPECT_LT(executable->error().message.size(), 2 * kErrorTextBytesMax);
  EXPECT_NE(executable->error().message.find("bytes more"), std::string::npos);
}

TEST(ExecutableEntryTest, TheModuleIsKeptOnlyToCompileItAgain) {
  for (const bool deterministic : {true, false}) {
    int starts = 0;
    auto entry = std::make_shared<ExecutableEntry>(
        Hash128{}, "name", "module", [&starts](std::shared_ptr<ExecutableEntry>) { ++starts; });
    for (int i = 0; i < kCompileTriesMax; ++i) {
      EXPECT_EQ(entry->module(), "module");
      entry->Fail({absl::StatusCode::kInternal, ErrorKind::kRuntime, "it broke"}, deterministic);
      entry->Retry();
      if (deterministic) break;
    }
    EXPECT_EQ(entry->module(), "");
    EXPECT_EQ(starts, deterministic ? 0 : kCompileTriesMax - 1);
  }
}

TEST_F(ExecutableCacheTest, ADirectoryThatCannotBeUsedHarmsNothing) {
  const std::string file = directory + "/file";
  std::ofstream(file) << "in the way";
  directory = file + "/cache";
  auto cache = Make();
  for (int i = 0; i < 3; ++i) Use(*cache, i);
  EXPECT_EQ(cache->counters().compiles, 3);
  cache->Clear();
  cache.reset();
  directory = fs::path(file).parent_path();
}

TEST_F(ExecutableCacheTest, AnAccidentIsTriedAgainAFewTimes) {
  auto cache = Make();
  const Error accident{absl::StatusCode::kInternal, ErrorKind::kRuntime, "worker killed"};
  compiler.FailNext(accident, false);
  const ExecutablePtr first = cache->Get(Named(0));
  Await(first);
  EXPECT_EQ(first->loaded(), nullptr);
  Use(*cache, 0);
  EXPECT_NE(first->loaded(), nullptr);  // the same entry
  for (int i = 0; i < 5; ++i) compiler.FailNext(accident, false);
  for (int i = 0; i < 5; ++i) Await(cache->Get(Named(1)));
  EXPECT_EQ(compiler.requests, 2 + 3);
}

TEST_F(ExecutableCacheTest, APluginThatCannotSerializeCompilesInProcess) {
  TestPlugin unserializable(1, false, false);
  unserializable.Register("k0", {{}, nullptr});
  ExecutableCacheOptions options;
  options.directory = directory;
  auto cache = MakeExecutableCache(unserializable, compiler, options);
  Use(*cache, 0);
  EXPECT_EQ(compiler.requests, 0);
  EXPECT_EQ(unserializable.compiles, 1);
  EXPECT_EQ(cache->counters().compiles, 1);
  cache.reset();
  EXPECT_TRUE(Files().empty());
}

// Its compiler notices when two threads are in it.
class OneThreadPlugin final : public TestPlugin {
 public:
  OneThreadPlugin() : TestPlugin(1, false, /*serializes=*/false) {}
  absl::StatusOr<LoadedExecutablePtr> CompileAndLoad(const std::string& module,
                                                     const std::string& options) override {
    if (inside.exchange(true)) overlapped = true;
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    inside = false;
    return TestPlugin::CompileAndLoad(module, options);
  }
  std::atomic<bool> inside = false, overlapped = false;
};

TEST_F(ExecutableCacheTest, InThisProcessOneCompilesAtATime) {
  OneThreadPlugin one_thread;
  for (int i = 0; i < 40; ++i) one_thread.Register(Cat("k", i), {{}, nullptr});
  auto cache = MakeExecutableCache(one_thread, compiler, {});
  std::vector<ExecutablePtr> executables;
  for (int i = 0; i < 40; ++i) executables.push_back(cache->Get(Named(i)));
  for (const ExecutablePtr& executable : executables) Await(executable);
  EXPECT_FALSE(one_thread.overlapped);
  EXPECT_EQ(one_thread.compiles, 40);
}

TEST_F(ExecutableCacheTest, ClearDropsWhatNobodyUses) {
  auto cache = Make();
  const ExecutablePtr used = cache->Get(Named(0));
  Await(used);
  Use(*cache, 1);
  cache.reset();
  cache = Make();
  const ExecutablePtr kept = cache->Get(Named(0));
  Await(kept);
  Use(*cache, 1);
  int64_t dropped = cache->Clear();
  EXPECT_TRUE(Files().empty());
  while (cache->List().size() > 1) {  // the thread that loaded it may hold it a moment longer
    std::this_thread::yield();
    dropped += cache->Clear();
  }
  EXPECT_EQ(dropped, 2 + 1);  // two files, one entry
  EXPECT_NE(kept->loaded(), nullptr);
  EXPECT_EQ(cache->List().size(), 1u);
}

TEST_F(ExecutableCacheTest, TwoDaemonsShareADirectory) {
  auto one = Make(), other = Make();
  for (int i = 0; i < 20; ++i) {
    std::thread here([&] { Use(*one, i); });
    Use(*other, i);
    here.join();
  }
  one.reset();
  other.reset();
  auto third = Make();
  const int64_t before = compiler.requests;
  for (int i = 0; i < 20; ++i) Use(*third, i);
  EXPECT_EQ(compiler.requests, before);
}

TEST_F(ExecutableCacheTest, AnAnswerAfterTheEndIsDropped) {
  auto cache = Make();
  compiler.Hold(true);
  const ExecutablePtr executable = cache->Get(Named(0));
  cache.reset();
  EXPECT_TRUE(compiler.AnswerNext());
  EXPECT_EQ(executable->loaded(), nullptr);
}

}  // namespace
}  // namespace neurond
