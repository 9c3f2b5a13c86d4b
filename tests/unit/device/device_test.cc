#include "runtime/device/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "plugins/fake/fake_plugin.h"
#include "plugins/fake/interpreter_plugin.h"

namespace neurond {
namespace {

class DeviceTest : public testing::Test {
 protected:
  DeviceTest() : plugin_(*fake::InterpreterPlugin::Create(2)) {}

  std::unique_ptr<Plugin> plugin_;
  const int a_ = 0, b_ = 0, c_ = 0;  // callers: their addresses
};

TEST_F(DeviceTest, TheGateAdmitsItsNumberAndRefusesMore) {
  Device device(*plugin_, 0, 2, 0);
  EXPECT_TRUE(device.TryEnter(&a_, [] {}));
  EXPECT_TRUE(device.TryEnter(&b_, [] {}));
  EXPECT_FALSE(device.TryEnter(&c_, [] {}));
  EXPECT_EQ(device.counters().inflight, 2);
  EXPECT_EQ(device.counters().executes, 2);
  EXPECT_EQ(device.counters().gate_waits, 1);
  device.Leave();
  EXPECT_TRUE(device.TryEnter(&c_, [] {}));
}

TEST_F(DeviceTest, WaitersAreWokenOnceInOrderOfAsking) {
  Device device(*plugin_, 0, 2, 0);
  std::vector<int> woken;
  ASSERT_TRUE(device.TryEnter(this, [] {}));
  ASSERT_TRUE(device.TryEnter(this, [] {}));
  EXPECT_FALSE(device.TryEnter(&a_, [&] { woken.push_back(1); }));
  EXPECT_FALSE(device.TryEnter(&b_, [&] { woken.push_back(2); }));
  device.Leave();
  EXPECT_EQ(woken, (std::vector<int>{1}));
  ASSERT_TRUE(device.TryEnter(&a_, [] {}));
  device.Leave();
  EXPECT_EQ(woken, (std::vector<int>{1, 2}));
  device.Leave();
  EXPECT_EQ(woken, (std::vector<int>{1, 2}));
}

TEST_F(DeviceTest, AskingAgainKeepsThePlaceAndReplacesTheWake) {
  Device device(*plugin_, 0, 2, 0);
  std::vector<int> woken;
  ASSERT_TRUE(device.TryEnter(this, [] {}));
  ASSERT_TRUE(device.TryEnter(this, [] {}));
  device.TryEnter(&a_, [&] { woken.push_back(-1); });
  device.TryEnter(&b_, [&] { woken.push_back(2); });
  device.TryEnter(&a_, [&] { woken.push_back(1); });
  device.Leave();
  EXPECT_EQ(woken, (std::vector<int>{1}));
}

TEST_F(DeviceTest, AForgottenWaiterIsNotWoken) {
  Device device(*plugin_, 0, 2, 0);
  std::vector<int> woken;
  ASSERT_TRUE(device.TryEnter(this, [] {}));
  ASSERT_TRUE(device.TryEnter(this, [] {}));
  device.TryEnter(&a_, [&] { woken.push_back(1); });
  device.TryEnter(&b_, [&] { woken.push_back(2); });
  device.Forget(&a_);
  device.Forget(&c_);
  device.Leave();
  EXPECT_EQ(woken, (std::vector<int>{2}));
}

TEST_F(DeviceTest, TheLastToLeaveWakesEveryone) {
  // A woken caller that no longer needs its slot must not strand those behind it.
  Device device(*plugin_, 0, 1, 0);
  std::vector<int> woken;
  ASSERT_TRUE(device.TryEnter(this, [] {}));
  device.TryEnter(&a_, [&] { woken.push_back(1); });
  device.TryEnter(&b_, [&] { woken.push_back(2); });
  device.Leave();
  EXPECT_EQ(woken, (std::vector<int>{1, 2}));
}

TEST_F(DeviceTest, AWakeMayEnterAtOnce) {
  Device device(*plugin_, 0, 1, 0);
  bool entered = false;
  ASSERT_TRUE(device.TryEnter(this, [] {}));
  device.TryEnter(&a_, [&] { entered = device.TryEnter(&a_, [] {}); });
  device.Leave();
  EXPECT_TRUE(entered);
}

TEST_F(DeviceTest, ManyThreadsNeverExceedTheGateAndAllFinish) {
  Device device(*plugin_, 0, 2, 0);
  std::atomic<int> inside{0}, most{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto woken = std::make_shared<std::atomic<bool>>(false);
        while (!device.TryEnter(&woken, [woken] { *woken = true, woken->notify_all(); })) {
          woken->wait(false);
          *woken = false;
        }
        const int now = ++inside;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        --inside;
        device.Leave();
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 800);
  EXPECT_LE(most, 2);
  EXPECT_EQ(device.counters().inflight, 0);
}

TEST_F(DeviceTest, GrantsStayWithinTheMemory) {
  Device device(*plugin_, 0, 1, 1000);
  EXPECT_EQ(device.memory_bytes(), 1000);
  EXPECT_TRUE(device.Grant(600));
  EXPECT_FALSE(device.Grant(401));
  EXPECT_FALSE(device.Grant(INT64_MAX));
  EXPECT_TRUE(device.Grant(400));
  EXPECT_TRUE(device.Grant(-1000));
  EXPECT_FALSE(device.Grant(-1)) << "nothing is granted";
  EXPECT_FALSE(device.Grant(INT64_MIN));
  EXPECT_EQ(device.granted_bytes(), 0);
}

TEST_F(DeviceTest, WithoutAKnownBoundEveryGrantHasRoom) {
  Device device(*plugin_, 0, 1, 0);
  EXPECT_EQ(device.memory_bytes(), 0);
  EXPECT_TRUE(device.Grant(INT64_MAX));
  EXPECT_FALSE(device.Grant(1)) << "the account itself does not overflow";
}

TEST_F(DeviceTest, TheSmallerOfConfiguredAndReportedMemoryCounts) {
  auto plugin =
      *fake::FakePlugin::Create(*fake::InterpreterPlugin::Create(1), {"memory 500", "", false});
  EXPECT_EQ(Device(*plugin, 0, 1, 0).memory_bytes(), 500);
  EXPECT_EQ(Device(*plugin, 0, 1, 400).memory_bytes(), 400);
  EXPECT_EQ(Device(*plugin, 0, 1, 600).memory_bytes(), 500);
}

TEST_F(DeviceTest, PhysicalBytesAreCounted) {
  Device device(*plugin_, 0, 1, 0);
  device.AddPhysical(100);
  device.AddPhysical(-40);
  EXPECT_EQ(device.counters().physical_bytes, 60);
}

TEST_F(DeviceTest, ADeviceSetHasEveryDeviceOfItsPlugin) {
  DeviceSet devices(*plugin_, 4, 1000);
  ASSERT_EQ(devices.size(), 2);
  EXPECT_EQ(devices.at(1).index(), 1);
  EXPECT_EQ(devices.at(1).traits().name, plugin_->traits(1).name);
  EXPECT_EQ(devices.at(0).memory_bytes(), 1000);
}

}  // namespace
}  // namespace neurond
