// The conformance test suite: what every Plugin must do, run against each one. A new plugin adds
// itself to Kinds().

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "plugins/registry/registry.h"
#include "tests/cts/cts_support.h"

namespace neurond {
namespace {

using cts::Aligned;
using cts::Completion;
using cts::Values;

class PluginCts : public testing::TestWithParam<cts::Kind> {
 protected:
  void SetUp() override {
    if (GetParam().needs_library() && GetParam().config.path.empty()) {
      GTEST_SKIP() << "NEURON_PJRT_PLUGIN names no PJRT library";
    }
  }

  // One plugin per kind for the whole suite: a client has threads and takes milliseconds to make.
  Plugin& plugin() { return cts::Shared(GetParam()); }

  DeviceBufferPtr Upload(const std::vector<float>& values, int device = 0) {
    auto buffer = plugin().Upload(device, DType::kF32, values.size(), values.data());
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *buffer : nullptr;
  }

  std::vector<float> Read(DeviceBuffer& buffer) { return Values<float>(plugin(), buffer); }

  LoadedExecutablePtr Load(const std::string& module) {
    auto serialized = plugin().Compile(module, "");
    EXPECT_TRUE(serialized.ok()) << serialized.status();
    if (!serialized.ok()) return nullptr;
    auto loaded = plugin().Load(*serialized);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *loaded : nullptr;
  }

  // Executes and waits; expects success.
  std::vector<DeviceBufferPtr> Run(LoadedExecutable& executable,
                                   const std::vector<DeviceBuffer*>& arguments,
                                   std::initializer_list<bool> donate, int device = 0) {
    std::unique_ptr<bool[]> flags(new bool[arguments.size() + 1]);
    std::copy(donate.begin(), donate.end(), flags.get());
    Completion completion;
    auto result = executable.Execute(device, arguments, {flags.get(), arguments.size()},
                                     completion.callback());
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    EXPECT_TRUE(completion.Wait().ok());
    return std::move(result->outputs);
  }
};

constexpr char kAdd[] = R"(module @cts_add {
  func.func public @main(%arg0: tensor<16xf32>, %arg1: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
)";

// The first argument may be updated in place.
constexpr char kAddInPlace[] = R"(module @cts_add_in_place {
  func.func public @main(%arg0: tensor<16xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
)";

std::vector<float> Ramp(int n, float start = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), start);
  return v;
}

TEST_P(PluginCts, NamesItsDevicesAndItself) {
  ASSERT_EQ(plugin().device_count(), 4);
  EXPECT_FALSE(plugin().name().empty());
  EXPECT_FALSE(plugin().fingerprint().empty());
  EXPECT_EQ(plugin().fingerprint(), plugin().fingerprint());
  std::set<std::string> names;
  for (int i = 0; i < 4; ++i) {
    names.insert(plugin().traits(i).name);
    EXPECT_FALSE(plugin().traits(i).platform.empty());
  }
  EXPECT_EQ(names.size(), 4u);
}

TEST_P(PluginCts, UploadThenDownloadGivesTheSameBytesForEveryElementType) {
  for (int t = 1; t < kDTypeCount; ++t) {
    const DType dtype = static_cast<DType>(t);
    std::vector<unsigned char> in(5 * DTypeBytes(dtype));
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = dtype == DType::kBool ? i % 2 : static_cast<unsigned char>(i * 7 + 1);
    }
    auto buffer = plugin().Upload(0, dtype, 5, in.data());
    ASSERT_TRUE(buffer.ok()) << TorchName(dtype) << " " << buffer.status();
    EXPECT_EQ((*buffer)->dtype(), dtype);
    EXPECT_EQ((*buffer)->elements(), 5);
    EXPECT_EQ(Values<unsigned char>(plugin(), **buffer), in) << TorchName(dtype);
  }
}

TEST_P(PluginCts, UploadCopiesBeforeItReturns) {
  for (int n : {1, 16, 1 << 20}) {
    std::vector<float> values = Ramp(n);
    DeviceBufferPtr buffer = Upload(values);
    std::fill(values.begin(), values.end(), -1.f);
    EXPECT_EQ(Read(*buffer), Ramp(n)) << n;
  }
}

TEST_P(PluginCts, DownloadReadsAnyRange) {
  DeviceBufferPtr buffer = Upload(Ramp(100));
  for (auto [offset, bytes] : {std::pair<int, int>{0, 400}, {4, 4}, {396, 4}, {13, 7}, {400, 0}}) {
    std::vector<char> out(bytes + 1, 'x');
    Completion completion;
    ASSERT_TRUE(plugin().Download(*buffer, offset, bytes, out.data(), completion.callback()).ok());
    ASSERT_TRUE(completion.Wait().ok());
    const std::vector<float> expected = Ramp(100);
    EXPECT_EQ(
        std::memcmp(out.data(), reinterpret_cast<const char*>(expected.data()) + offset, bytes), 0);
    EXPECT_EQ(out[bytes], 'x');
  }
}

TEST_P(PluginCts, DownloadOutOfRangeIsRefused) {
  DeviceBufferPtr buffer = Upload(Ramp(4));
  std::vector<char> out(64);
  for (auto [offset, bytes] :
       {std::pair<int64_t, int64_t>{0, 17}, {17, 0}, {-1, 4}, {4, -1}, {8, INT64_MAX}}) {
    Completion completion;
    EXPECT_EQ(plugin().Download(*buffer, offset, bytes, out.data(), completion.callback()).code(),
              absl::StatusCode::kInvalidArgument)
        << offset << " " << bytes;
    EXPECT_EQ(completion.count(), 0);
  }
}

TEST_P(PluginCts, ZeroAndNegativeSizesAreRefused) {
  alignas(64) static char block[64];
  for (int64_t elements : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    EXPECT_EQ(plugin().Upload(0, DType::kF32, elements, block).status().code(),
              absl::StatusCode::kInvalidArgument);
    int released = 0;
    EXPECT_EQ(plugin().Adopt(0, DType::kF32, elements, block, [&] { ++released; }).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(released, 0);
  }
  EXPECT_FALSE(plugin().Upload(0, DType::kInvalid, 1, block).ok());
  EXPECT_FALSE(plugin().Upload(4, DType::kF32, 1, block).ok());
  EXPECT_FALSE(plugin().Upload(-1, DType::kF32, 1, block).ok());
}

TEST_P(PluginCts, ReadyCallbackRunsOncePerRegistration) {
  DeviceBufferPtr buffer = Upload(Ramp(16));
  std::vector<std::unique_ptr<Completion>> completions;
  for (int i = 0; i < 3; ++i) {
    completions.push_back(std::make_unique<Completion>());
    buffer->OnReady(completions.back()->callback());
  }
  for (auto& completion : completions) EXPECT_TRUE(completion->Wait().ok());
  EXPECT_TRUE(buffer->IsReady());
  for (auto& completion : completions) EXPECT_EQ(completion->count(), 1);
}

TEST_P(PluginCts, AdoptedBlockIsReadAndReleasedOnceWhenTheBufferDies) {
  for (size_t misalign : {size_t{0}, size_t{4}}) {
    Aligned block(64 * sizeof(float) + misalign);
    float* data = reinterpret_cast<float*>(block.data() + misalign);
    std::iota(data, data + 64, 0.f);
    Completion released;
    auto buffer =
        plugin().Adopt(0, DType::kF32, 64, data, [&, cb = released.callback()] { cb(Error{}); });
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(Read(**buffer), Ramp(64)) << misalign;
    const bool zero_copy = plugin().traits(0).host_memory && misalign == 0;
    if (zero_copy) {
      EXPECT_EQ(released.count(), 0);
    }
    buffer->reset();
    EXPECT_TRUE(released.Wait().ok());
    EXPECT_EQ(released.count(), 1);
  }
}

TEST_P(PluginCts, AdoptedBlockOutlivesItsBufferThroughDonation) {
  if (!plugin().traits(0).host_memory) GTEST_SKIP() << "no zero copy on this plugin";
  LoadedExecutablePtr add = Load(kAddInPlace);
  Aligned block(16 * sizeof(float));
  float* data = reinterpret_cast<float*>(block.data());
  std::iota(data, data + 16, 0.f);
  Completion released;
  auto buffer =
      plugin().Adopt(0, DType::kF32, 16, data, [&, cb = released.callback()] { cb(Error{}); });
  ASSERT_TRUE(buffer.ok());
  DeviceBufferPtr ones = Upload(std::vector<float>(16, 1));
  auto outputs = Run(*add, {buffer->get(), ones.get()}, {true, false});
  buffer->reset();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(Read(*outputs[0]), Ramp(16, 1));
  EXPECT_EQ(data[0], 1.f) << "updated in place, in our block";
  EXPECT_EQ(released.count(), 0) << "the heir still uses the block";
  outputs.clear();
  EXPECT_TRUE(released.Wait().ok());
  EXPECT_EQ(released.count(), 1);
}

TEST_P(PluginCts, ExecuteAddsAndReportsItsOutputs) {
  LoadedExecutablePtr add = Load(kAdd);
  DeviceBufferPtr a = Upload(Ramp(16)), b = Upload(Ramp(16, 100));
  auto outputs = Run(*add, {a.get(), b.get()}, {false, false});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0]->dtype(), DType::kF32);
  EXPECT_EQ(outputs[0]->elements(), 16);
  EXPECT_EQ(outputs[0]->device(), 0);
  std::vector<float> expected(16);
  for (int i = 0; i < 16; ++i) expected[i] = 100 + 2 * i;
  EXPECT_EQ(Read(*outputs[0]), expected);
  EXPECT_EQ(Read(*a), Ramp(16));
}

TEST_P(PluginCts, TheSameBufferMayBeEveryArgument) {
  LoadedExecutablePtr add = Load(kAdd);
  DeviceBufferPtr a = Upload(Ramp(16));
  auto outputs = Run(*add, {a.get(), a.get()}, {false, false});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(Read(*outputs[0])[15], 30.f);
}

TEST_P(PluginCts, WithoutDonationAnAliasedArgumentKeepsItsContent) {
  LoadedExecutablePtr add = Load(kAddInPlace);
  DeviceBufferPtr a = Upload(Ramp(16)), b = Upload(std::vector<float>(16, 1));
  for (int i = 0; i < 3; ++i) {
    auto outputs = Run(*add, {a.get(), b.get()}, {false, false});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(Read(*outputs[0]), Ramp(16, 1));
    EXPECT_EQ(Read(*a), Ramp(16));
  }
}

TEST_P(PluginCts, DonationFlagOnAnUnaliasedArgumentGivesNothingAway) {
  LoadedExecutablePtr add = Load(kAdd);
  DeviceBufferPtr a = Upload(Ramp(16)), b = Upload(Ramp(16));
  auto outputs = Run(*add, {a.get(), b.get()}, {true, true});
  EXPECT_EQ(Read(*a), Ramp(16));
  EXPECT_EQ(Read(*b), Ramp(16));
}

TEST_P(PluginCts, ADonatedArgumentIsGone) {
  LoadedExecutablePtr add = Load(kAddInPlace);
  DeviceBufferPtr a = Upload(Ramp(16)), b = Upload(std::vector<float>(16, 1));
  auto outputs = Run(*add, {a.get(), b.get()}, {true, false});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(Read(*outputs[0]), Ramp(16, 1));
  const bool donate[] = {false, false};
  DeviceBuffer* arguments[] = {a.get(), b.get()};
  Completion completion;
  auto again = add->Execute(0, arguments, donate, completion.callback());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(completion.count(), 0);
  EXPECT_EQ(Read(*outputs[0]), Ramp(16, 1));
}

TEST_P(PluginCts, ALongChainOfDonationsAddsUp) {
  LoadedExecutablePtr add = Load(kAddInPlace);
  DeviceBufferPtr value = Upload(Ramp(16)), one = Upload(std::vector<float>(16, 1));
  for (int i = 0; i < 500; ++i) {
    auto outputs = Run(*add, {value.get(), one.get()}, {true, false});
    ASSERT_EQ(outputs.size(), 1u);
    value = outputs[0];
  }
  EXPECT_EQ(Read(*value), Ramp(16, 500));
}

TEST_P(PluginCts, WrongArgumentCountIsAnErrorAndNothingIsDonated) {
  LoadedExecutablePtr add = Load(kAddInPlace);
  DeviceBufferPtr a = Upload(Ramp(16));
  const bool donate[] = {true};
  DeviceBuffer* arguments[] = {a.get()};
  Completion completion;
  EXPECT_FALSE(add->Execute(0, arguments, donate, completion.callback()).ok());
  EXPECT_EQ(completion.count(), 0);
  EXPECT_EQ(Read(*a), Ramp(16));
}

TEST_P(PluginCts, WrongByteSizeIsAnErrorAndNothingIsDonated) {
  LoadedExecutablePtr add = Load(kAddInPlace);
  DeviceBufferPtr a = Upload(Ramp(16)), b = Upload(Ramp(8));
  const bool donate[] = {true, false};
  DeviceBuffer* arguments[] = {a.get(), b.get()};
  Completion completion;
  EXPECT_FALSE(add->Execute(0, arguments, donate, completion.callback()).ok());
  EXPECT_EQ(Read(*a), Ramp(16));
}

TEST_P(PluginCts, DonateFlagsMustMatchTheArguments) {
  LoadedExecutablePtr add = Load(kAdd);
  DeviceBufferPtr a = Upload(Ramp(16));
  const bool donate[] = {false};
  DeviceBuffer* arguments[] = {a.get(), a.get()};
  Completion completion;
  EXPECT_EQ(add->Execute(0, arguments, donate, completion.callback()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(PluginCts, OneExecutableRunsOnEveryDevice) {
  LoadedExecutablePtr add = Load(kAdd);
  for (int device = 0; device < 4; ++device) {
    DeviceBufferPtr a = Upload(Ramp(16), device), b = Upload(Ramp(16, device), device);
    auto outputs = Run(*add, {a.get(), b.get()}, {false, false}, device);
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(outputs[0]->device(), device);
    EXPECT_EQ(Read(*outputs[0])[0], static_cast<float>(device));
  }
}

TEST_P(PluginCts, ArgumentsOfAnotherDeviceAreRefused) {
  LoadedExecutablePtr add = Load(kAdd);
  DeviceBufferPtr a = Upload(Ramp(16), 0), b = Upload(Ramp(16), 1);
  const bool donate[] = {false, false};
  DeviceBuffer* arguments[] = {a.get(), b.get()};
  Completion completion;
  EXPECT_FALSE(add->Execute(0, arguments, donate, completion.callback()).ok());
  EXPECT_FALSE(add->Execute(4, arguments, donate, completion.callback()).ok());
  EXPECT_EQ(completion.count(), 0);
}

TEST_P(PluginCts, CopyToDeviceCopies) {
  DeviceBufferPtr a = Upload(Ramp(16), 0);
  auto copy = plugin().CopyToDevice(*a, 3);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ((*copy)->device(), 3);
  EXPECT_EQ((*copy)->dtype(), DType::kF32);
  EXPECT_EQ((*copy)->elements(), 16);
  a.reset();
  EXPECT_EQ(Read(**copy), Ramp(16));
  EXPECT_EQ(plugin().CopyToDevice(**copy, 3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(plugin().CopyToDevice(**copy, 9).ok());
}

TEST_P(PluginCts, ACopyIsNotChangedByALaterDonationOfItsSource) {
  LoadedExecutablePtr add = Load(kAddInPlace);
  DeviceBufferPtr one = Upload(std::vector<float>(16, 1));
  for (int i = 0; i < 20; ++i) {
    DeviceBufferPtr a = Upload(Ramp(16));
    auto copy = plugin().CopyToDevice(*a, 1);
    ASSERT_TRUE(copy.ok());
    auto outputs = Run(*add, {a.get(), one.get()}, {true, false});
    EXPECT_EQ(Read(**copy), Ramp(16));
  }
}

TEST_P(PluginCts, DownloadBeforeADonationSeesTheOldContent) {
  LoadedExecutablePtr add = Load(kAddInPlace);
  DeviceBufferPtr one = Upload(std::vector<float>(16, 1));
  DeviceBufferPtr value = Upload(Ramp(16));
  for (int i = 0; i < 50; ++i) {
    std::vector<float> seen(16);
    Completion read;
    ASSERT_TRUE(plugin().Download(*value, 0, 64, seen.data(), read.callback()).ok());
    auto outputs = Run(*add, {value.get(), one.get()}, {true, false});
    ASSERT_EQ(outputs.size(), 1u);
    value = outputs[0];
    ASSERT_TRUE(read.Wait().ok());
    EXPECT_EQ(seen, Ramp(16, i));
  }
}

TEST_P(PluginCts, ABadModuleIsAnErrorWithText) {
  for (const char* module : {
           "",
           "garbage",
           "module @x {",
           "module @no_main {}",
           "module @m { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %b : "
           "tensor<4xf32> } }",
           "module @m { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = "
           "stablehlo.no_such_op %a : tensor<4xf32> return %0 : tensor<4xf32> } }",
           "module @m { func.func public @main(%a: tensor<4xf32>) -> tensor<8xf32> { %0 = "
           "stablehlo.add %a, %a : tensor<4xf32> return %0 : tensor<4xf32> } }",
       }) {
    auto serialized = plugin().Compile(module, "");
    ASSERT_FALSE(serialized.ok()) << module;
    EXPECT_NE(serialized.status().code(), absl::StatusCode::kUnknown) << serialized.status();
    EXPECT_FALSE(serialized.status().message().empty());
  }
}

TEST_P(PluginCts, SerializedGarbageIsAnError) {
  auto serialized = plugin().Compile(kAdd, "");
  ASSERT_TRUE(serialized.ok());
  EXPECT_FALSE(plugin().Load("").ok());
  EXPECT_FALSE(plugin().Load("garbage").ok());
  EXPECT_FALSE(plugin().Load(serialized->substr(0, serialized->size() / 2)).ok());
}

TEST_P(PluginCts, CompileAndLoadNeedsNoSerialization) {
  auto add = plugin().CompileAndLoad(kAdd, "");
  ASSERT_TRUE(add.ok()) << add.status();
  DeviceBufferPtr a = Upload(Ramp(16));
  auto outputs = Run(**add, {a.get(), a.get()}, {false, false});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(Read(*outputs[0])[1], 2.f);
}

TEST_P(PluginCts, SerializedExecutablesLoadInAnotherPluginInstance) {
  auto serialized = plugin().Compile(kAdd, "");
  ASSERT_TRUE(serialized.ok());
  auto other = cts::Make(GetParam());
  ASSERT_EQ(other->fingerprint(), plugin().fingerprint());
  auto add = other->Load(*serialized);
  ASSERT_TRUE(add.ok()) << add.status();
  std::vector<float> values = Ramp(16);
  auto a = other->Upload(2, DType::kF32, 16, values.data());
  ASSERT_TRUE(a.ok());
  Completion completion;
  DeviceBuffer* arguments[] = {a->get(), a->get()};
  const bool donate[] = {false, false};
  auto result = (*add)->Execute(2, arguments, donate, completion.callback());
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(completion.Wait().ok());
  EXPECT_EQ(Values<float>(*other, *result->outputs[0])[3], 6.f);
}

TEST_P(PluginCts, NoArgumentsAndManyResults) {
  LoadedExecutablePtr executable = Load(R"(module @cts_constants {
  func.func public @main() -> (tensor<2xi64>, tensor<3xf32>) {
    %0 = stablehlo.constant dense<[5, -7]> : tensor<2xi64>
    %1 = stablehlo.constant dense<1.500000e+00> : tensor<3xf32>
    return %0, %1 : tensor<2xi64>, tensor<3xf32>
  }
}
)");
  ASSERT_NE(executable, nullptr);
  auto outputs = Run(*executable, {}, {});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0]->dtype(), DType::kI64);
  EXPECT_EQ(Values<int64_t>(plugin(), *outputs[0]), (std::vector<int64_t>{5, -7}));
  EXPECT_EQ(Values<float>(plugin(), *outputs[1]), std::vector<float>(3, 1.5f));
}

TEST_P(PluginCts, PackedWordsDriveAnInPlaceSliceUpdate) {
  // The shape that every lowered program has: flat buffers, run-time offsets in a packed tensor of
  // words.
  LoadedExecutablePtr executable = Load(R"(module @cts_slice_update {
  func.func public @main(%arg0: tensor<12xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>, %arg2: tensor<2xi64>) -> tensor<12xf32> {
    %0 = stablehlo.slice %arg2 [0:1] : (tensor<2xi64>) -> tensor<1xi64>
    %1 = stablehlo.reshape %0 : (tensor<1xi64>) -> tensor<i64>
    %2 = stablehlo.slice %arg2 [1:2] : (tensor<2xi64>) -> tensor<1xi64>
    %3 = stablehlo.reshape %2 : (tensor<1xi64>) -> tensor<i64>
    %4 = stablehlo.convert %3 : (tensor<i64>) -> tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %6 = stablehlo.multiply %arg1, %5 : tensor<4xf32>
    %7 = stablehlo.dynamic_update_slice %arg0, %6, %1 : (tensor<12xf32>, tensor<4xf32>, tensor<i64>) -> tensor<12xf32>
    return %7 : tensor<12xf32>
  }
}
)");
  ASSERT_NE(executable, nullptr);
  DeviceBufferPtr base = Upload(std::vector<float>(12, 0)), update = Upload(Ramp(4, 1));
  const int64_t words[] = {5, 10};
  auto packed = plugin().Upload(0, DType::kI64, 2, words);
  ASSERT_TRUE(packed.ok());
  auto outputs = Run(*executable, {base.get(), update.get(), packed->get()}, {true, false, false});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(Read(*outputs[0]), (std::vector<float>{0, 0, 0, 0, 0, 10, 20, 30, 40, 0, 0, 0}));
}

TEST_P(PluginCts, ManyThreadsShareOneExecutable) {
  LoadedExecutablePtr add = Load(kAddInPlace);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const int device = t % 4;
      std::vector<float> start = Ramp(16, t * 1000.f), ones(16, 1);
      DeviceBufferPtr value = *plugin().Upload(device, DType::kF32, 16, start.data());
      DeviceBufferPtr one = *plugin().Upload(device, DType::kF32, 16, ones.data());
      for (int i = 0; i < 100; ++i) {
        Completion completion;
        DeviceBuffer* arguments[] = {value.get(), one.get()};
        const bool donate[] = {i % 2 == 0, false};
        auto result = add->Execute(device, arguments, donate, completion.callback());
        if (!result.ok() || !completion.Wait().ok()) {
          ++wrong;
          return;
        }
        value = result->outputs[0];
      }
      if (Values<float>(plugin(), *value) != Ramp(16, t * 1000.f + 100)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(PluginCts, CompilesMayRunInParallel) {
  if (GetParam().name.find("pjrt") != std::string::npos) {
    GTEST_SKIP()
        << "XLA crashes when threads of one process compile with option overrides at once; "
           "the daemon compiles in one process each";
  }
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      if (!plugin().Compile(kAdd, "").ok()) ++failed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

INSTANTIATE_TEST_SUITE_P(Every, PluginCts, testing::ValuesIn(cts::Kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace neurond
