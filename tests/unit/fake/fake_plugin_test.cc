// Faults of the fake plugin. That it is a Plugin like any other is tested in tests/cts.

#include "plugins/fake/fake_plugin.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "plugins/fake/interpreter_plugin.h"
#include "tests/cts/cts_support.h"

namespace neurond {
namespace {

using cts::Completion;
using cts::Values;

constexpr char kAddInPlace[] = R"(module @"aten.add_.Tensor" {
  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
)";

absl::StatusOr<std::unique_ptr<Plugin>> MakeFake(const std::string& script, bool async = false,
                                                 bool fails_late = true) {
  return fake::FakePlugin::Create(*fake::InterpreterPlugin::Create(4),
                                  {script, "", async, fails_late});
}

class FakePluginTest : public testing::Test {
 protected:
  void Make(const std::string& script, bool async = false, bool fails_late = true) {
    auto plugin = MakeFake(script, async, fails_late);
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    plugin_ = *std::move(plugin);
    auto add = plugin_->CompileAndLoad(kAddInPlace, "");
    if (add.ok()) add_ = *add;
  }

  DeviceBufferPtr Upload(float value, int device = 0) {
    const std::vector<float> values(4, value);
    auto buffer = plugin_->Upload(device, DType::kF32, 4, values.data());
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *buffer : nullptr;
  }

  absl::StatusOr<DeviceBufferPtr> Add(DeviceBuffer& a, DeviceBuffer& b, Completion& completion,
                                      bool donate = false) {
    DeviceBuffer* arguments[] = {&a, &b};
    const bool flags[] = {donate, false};
    auto result = add_->Execute(a.device(), arguments, flags, completion.callback());
    if (!result.ok()) return result.status();
    return result->outputs[0];
  }

  std::unique_ptr<Plugin> plugin_;
  LoadedExecutablePtr add_;
};

TEST_F(FakePluginTest, AFailureAtExecuteReturnsItAndDonatesNothing) {
  Make("execute aten.add_.Tensor 2 fail no luck");
  DeviceBufferPtr a = Upload(1), b = Upload(2);
  Completion first, second, third;
  ASSERT_TRUE(Add(*a, *b, first).ok());
  const absl::Status status = Add(*a, *b, second, true).status();
  EXPECT_EQ(status, absl::InternalError("no luck"));
  EXPECT_EQ(second.count(), 0);
  EXPECT_EQ(Values<float>(*plugin_, *a), std::vector<float>(4, 1)) << "not donated";
  ASSERT_TRUE(Add(*a, *b, third, true).ok());
}

TEST_F(FakePluginTest, ALateFailureFailsTheCompletionTheResultsAndWhatDependsOnThem) {
  Make("execute aten.add_.Tensor 1 fail-late late trouble");
  DeviceBufferPtr a = Upload(1), b = Upload(2);
  Completion first, dependent, ready, read, copied;
  auto sum = Add(*a, *b, first);
  ASSERT_TRUE(sum.ok()) << sum.status();
  auto next = Add(**sum, *b, dependent);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(first.Wait().message, "late trouble");
  EXPECT_EQ(dependent.Wait().message, "late trouble");
  (*sum)->OnReady(ready.callback());
  EXPECT_EQ(ready.Wait().message, "late trouble");
  EXPECT_TRUE((*sum)->IsReady());
  std::vector<float> out(4, -1);
  ASSERT_TRUE(plugin_->Download(**next, 0, 16, out.data(), read.callback()).ok());
  EXPECT_EQ(read.Wait().message, "late trouble");
  EXPECT_EQ(out, std::vector<float>(4, -1));
  auto copy = plugin_->CopyToDevice(**sum, 1);
  ASSERT_TRUE(copy.ok());
  (*copy)->OnReady(copied.callback());
  EXPECT_EQ(copied.Wait().message, "late trouble");
  // Independent work goes on.
  Completion other;
  auto fine = Add(*a, *b, other);
  ASSERT_TRUE(fine.ok());
  EXPECT_TRUE(other.Wait().ok());
  EXPECT_EQ(Values<float>(*plugin_, **fine), std::vector<float>(4, 3));
}

TEST_F(FakePluginTest, ALateFailureTakesTheDonatedInputWithIt) {
  Make("execute * 1 fail-late");
  DeviceBufferPtr a = Upload(1), b = Upload(2);
  Completion first, second;
  ASSERT_TRUE(Add(*a, *b, first, true).ok());
  EXPECT_FALSE(first.Wait().ok());
  EXPECT_FALSE(Add(*a, *b, second).ok());
}

TEST_F(FakePluginTest, ADeviceThatCannotFailLateFailsAtOnce) {
  Make("execute * 1 fail-late early trouble", false, false);
  EXPECT_FALSE(plugin_->traits(0).may_fail_after_dispatch);
  DeviceBufferPtr a = Upload(1), b = Upload(2);
  Completion first, second;
  EXPECT_EQ(Add(*a, *b, first, true).status(), absl::InternalError("early trouble"));
  EXPECT_TRUE(Add(*a, *b, second, true).ok()) << "nothing was donated";
}

TEST_F(FakePluginTest, ASlowExecuteIsNotReadyAndKeepsTheOrder) {
  Make("execute * 1 slow 50");
  DeviceBufferPtr a = Upload(1), b = Upload(2);
  Completion first, second, read;
  auto sum = Add(*a, *b, first);
  ASSERT_TRUE(sum.ok());
  EXPECT_FALSE((*sum)->IsReady());
  EXPECT_EQ(first.count(), 0);
  std::vector<float> before(4);
  ASSERT_TRUE(plugin_->Download(**sum, 0, 16, before.data(), read.callback()).ok());
  auto next = Add(**sum, *b, second, true);
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_EQ(first.count(), 1) << "in order";
  EXPECT_TRUE(read.Wait().ok());
  EXPECT_EQ(before, std::vector<float>(4, 3)) << "read before the donation";
  EXPECT_EQ(Values<float>(*plugin_, **next), std::vector<float>(4, 5));
}

TEST_F(FakePluginTest, ACopyOfAPendingBufferCrossesDevices) {
  Make("execute * 1 slow 30");
  DeviceBufferPtr a = Upload(1), b = Upload(2), there = Upload(10, 1);
  Completion first, second;
  auto sum = Add(*a, *b, first);
  ASSERT_TRUE(sum.ok());
  auto copy = plugin_->CopyToDevice(**sum, 1);
  ASSERT_TRUE(copy.ok());
  auto next = Add(**copy, *there, second);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_EQ(Values<float>(*plugin_, **next), std::vector<float>(4, 13));
}

TEST_F(FakePluginTest, OutOfMemoryIsScriptedOrCounted) {
  Make("memory 40; execute * 2 oom; upload * 4 oom no room");
  EXPECT_EQ(plugin_->traits(0).memory_bytes, 40);
  DeviceBufferPtr a = Upload(1), b = Upload(2);
  float values[4] = {};
  const absl::Status full = plugin_->Upload(0, DType::kF32, 4, values).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("32 of 40 in use"), absl::string_view::npos) << full;
  EXPECT_EQ(plugin_->Upload(0, DType::kF32, 1, values).status(),
            absl::ResourceExhaustedError("no room"));
  EXPECT_TRUE(plugin_->Upload(1, DType::kF32, 4, values).ok()) << "each device has its own";
  Completion first, second, third;
  EXPECT_EQ(Add(*a, *b, first).status().code(), absl::StatusCode::kResourceExhausted)
      << "no room for the result";
  EXPECT_EQ(Add(*a, *b, second, true).status().message(), "out of memory (scripted)");
  auto in_place = Add(*a, *b, third, true);
  ASSERT_TRUE(in_place.ok()) << in_place.status() << ": a donated block needs no room";
  EXPECT_EQ(Values<float>(*plugin_, **in_place), std::vector<float>(4, 3));
  in_place->reset();
  EXPECT_TRUE(plugin_->Upload(0, DType::kF32, 4, values).ok()) << "freed";
}

TEST_F(FakePluginTest, CompileAndLoadErrorsAreScripted) {
  Make("compile aten.add_.Tensor 1+ fail compiler says no; load * 1 fail bad load");
  EXPECT_EQ(plugin_->Compile(kAddInPlace, "").status(), absl::InternalError("compiler says no"));
  EXPECT_FALSE(plugin_->CompileAndLoad(kAddInPlace, "").ok());
}

TEST_F(FakePluginTest, ACrashEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Make("");
  auto plugin = *MakeFake("compile aten.add* * crash");
  EXPECT_DEATH((void)plugin->Compile(kAddInPlace, ""), "");
}

TEST_F(FakePluginTest, DestroyingItRunsWhatIsQueued) {
  Make("execute * * slow 600000");
  DeviceBufferPtr a = Upload(1), b = Upload(2);
  Completion first, second;
  auto sum = Add(*a, *b, first);
  auto next = Add(**sum, *b, second);
  ASSERT_TRUE(next.ok());
  sum->reset(), next->reset(), a.reset(), b.reset();
  add_.reset();
  plugin_.reset();
  EXPECT_EQ(first.count(), 1);
  EXPECT_EQ(second.count(), 1);
}

TEST_F(FakePluginTest, ABadScriptIsRefused) { EXPECT_FALSE(MakeFake("oops").ok()); }

}  // namespace
}  // namespace neurond
