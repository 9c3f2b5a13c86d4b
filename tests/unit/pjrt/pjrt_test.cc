// Parts of the PJRT plugin, and what its library does that the conformance tests (tests/cts) cannot
// ask of every plugin.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "plugins/pjrt/compile_options.h"
#include "plugins/pjrt/fingerprint.h"
#include "plugins/pjrt/library_check.h"
#include "plugins/pjrt/library_pages.h"
#include "plugins/pjrt/module_check.h"
#include "plugins/registry/registry.h"
#include "tests/cts/cts_support.h"

namespace neurond::pjrt {
namespace {

using cts::Completion;

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (unsigned char c : bytes) {
    hex += "0123456789abcdef"[c >> 4];
    hex += "0123456789abcdef"[c & 15];
  }
  return hex;
}

TEST(CompileOptionsTest, WithoutOptionsTheyNameOneReplicaOnePartitionPortable) {
  EXPECT_EQ(Hex(*SerializeCompileOptions("")),
            "1a0420012801"
            "2001");
  EXPECT_EQ(*SerializeCompileOptions(" , "), *SerializeCompileOptions(""));
}

TEST(CompileOptionsTest, OverridesAreTypedByTheirLook) {
  const std::string base = "1a04200128012001";
  // 3a: map entry; 0a: its key; 12: its value.
  EXPECT_EQ(Hex(*SerializeCompileOptions("a=true")), base + "3a070a016112021001");
  EXPECT_EQ(Hex(*SerializeCompileOptions("a=false")), base + "3a070a016112021000");
  EXPECT_EQ(Hex(*SerializeCompileOptions("a=300")), base + "3a080a0161120318ac02");
  EXPECT_EQ(Hex(*SerializeCompileOptions("a=0.5")), base + "3a0e0a0161120921000000000000e03f");
  EXPECT_EQ(Hex(*SerializeCompileOptions("a=xy, b=true")),
            base + "3a090a016112040a027879" + "3a070a016212021001");
}

TEST(CompileOptionsTest, APairWithoutANameOrValueIsNamed) {
  for (const char* text : {"a", "=1", "a=1,b"}) {
    EXPECT_EQ(SerializeCompileOptions(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(ModuleCheckTest, SizesThatEndTheCompilerAreRefused) {
  EXPECT_TRUE(CheckModule("tensor<4x4xf32> tensor<f32> tensor<17179869184xi8>").ok());
  for (const char* type :
       {"tensor<17179869185xi8>", "tensor<137438953472xf32>", "tensor<1048576x1048576xf32>",
        "tensor<4x99999999999999999999999xf32>", "(tensor<2xf32>) -> tensor<999999999999x2xi1>"}) {
    EXPECT_EQ(CheckModule(type).code(), absl::StatusCode::kInvalidArgument) << type;
  }
}

TEST(ModuleCheckTest, HugeConvolutionDimensionNumbersAreRefused) {
  const std::string good =
      "stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], "
      "window = {stride = [123456, 1]}";
  EXPECT_TRUE(CheckModule(good).ok());
  std::string bad = good;
  bad.replace(bad.find("[o, i, 0"), 8, "[o, i, 4294967296");
  EXPECT_EQ(CheckModule(bad).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckModule("#stablehlo.conv<[b, f, 99999999999]x[o, i, 0]->[b, f, 0]>").code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ModuleCheckTest, CollectivesNeedEveryParticipantHere) {
  const std::string op = "%0 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<0> : tensor<";
  EXPECT_TRUE(CheckModule(op + "1x1xi64>}> ({").ok());
  EXPECT_EQ(CheckModule(op + "1x2xi64>}> ({").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CheckModule(op + "2x16xi64>}> ({").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CheckModule("\"stablehlo.collective_permute\"(%a)").code(),
            absl::StatusCode::kUnimplemented);
}

TEST(FingerprintTest, FollowsTheContentAndIsKept) {
  const std::filesystem::path directory = testing::TempDir() + "/fingerprint_test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory / "keep");
  const std::string library = directory / "lib.so", keep = directory / "keep";
  std::ofstream(library) << "one";
  const std::string one = *FileFingerprint(library, keep);
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(*FileFingerprint(library, ""), one);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(keep), {}), 1);
  EXPECT_EQ(*FileFingerprint(library, keep), one) << "from the kept file";
  std::ofstream(library) << "two";
  EXPECT_NE(*FileFingerprint(library, keep), one);
  // A kept hash of something else, or a broken one, is made anew.
  const std::string right = *FileFingerprint(library, "");
  const std::filesystem::path kept = std::filesystem::directory_iterator(keep)->path();
  std::ofstream(kept) << "nonsense";
  EXPECT_EQ(*FileFingerprint(library, keep), right);
  std::ifstream in(kept);
  const std::string good(std::istreambuf_iterator<char>(in), {});
  for (size_t i = 0; i < good.size(); ++i) {
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    std::ofstream(kept) << flipped;
    EXPECT_EQ(*FileFingerprint(library, keep), right) << "flipped at " << i;
    std::filesystem::resize_file(kept, i);
    EXPECT_EQ(*FileFingerprint(library, keep), right) << "truncated to " << i;
  }
  const std::function<void()> strangers[] = {
      [&] { std::filesystem::create_directory(kept); },
      [&] { ASSERT_EQ(mkfifo(kept.c_str(), 0600), 0); },
      [&] { std::filesystem::create_symlink("/dev/zero", kept); },
      [&] { std::filesystem::create_symlink(kept, kept); },
  };
  for (const auto& put : strangers) {
    std::filesystem::remove(kept);
    put();
    EXPECT_EQ(*FileFingerprint(library, keep), right);
  }
  EXPECT_EQ(FileFingerprint(directory / "none", keep).status().code(), absl::StatusCode::kNotFound);
}

TEST(PjrtLibraryTest, WhatIsNoPluginIsRefusedByName) {
  const auto missing = MakePlugin({"pjrt", "/no/such/library.so", {}, ""});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("/no/such/library.so"), absl::string_view::npos);
  const auto other = MakePlugin({"pjrt", "libm.so.6", {}, ""});
  EXPECT_NE(other.status().message().find("GetPjrtApi"), absl::string_view::npos) << other.status();
}

// The dynamic loader ends the process on the first of these and waits for ever on the last.
TEST(PjrtLibraryTest, WhatTheLoaderCannotSurviveIsRefused) {
  const std::filesystem::path directory = testing::TempDir() + "/library_test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory / "folder.so");
  const std::string cut = directory / "cut.so", pipe = directory / "pipe.so";
  Dl_info library;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&fopen), &library), 0);
  std::filesystem::copy_file(library.dli_fname, cut);
  EXPECT_TRUE(CheckLibrary(cut).ok()) << CheckLibrary(cut);
  for (const uintmax_t bytes : {std::filesystem::file_size(cut) / 2, uintmax_t{100}}) {
    std::filesystem::resize_file(cut, bytes);
    const auto refused = MakePlugin({"pjrt", cut, {}, ""});
    EXPECT_NE(refused.status().message().find("cut short"), absl::string_view::npos)
        << refused.status();
  }
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string(directory / "folder.so")}) {
    const auto refused = MakePlugin({"pjrt", path, {}, ""});
    EXPECT_EQ(refused.status().message(), path + " is not a file");
  }
  std::ofstream(directory / "text.so") << "no library";
  EXPECT_FALSE(MakePlugin({"pjrt", directory / "text.so", {}, ""}).ok());
}

class PjrtPluginTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("NEURON_PJRT_PLUGIN");
    if (path == nullptr) GTEST_SKIP() << "NEURON_PJRT_PLUGIN names no PJRT library";
    path_ = path;
  }
  Plugin& plugin() {
    static Plugin* const plugin =
        MakePlugin({"pjrt", path_, {{"cpu_device_count", "2"}}, ""})->release();
    return *plugin;
  }
  std::string path_;
};

TEST_F(PjrtPluginTest, CreateOptionsReachTheLibrary) {
  EXPECT_EQ(plugin().device_count(), 2);
  EXPECT_TRUE(plugin().traits(1).host_memory);
  EXPECT_EQ(plugin().traits(1).name, "cpu:1");
  const auto unknown = MakePlugin({"pjrt", path_, {{"no_such_option", "1"}}, ""});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument) << unknown.status();
  for (const char* count : {"-1", "0", "128", "many", ""}) {
    const auto refused = MakePlugin({"pjrt", path_, {{"cpu_device_count", count}}, ""});
    EXPECT_NE(refused.status().message().find("expected 1 to 127"), absl::string_view::npos)
        << refused.status();
  }
}

constexpr char kTanh[] = R"(module @tanh {
  func.func public @main(%arg0: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
)";

TEST_F(PjrtPluginTest, CompileOptionsAreUnderstoodAndUnknownOnesRefused) {
  EXPECT_TRUE(plugin().Compile(kTanh, "xla_cpu_enable_fast_math=true").ok());
  EXPECT_TRUE(plugin().Compile(kTanh, "xla_backend_optimization_level=0").ok());
  EXPECT_EQ(plugin().Compile(kTanh, "no_such_flag=1").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PjrtPluginTest, ParseErrorsKeepTheirTextAndAreInvalidArgument) {
  const absl::Status status = plugin().Compile("module @m { nonsense }", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(status.message().empty());
}

// Takes long enough that Execute returns first. The updated buffer is 1024 x 1024.
constexpr char kSlow[] = R"(module @slow {
  func.func public @main(%arg0: tensor<1048576xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1048576xf32> {
    %0 = stablehlo.reshape %arg0 : (tensor<1048576xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %2 = stablehlo.reshape %1 : (tensor<1024x1024xf32>) -> tensor<1048576xf32>
    return %2 : tensor<1048576xf32>
  }
}
)";

TEST_F(PjrtPluginTest, ReadsOfAResultThatIsStillComputedSeeItAndNotALaterDonation) {
  auto slow = plugin().CompileAndLoad(kSlow, "");
  ASSERT_TRUE(slow.ok()) << slow.status();
  // Twice the identity: each product doubles it.
  std::vector<float> identity(1 << 20, 0);
  for (int i = 0; i < 1024; ++i) identity[i * 1025] = 2;
  DeviceBufferPtr value = *plugin().Upload(0, DType::kF32, 1 << 20, identity.data());
  bool was_pending = false;
  for (float expected : {4.f, 16.f}) {
    const bool donate[] = {true};
    DeviceBuffer* arguments[] = {value.get()};
    Completion done, part, whole;
    auto result = (*slow)->Execute(0, arguments, donate, done.callback());
    ASSERT_TRUE(result.ok()) << result.status();
    value = result->outputs[0];
    was_pending |= !value->IsReady();
    float one[2] = {-1, -1};
    std::vector<float> all(1 << 20);
    ASSERT_TRUE(plugin().Download(*value, 1025 * 4 - 4, 8, one, part.callback()).ok());
    ASSERT_TRUE(plugin().Download(*value, 0, 4 << 20, all.data(), whole.callback()).ok());
    // The next product takes the buffer away at once.
    DeviceBuffer* again[] = {value.get()};
    Completion next;
    auto product = (*slow)->Execute(0, again, donate, next.callback());
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_TRUE(part.Wait().ok());
    EXPECT_TRUE(whole.Wait().ok());
    EXPECT_EQ(one[0], 0);
    EXPECT_EQ(one[1], expected);
    EXPECT_EQ(all[0], expected);
    EXPECT_EQ(all[1], 0);
    EXPECT_TRUE(next.Wait().ok());
    EXPECT_TRUE(done.Wait().ok());
    EXPECT_EQ(done.count(), 1);
    value = *plugin().Upload(0, DType::kF32, 1 << 20, all.data());
  }
  EXPECT_TRUE(was_pending) << "the program was too fast to test anything";
}

TEST_F(PjrtPluginTest, RunningOutOfMemoryInExecuteDonatesNothing) {
  auto big = plugin().CompileAndLoad(R"(module @big {
  func.func public @main(%arg0: tensor<16xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<16xf32>, tensor<17179869184xf64>) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<16xf32>
    %1 = stablehlo.slice %0 [0:1] : (tensor<16xf32>) -> tensor<1xf32>
    %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
    %3 = stablehlo.convert %2 : (tensor<f32>) -> tensor<f64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f64>) -> tensor<17179869184xf64>
    return %0, %4 : tensor<16xf32>, tensor<17179869184xf64>
  }
}
)",
                                     "");
  ASSERT_TRUE(big.ok()) << big.status();
  const std::vector<float> ones(16, 1);
  DeviceBufferPtr a = *plugin().Upload(0, DType::kF32, 16, ones.data());
  const bool donate[] = {true};
  DeviceBuffer* arguments[] = {a.get()};
  Completion done;
  auto result = (*big)->Execute(0, arguments, donate, done.callback());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
  EXPECT_EQ(done.count(), 0);
  EXPECT_EQ(cts::Values<float>(plugin(), *a), ones);
}

TEST_F(PjrtPluginTest, ACollectiveOfAbsentParticipantsIsRefused) {
  // It would wait 40 s for them and then end the process.
  const absl::Status status = plugin()
                                  .Compile(R"(module @all_reduce {
  func.func public @main(%arg0: tensor<16xf32>) -> tensor<16xf32> {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
)",
                                           "")
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

// A variable set for the length of a scope.
// Resident bytes of the mappings of the library that cannot be written.
int64_t ResidentReadOnlyBytes(const std::string& library) {
  const std::string path = "/" + std::filesystem::path(library).filename().string();
  std::ifstream maps("/proc/self/smaps");
  bool counts = false;
  int64_t bytes = 0;
  long kib = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(':') && line.find(path) != std::string::npos) {
      counts = line[line.find(' ') + 2] == '-';
    } else if (line.find('-') < line.find(' ')) {
      counts = false;
    } else if (counts && std::sscanf(line.c_str(), "Rss: %ld kB", &kib) == 1) {
      bytes += kib * 1024;
    }
  }
  return bytes;
}

TEST_F(PjrtPluginTest, PagesThatOnlyTheStartUsedAreGivenBackAndReadAgain) {
  plugin();
  void* const library = dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto* code = static_cast<const char*>(dlsym(library, "GetPjrtApi"));
  ASSERT_NE(code, nullptr);
  // Every page of a stretch of code, read: resident, then not, then the same again.
  constexpr int kPages = 256;
  const auto sum = [&] {
    uint64_t total = 0;
    for (int i = 0; i < kPages; ++i) total += static_cast<unsigned char>(code[i * 4096]);
    return total;
  };
  const uint64_t before = sum();
  const int64_t resident = ResidentReadOnlyBytes(path_);
  ASSERT_GE(resident, int64_t{kPages} * 4096);
  ReleaseReadOnlyPages(code);
  EXPECT_LT(ResidentReadOnlyBytes(path_), resident - int64_t{kPages} * 2048);
  EXPECT_EQ(sum(), before);
}

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST(FingerprintTest, HoldsWhatTheCompilerReadsOfItsProcess) {
  const std::string plain = CompileEnvironment();
  EXPECT_NE(std::getenv("PJRT_NPROC"), nullptr) << "fixed for child processes";
  EXPECT_EQ(CompileEnvironment(), plain);
  for (const char* name : {"PJRT_NPROC", "XLA_FLAGS"}) {
    const ScopedVariable set(name, "73");
    EXPECT_NE(CompileEnvironment(), plain) << name;
  }
}

TEST_F(PjrtPluginTest, TheFingerprintHoldsWhatAWorkerMustShare) {
  PluginConfig config{"pjrt", path_, {{"cpu_device_count", "2"}}, ""};
  const auto fingerprint = [&] { return (*MakePlugin(config))->fingerprint(); };
  const std::string usual = fingerprint();
  config.options["cpu_device_count"] = "1";
  EXPECT_EQ(fingerprint(), usual) << "a worker has one device";
  {
    const ScopedVariable threads("PJRT_NPROC", "3");
    EXPECT_NE(fingerprint(), usual);
  }
  config.options["asynchronous"] = "false";
  EXPECT_NE(fingerprint(), usual);
}

}  // namespace
}  // namespace neurond::pjrt
