#include "runtime/program/program_store.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gtest/gtest.h"
#include "runtime/base/disk_store.h"
#include "runtime/base/hash.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/program/program_codec.h"
#include "tests/unit/session/test_plugin.h"

namespace neurond {
namespace {

namespace fs = std::filesystem;

// The smallest Graph: its input, copied into a new Buffer.
Graph Identity(std::string_view name) {
  Graph graph;
  graph.name = name;
  graph.buffers = {{DType::kF32, 4}};
  graph.inputs = {{0, {DType::kF32, {4}, {1}, -1}}};
  OutputSpec output;
  output.value = 0;
  output.strides = {1};
  graph.outputs = {output};
  return graph;
}

class ProgramStoreTest : public testing::Test {
 protected:
  ProgramStoreTest() {
    char name[] = "/tmp/neurond-programs-XXXXXX";
    directory = mkdtemp(name);
    cache = MakeExecutableCache(plugin, compiler, {});
    decode = [this](std::string_view bytes) -> absl::StatusOr<Graph> {
      ++decodes;
      if (bytes == "garbage") return absl::InvalidArgumentError("not a Program");
      return Identity(bytes);
    };
  }
  ~ProgramStoreTest() override { fs::remove_all(directory); }

  std::unique_ptr<ProgramStore> Make(const std::string& build_id = "build 1") {
    return MakeProgramStore(*cache, directory, build_id);
  }
  // Damages every file whose name ends so.
  void Damage(const std::string& suffix) {
    for (const auto& file : fs::recursive_directory_iterator(directory)) {
      if (!file.path().string().ends_with(suffix)) continue;
      std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(70);
      bytes.put('x');
      bytes.put('y');
    }
  }

  std::string directory;
  TestPlugin plugin;
  TestCompiler compiler;
  std::unique_ptr<ExecutableCache> cache;
  ProgramStore::Decode decode;
  std::atomic<int> decodes = 0;
};

TEST_F(ProgramStoreTest, EqualBytesAreLoweredOnce) {
  auto store = Make();
  const auto first = store->Define("one", decode);
  const auto again = store->Define("one", decode);
  const auto other = store->Define("two", decode);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE((*first)->id, (*other)->id);
  EXPECT_EQ((*first)->program->name, "one");
  EXPECT_EQ(store->Find((*first)->id), *first);
  EXPECT_EQ(store->Find(0), nullptr);
  EXPECT_EQ(store->Find(3), nullptr);
  EXPECT_EQ(store->counters().lowerings, 2);
  EXPECT_EQ(store->counters().memory_hits, 1);
  EXPECT_EQ(store->counters().programs, 2);
  EXPECT_EQ(decodes, 2);
}

TEST_F(ProgramStoreTest, ConcurrentDefinesLowerOnce) {
  auto store = Make();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) EXPECT_TRUE(store->Define(Cat("p", k), decode).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->counters().lowerings, 20);
  EXPECT_EQ(decodes, 20);
}

TEST_F(ProgramStoreTest, ANewProcessNeitherDecodesNorLowers) {
  std::string module;
  {
    auto store = Make();
    const auto stored = store->Define("one", decode);
    ASSERT_TRUE(stored.ok());
    module = (*stored)->program->module;
    store->Remember("key", "meta", *stored);
  }
  decodes = 0;
  auto store = Make();
  const auto stored = store->Define("one", decode);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ((*stored)->program->module, module);
  EXPECT_EQ(store->counters().lowerings, 0);
  EXPECT_EQ(store->counters().disk_hits, 1);
  EXPECT_EQ(decodes, 0);
}

TEST_F(ProgramStoreTest, AnAliasLeadsToItsProgramInTheNextProcess) {
  {
    auto store = Make();
    EXPECT_TRUE(absl::IsNotFound(store->Lookup("key").status()));
    const auto stored = store->Define("one", decode);
    ASSERT_TRUE(stored.ok());
    store->Remember("key", std::string("me\0ta", 5), *stored);
    EXPECT_EQ(store->Lookup("key")->program, *stored);
    EXPECT_EQ(store->counters().alias_hits, 1);
    EXPECT_EQ(store->counters().alias_misses, 1);
  }
  auto store = Make();
  const auto known = store->Lookup("key");
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->program->program->name, "one");
  EXPECT_EQ(known->meta, std::string("me\0ta", 5));
  EXPECT_EQ(store->Find(known->program->id), known->program);
  EXPECT_EQ(*store->Define("one", decode), known->program);
  EXPECT_TRUE(absl::IsNotFound(store->Lookup("kez").status()));
  EXPECT_EQ(store->counters().lowerings, 0);
}

TEST_F(ProgramStoreTest, AnotherBuildMeetsNothingOld) {
  {
    auto store = Make("build 1");
    store->Remember("key", "meta", *store->Define("one", decode));
  }
  auto store = Make("build 2");
  EXPECT_TRUE(absl::IsNotFound(store->Lookup("key").status()));
  ASSERT_TRUE(store->Define("one", decode).ok());
  EXPECT_EQ(store->counters().lowerings, 1);
}

TEST_F(ProgramStoreTest, AKeyIsRememberedWithoutAProgramUntilTheNextBuild) {
  {
    auto store = Make("build 1");
    store->Remember("key", "refused", nullptr);
    ASSERT_TRUE(store->Lookup("key").ok());
    EXPECT_EQ(store->Lookup("key")->program, nullptr);
  }
  {
    auto store = Make("build 1");
    const auto known = store->Lookup("key");
    ASSERT_TRUE(known.ok());
    EXPECT_EQ(known->program, nullptr);
    EXPECT_EQ(known->meta, "refused");
    EXPECT_EQ(store->counters().alias_hits, 1);
  }
  EXPECT_TRUE(absl::IsNotFound(Make("build 2")->Lookup("key").status()));
}

TEST_F(ProgramStoreTest, AProgramWhoseFileIsGoneIsAMiss) {
  {
    auto store = Make();
    store->Remember("key", "meta", *store->Define("one", decode));
  }
  fs::remove_all(directory + "/programs");
  auto store = Make();
  EXPECT_TRUE(absl::IsNotFound(store->Lookup("key").status()));
  store->Remember("key", "meta", *store->Define("one", decode));
  EXPECT_TRUE(store->Lookup("key").ok());
  EXPECT_EQ(store->counters().lowerings, 1);
}

TEST_F(ProgramStoreTest, AliasesInMemoryAreBounded) {
  auto store = MakeProgramStore(*cache, "", "build 1");
  store->Remember(std::string(kAliasBytesMax + 1, 'k'), "meta", nullptr);
  EXPECT_FALSE(store->Lookup(std::string(kAliasBytesMax + 1, 'k')).ok());
  for (int64_t i = 0; i < kAliasesMax; ++i) store->Remember(Cat(i), "meta", nullptr);
  EXPECT_TRUE(store->Lookup("0").ok());
  store->Remember("one more", "meta", nullptr);
  EXPECT_FALSE(store->Lookup("0").ok());
  EXPECT_TRUE(store->Lookup("one more").ok());
  const std::string large(kAliasBytesMax, 'm');
  for (int64_t bytes = 0; bytes < kAliasMemoryBytesMax; bytes += kAliasBytesMax) {
    store->Remember(Cat("large ", bytes), large, nullptr);
  }
  EXPECT_FALSE(store->Lookup("one more").ok());
}

TEST_F(ProgramStoreTest, BeyondTheBoundTheLongestUnusedThatNobodyHoldsGo) {
  // Room for two: a third costs more than its overhead.
  auto store = MakeProgramStore(*cache, directory, "build 1", 3 * kProgramOverheadBytes);
  const uint64_t first = (*store->Define("first", decode))->id;
  const StoredProgramPtr held = *store->Define("held", decode);
  store->Remember("key", "meta", held);
  EXPECT_NE(store->Find(first), nullptr);  // used after "held" was
  const uint64_t third = (*store->Define("third", decode))->id;
  EXPECT_EQ(store->Find(first), nullptr);
  EXPECT_EQ(store->Find(held->id), held);
  EXPECT_NE(store->Find(third), nullptr);
  EXPECT_EQ(store->Lookup("key")->program, held);
  EXPECT_EQ(store->counters().programs, 2);
  const auto again = store->Define("first", decode);
  ASSERT_TRUE(again.ok());
  EXPECT_NE((*again)->id, first);
  EXPECT_EQ(store->Find(third), nullptr);
}

TEST_F(ProgramStoreTest, AKeyLeadsToItsProgramAlsoWhenThatWasDropped) {
  auto store = MakeProgramStore(*cache, directory, "build 1", 0);
  store->Remember("key", "meta", *store->Define("one", decode));
  ASSERT_TRUE(store->Define("two", decode).ok());
  EXPECT_EQ(store->counters().programs, 1);
  while (!fs::exists(directory + "/programs") ||
         std::distance(fs::recursive_directory_iterator(directory + "/programs"), {}) < 4) {
    std::this_thread::yield();  // two folders, two files
  }
  const auto known = store->Lookup("key");
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->program->program->name, "one");
  EXPECT_EQ(store->counters().lowerings, 2);
}

TEST_F(ProgramStoreTest, DamagedFilesAreMisses) {
  {
    auto store = Make();
    store->Remember("key", "meta", *store->Define("one", decode));
  }
  Damage(".nprog");
  {
    auto store = Make();
    EXPECT_TRUE(absl::IsNotFound(store->Lookup("key").status()));
    EXPECT_TRUE(store->Define("one", decode).ok());
    EXPECT_EQ(store->counters().lowerings, 1);
  }
  Damage(".nalias");
  auto store = Make();
  EXPECT_TRUE(absl::IsNotFound(store->Lookup("key").status()));
  EXPECT_TRUE(store->Define("one", decode).ok());
  EXPECT_EQ(store->counters().disk_hits, 1);
}

// Two keys and two Programs with one hash are not to be had: a file is put in the other one's
// place.
TEST_F(ProgramStoreTest, AFileOfAnotherKeyOrProgramUnderTheSameHashIsAMiss) {
  {
    auto store = Make();
    store->Remember("key", "meta", *store->Define("one", decode));
  }
  const auto pass_off = [this](const char* folder, const char* suffix, const char* as) {
    DiskStore store(Cat(directory, "/", folder), suffix, HashBytes("build 1").low, 1 << 20);
    const auto blob = store.Read(HashBytes(folder == std::string("aliases") ? "key" : "one"));
    ASSERT_TRUE(blob.has_value());
    store.Write(HashBytes(as), *blob);
    EXPECT_EQ(store.Read(HashBytes(as)), blob);
  };
  pass_off("aliases", ".nalias", "other key");
  pass_off("programs", ".nprog", "two");
  auto store = Make();
  EXPECT_TRUE(absl::IsNotFound(store->Lookup("other key").status()));
  EXPECT_TRUE(store->Lookup("key").ok());
  const auto two = store->Define("two", decode);
  ASSERT_TRUE(two.ok());
  EXPECT_EQ((*two)->program->name, "two");
  EXPECT_EQ(store->counters().lowerings, 1);
}

TEST_F(ProgramStoreTest, RefusedProgramsAreNotStored) {
  auto store = Make();
  EXPECT_TRUE(absl::IsInvalidArgument(store->Define("garbage", decode).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store->Define("garbage", decode).status()));
  EXPECT_EQ(store->counters().refused, 2);
  EXPECT_EQ(store->counters().programs, 0);
}

TEST_F(ProgramStoreTest, AModuleWithAWrongSignatureIsRefused) {
  auto store = Make();
  Program program;
  program.name = "m";
  program.module = "m";
  program.created = {{DType::kF32, 4}};
  program.created_results = {3};
  program.result_count = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(store->DefineModule(program).status()));
  program.created_results = {0};
  const auto stored = store->DefineModule(program);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(*store->DefineModule(program), *stored);
  EXPECT_EQ(store->counters().lowerings, 0);  // there was nothing to lower
  EXPECT_EQ(store->counters().programs, 1);
}

Program Full() {
  Program p;
  p.name = "full";
  p.buffers = {{DType::kF32, 4}, {DType::kI64, 2}, {DType::kBool, 0}};
  p.parameters = {1, 0};
  p.created = {{DType::kC128, 3}, {DType::kF16, 0}};
  p.created_results = {0, -1};
  p.written = {0};
  p.written_results = {1};
  p.check_result = 2;
  p.checks = {{ErrorKind::kIndex, "index {value}"}};
  p.bounds = {{1, 0, 2, 4}};
  p.word_count = 2;
  p.result_count = 3;
  p.module = std::string("mod\0ule", 7);
  p.detail = "float32[4]";
  p.stack = "a.py:3";
  return p;
}

std::string Encoded(const Program& program) {
  ByteWriter writer;
  EncodeProgram(program, writer);
  return writer.Take();
}

TEST(ProgramCodecTest, EveryFieldComesBack) {
  const std::string bytes = Encoded(Full());
  ByteReader reader(bytes);
  const std::optional<Program> p = DecodeProgram(reader);
  ASSERT_TRUE(p.has_value());
  EXPECT_TRUE(reader.AtEnd());
  const Program full = Full();
  EXPECT_EQ(p->name, full.name);
  EXPECT_EQ(p->buffers, full.buffers);
  EXPECT_EQ(p->created, full.created);
  EXPECT_EQ(p->checks[0].kind, ErrorKind::kIndex);
  EXPECT_EQ(p->bounds[0].elements, 4);
  EXPECT_EQ(p->module, full.module);
  EXPECT_EQ(Encoded(*p), bytes);  // and everything else
}

TEST(ProgramCodecTest, EveryTruncationIsRefused) {
  const std::string bytes = Encoded(Full());
  for (size_t length = 0; length < bytes.size(); ++length) {
    ByteReader reader(std::string_view(bytes).substr(0, length));
    EXPECT_FALSE(DecodeProgram(reader).has_value()) << length;
  }
}

TEST(ProgramCodecTest, IndicesOutOfRangeAreRefused) {
  const auto refused = [](void (*spoil)(Program&)) {
    Program program = Full();
    spoil(program);
    return !CheckProgram(program).ok();
  };
  EXPECT_TRUE(CheckProgram(Full()).ok());
  EXPECT_TRUE(refused([](Program& p) { p.parameters = {0, 3}; }));
  EXPECT_TRUE(refused([](Program& p) { p.parameters = {0, 0}; }));
  EXPECT_TRUE(refused([](Program& p) { p.parameters = {2}; }));
  EXPECT_TRUE(refused([](Program& p) { p.written = {-1}; }));
  EXPECT_TRUE(refused([](Program& p) { p.written_results = {3}; }));
  EXPECT_TRUE(refused([](Program& p) { p.written_results = {0}; }));
  EXPECT_TRUE(refused([](Program& p) { p.created_results = {-1, -1}; }));
  EXPECT_TRUE(refused([](Program& p) { p.check_result = 7; }));
  EXPECT_TRUE(refused([](Program& p) { p.checks.clear(); }));
  EXPECT_TRUE(refused([](Program& p) { p.bounds[0].word = 2; }));
  EXPECT_TRUE(refused([](Program& p) { p.buffers[0].dtype = DType::kInvalid; }));
  EXPECT_TRUE(refused([](Program& p) { p.buffers[1].elements = -1; }));
}

}  // namespace
}  // namespace neurond
