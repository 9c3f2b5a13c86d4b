// Several clients, each with its own thread, on devices whose completions come from other threads,
// while others wait and look on. What ThreadSanitizer should see.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "tests/unit/session/session_fixture.h"

namespace neurond {
namespace {

// Runs `step` until stopped and it has nothing to do.
class Worker {
 public:
  explicit Worker(std::function<bool()> step)
      : thread_([this, step = std::move(step)] {
          while (true) {
            const bool stop = stop_;
            const bool worked = step();
            if (!worked && stop) return;
            if (!worked) std::this_thread::yield();
          }
        }) {}
  ~Worker() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// One thread per device runs what the plugin holds for it.
struct DeviceThreads {
  explicit DeviceThreads(TestPlugin& plugin)
      : first([&plugin] { return plugin.RunNext(0); }),
        second([&plugin] { return plugin.RunNext(1); }) {}
  Worker first, second;
};

// A thread that waits for Reads as a client does, and looks at what they brought. Ends when all
// that it was given have come.
class Waiter {
 public:
  struct Expected {
    TestSession::Reading reading;
    float value = 0;
  };
  explicit Waiter(TestObserver& observer) : observer_(observer), thread_([this] { Run(); }) {}
  ~Waiter() {
    Give({});
    thread_.join();
  }
  void Give(Expected expected) {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(expected));
    given_.notify_one();
  }

 private:
  void Run() {
    while (true) {
      Expected expected;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        given_.wait(lock, [this] { return !queue_.empty(); });
        expected = std::move(queue_.front());
        queue_.pop_front();
      }
      if (expected.reading.seq == 0) return;
      observer_.Wait(expected.reading.stream, expected.reading.seq);
      EXPECT_EQ(*expected.reading.failed, 0u);
      EXPECT_THAT(*expected.reading.values, testing::Each(expected.value));
    }
  }

  TestObserver& observer_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<Expected> queue_;
  std::thread thread_;
};

// A random client that knows what every Buffer must hold.
class RandomClient {
 public:
  RandomClient(TestHost& host, const TestPrograms& programs, int seed)
      : s_(host, programs), random_(seed), waiter_(std::in_place, *s_.observer) {}

  void Run(int steps) {
    Worker onlooker([this] { return s_.session->Counters().id != 1; });
    for (int step = 0; step < steps; ++step) {
      s_.observer->PumpIfWoken(*s_.session);
      Step();
    }
    for (const auto& [stream, seq] : last_reads_) s_.observer->PumpUntil(*s_.session, stream, seq);
    waiter_.reset();
    EXPECT_TRUE(s_.observer->monotonic());
    EXPECT_EQ(s_.session->unreported(), 0u);
  }

 private:
  struct Known {
    uint64_t id = 0;
    int device = 0;
    float value = 0;
  };

  int Pick(size_t n) { return static_cast<int>(random_() % n); }
  Known& Any() { return buffers_[Pick(buffers_.size())]; }

  void Step() {
    const int stream = Pick(6);
    const int action = buffers_.size() < 3 ? 0 : Pick(7);
    if (action == 0) return Make(stream);
    Known& a = Any();
    const Known b = Any();
    if (action == 1 && a.device == b.device) {
      buffers_.push_back({s_.Add(a.id, b.id, stream), a.device, a.value + b.value});
    } else if (action == 2 || action == 3) {
      s_.Inc(a.id, action, stream);
      a.value += static_cast<float>(action);
    } else if (action == 4) {
      const TestSession::Reading reading = s_.StartRead(a.id, stream);
      last_reads_[stream] = reading.seq;
      waiter_->Give({reading, a.value});
    } else if (action == 5) {
      EXPECT_TRUE(s_.session->Free(a.id).ok());
      buffers_.erase(buffers_.begin() + (&a - buffers_.data()));
    } else if (action == 6 && a.id != b.id) {  // also from one device to the other
      EXPECT_TRUE(s_.session->Copy(++s_.seq, stream, b.id, a.id, 0).ok());
      a.value = b.value;
    }
  }

  void Make(int stream) {
    const auto value = static_cast<float>(Pick(100));
    const int device = Pick(2);
    buffers_.push_back({s_.NewBuffer(device), device, value});
    EXPECT_TRUE(s_.Write(buffers_.back().id, Floats(4, value), 0, stream).ok());
  }

  TestSession s_;
  std::mt19937 random_;
  std::vector<Known> buffers_;
  std::map<int, uint64_t> last_reads_;
  std::optional<Waiter> waiter_;
};

void ExpectNothingLeft(TestHost& host) {
  EXPECT_EQ(host.plugin.live_buffers, 0);
  for (int i = 0; i < host.devices.size(); ++i) {
    EXPECT_EQ(host.devices.at(i).counters().physical_bytes, 0);
    EXPECT_EQ(host.devices.at(i).counters().inflight, 0);
    EXPECT_EQ(host.devices.at(i).granted_bytes(), 0);
  }
}

template <typename Client>
void RunClients(int count, Client client) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&client, i] { client(i); });
  for (std::thread& thread : threads) thread.join();
}

class SessionStressTest : public testing::TestWithParam<bool> {};

TEST_P(SessionStressTest, ManySessionsOnTwoDevicesComputeWhatTheySubmitted) {
  TestHost host(GetParam(), 3);
  const TestPrograms programs(host);
  host.plugin.Hold(true);
  {
    DeviceThreads devices(host.plugin);
    RunClients(4, [&](int seed) { RandomClient(host, programs, seed).Run(1000); });
  }
  ExpectNothingLeft(host);
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
    DeviceThreads devices(host.plugin);
    RunClients(4, [&](int client) {
      for (int round = 0; round < 60; ++round) {
        TestSession s(host, programs);
        const uint64_t a = s.NewBuffer({1, 2, 3, 4}, client % 2);
        const uint64_t elsewhere = s.NewBuffer(1 - client % 2);
        std::vector<TestSession::Reading> readings;
        for (int i = 0; i < (client + round) % 12; ++i) {
          s.Inc(a, 1, i % 3);
          if (i % 3 == 0) {
            ASSERT_TRUE(s.Execute(programs.broken_write, {a}, {}).ok());
          }
          ASSERT_TRUE(s.session->Copy(++s.seq, i % 2, a, elsewhere, 0).ok());
          readings.push_back(s.StartRead(i % 2 == 0 ? a : elsewhere));
          s.observer->PumpIfWoken(*s.session);
        }
        s.session.reset();  // before what the Reads would write to
      }
    });
  }
  ExpectNothingLeft(host);
}

// All sessions meet in the cache while it compiles; a third of them leave before it is done.
TEST(SessionStressCompileTest, SessionsShareOneFlightOfEachCompile) {
  constexpr int kPrograms = 12, kClients = 4;
  TestHost host(false, 3);
  const TestPrograms programs(host);
  std::vector<Program> shared;
  for (int i = 0; i < kPrograms; ++i) {
    shared.push_back(Writes(Cat("shared", i)));
    shared.back().module = shared.back().name;
    host.plugin.Register(shared.back().name,
                         {{kVector},
                          [](const std::vector<std::vector<char>>& in)
                              -> absl::StatusOr<std::vector<std::vector<char>>> {
                            Floats a = FromBytes<float>(in[0]);
                            for (float& value : a) value += 1;
                            return {{ToBytes(a)}};
                          }});
  }
  const int64_t before = host.compiler.requests;
  host.compiler.Hold(true);
  host.plugin.Hold(true);
  {
    DeviceThreads devices(host.plugin);
    Worker compiler([&] { return host.compiler.AnswerNext(); });
    Worker onlooker(
        [&] { return host.cache->counters().entries + host.cache->List().size() == 0; });
    RunClients(kClients, [&](int client) {
      for (int i = 0; i < kPrograms; ++i) {
        TestSession s(host, programs);
        const uint64_t a = s.NewBuffer({1, 2, 3, 4});
        const auto stored = host.programs->DefineModule(shared[i]);
        ASSERT_TRUE(stored.ok()) << stored.status();
        for (int stream = 0; stream < 3; ++stream) {
          ASSERT_TRUE(s.Execute((*stored)->id, {a}, {}, {}, stream).ok());
        }
        if ((client + i) % 3 == 0) continue;
        EXPECT_EQ(s.Read(a), (Floats{4, 5, 6, 7}));
      }
    });
  }
  EXPECT_EQ(host.compiler.requests - before, kPrograms);
  ExpectNothingLeft(host);
}

}  // namespace
}  // namespace neurond
