// Several clients, each with its own thread, on one device whose completions come from other
// threads. What ThreadSanitizer should see.

#include <atomic>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "tests/unit/session/session_fixture.h"

namespace neurond {
namespace {

// Runs what the plugin holds, out of order too, until stopped and empty.
class DeviceThread {
 public:
  DeviceThread(TestPlugin& plugin, bool newest_first)
      : thread_([this, &plugin, newest_first] {
          while (true) {
            const bool stop = stop_;
            const bool ran = newest_first ? plugin.RunLast() : plugin.RunNext();
            if (!ran && stop) return;
            if (!ran) std::this_thread::yield();
          }
        }) {}
  ~DeviceThread() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// A random client that knows what every buffer must hold.
void RunClient(TestHost& host, const TestPrograms& programs, int seed, int steps) {
  TestSession s(host, programs);
  std::mt19937 random(seed);
  const auto pick = [&random](int n) { return static_cast<int>(random() % n); };
  struct Known {
    uint64_t id;
    float value;
  };
  std::vector<Known> buffers;
  struct Expected {
    TestSession::Reading reading;
    float value;
  };
  std::vector<Expected> reads;
  for (int step = 0; step < steps; ++step) {
    s.observer->PumpIfWoken(*s.session);
    const int stream = 2 * pick(3);
    const int action = buffers.size() < 3 ? 0 : pick(7);
    const auto value = static_cast<float>(pick(100));
    Known* a = buffers.empty() ? nullptr : &buffers[pick(static_cast<int>(buffers.size()))];
    switch (action) {
      case 0:
        buffers.push_back({s.NewBuffer(), value});
        ASSERT_TRUE(s.Write(buffers.back().id, Floats(4, value), 0, stream).ok());
        break;
      case 1: {
        const Known b = buffers[pick(static_cast<int>(buffers.size()))];
        const float sum = a->value + b.value;
        buffers.push_back({s.Add(a->id, b.id, stream), sum});
        break;
      }
      case 2:
      case 3: {
        const int by = 1 + pick(3);
        s.Inc(a->id, by, stream);
        a->value += static_cast<float>(by);
        break;
      }
      case 4:
        reads.push_back({s.StartRead(a->id, stream), a->value});
        break;
      case 5:
        ASSERT_TRUE(s.session->Free(a->id).ok());
        buffers.erase(buffers.begin() + (a - buffers.data()));
        break;
      case 6: {
        const Known b = buffers[pick(static_cast<int>(buffers.size()))];
        if (b.id == a->id) break;
        ASSERT_TRUE(s.session->Copy(++s.seq, stream, b.id, a->id, 0).ok());
        a->value = b.value;
        break;
      }
    }
  }
  for (const Expected& expected : reads) {
    s.observer->PumpUntil(*s.session, expected.reading.stream, expected.reading.seq);
    ASSERT_EQ(*expected.reading.failed, 0u);
    ASSERT_THAT(*expected.reading.values, testing::Each(expected.value));
  }
  EXPECT_TRUE(s.observer->monotonic());
  EXPECT_EQ(s.session->unreported(), 0u);
}

class SessionStressTest : public testing::TestWithParam<bool> {};

TEST_P(SessionStressTest, ManySessionsOnOneDeviceComputeWhatTheySubmitted) {
  TestHost host(GetParam(), 3);
  const TestPrograms programs(host);
  host.plugin.Hold(true);
  {
    DeviceThread device(host.plugin, false);
    std::vector<std::thread> clients;
    for (int seed = 0; seed < 4; ++seed) {
      clients.emplace_back([&, seed] { RunClient(host, programs, seed, 1500); });
    }
    for (std::thread& client : clients) client.join();
  }
  EXPECT_EQ(host.plugin.live_buffers, 0);
  EXPECT_EQ(host.devices.at(0).counters().physical_bytes, 0);
  EXPECT_EQ(host.devices.at(0).counters().inflight, 0);
  EXPECT_EQ(host.devices.at(0).granted_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, SessionStressTest, testing::Values(false, true),
                         [](const testing::TestParamInfo<bool>& late) {
                           return late.param ? "MayFailLate" : "Prompt";
                         });

TEST(SessionStressEndTest, SessionsMayEndAtAnyMoment) {
  TestHost host(true, 2);
  const TestPrograms programs(host);
  host.plugin.Hold(true);
  {
    DeviceThread device(host.plugin, false);
    std::vector<std::thread> clients;
    for (int client = 0; client < 4; ++client) {
      clients.emplace_back([&, client] {
        for (int round = 0; round < 60; ++round) {
          TestSession s(host, programs);
          const uint64_t a = s.NewBuffer({1, 2, 3, 4});
          std::vector<TestSession::Reading> readings;
          for (int i = 0; i < (client + round) % 12; ++i) {
            s.Inc(a, 1, 2 * (i % 3));
            if (i % 3 == 0) {
              ASSERT_TRUE(s.Execute(programs.broken_write, {a}, {}).ok());
            }
            readings.push_back(s.StartRead(a));
            s.observer->PumpIfWoken(*s.session);
          }
          s.session.reset();  // before what the Reads would write to
        }
      });
    }
    for (std::thread& client : clients) client.join();
  }
  EXPECT_EQ(host.plugin.live_buffers, 0);
  EXPECT_EQ(host.devices.at(0).counters().inflight, 0);
}

}  // namespace
}  // namespace neurond
