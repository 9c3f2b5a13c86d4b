// SessionFixture: a Session over a TestPlugin, with a few Programs, and an observer that remembers
// what it was told.
//
// Programs, over float32 buffers of 4 elements:
//   add        (a, b) -> new            inc_      a += word 0 (in place)
//   fill       () -> new, all word 0    broken_   a written, always fails when it runs
//   checked_   a += 1 if a[0] < 10, else the check "value {value} is too large" fails
//   broken     (a) -> new, always fails when it runs

#ifndef NEUROND_TESTS_UNIT_SESSION_SESSION_FIXTURE_H_
#define NEUROND_TESTS_UNIT_SESSION_SESSION_FIXTURE_H_

#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "tests/unit/session/test_plugin.h"

namespace neurond {

using Floats = std::vector<float>;

template <typename T>
std::vector<T> FromBytes(const std::vector<char>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
template <typename T>
std::vector<char> ToBytes(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class TestObserver final : public SessionObserver {
 public:
  void OnCompleted(int stream, uint64_t seq) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (completed_[stream] >= seq) monotonic_ = false;
    completed_[stream] = seq;
    changed_.notify_all();
  }
  void OnUnreported(uint64_t count) override {
    std::lock_guard<std::mutex> lock(mutex_);
    unreported_ = count;
  }
  void Wake() override {
    std::lock_guard<std::mutex> lock(mutex_);
    woken_ = true;
    ++wakes_;
    changed_.notify_all();
  }
  uint64_t completed(int stream) const {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = completed_.find(stream);
    return it == completed_.end() ? 0 : it->second;
  }
  uint64_t unreported() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return unreported_;
  }
  int64_t wakes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return wakes_;
  }
  bool monotonic() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return monotonic_;
  }
  // Waits on any thread; the owner pumps meanwhile.
  void Wait(int stream, uint64_t seq) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return completed_[stream] >= seq; });
  }
  // Pumps as often as the session asks for it, until the stream has completed `seq`.
  void PumpUntil(Session& session, int stream, uint64_t seq) {
    while (true) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return woken_ || completed_[stream] >= seq; });
        if (completed_[stream] >= seq) return;
        woken_ = false;
      }
      session.Pump();
    }
  }
  // Pumps if the session asked for it.
  void PumpIfWoken(Session& session) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!woken_) return;
      woken_ = false;
    }
    session.Pump();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, uint64_t> completed_;
  uint64_t unreported_ = 0;
  int64_t wakes_ = 0;
  bool woken_ = false;
  bool monotonic_ = true;
};

// Plugin, caches and devices; Sessions are made over it.
struct TestHost {
  explicit TestHost(bool may_fail_late = false, int inflight_max = 4, int64_t memory_bytes = 0)
      : plugin(2, may_fail_late),
        cache(MakeExecutableCache(plugin, compiler, {})),
        programs(MakeProgramStore(*cache, "", "build")),
        devices(plugin, inflight_max, memory_bytes) {}

  // A Plugin owes each Execute its callback.
  ~TestHost() {
    while (plugin.RunNext()) {
    }
  }

  // Defines the Program and waits until its Executable is there.
  uint64_t Define(Program program) {
    program.module = program.name;
    absl::StatusOr<StoredProgramPtr> stored = programs->DefineModule(std::move(program));
    EXPECT_TRUE(stored.ok()) << stored.status();
    if ((*stored)->executable != nullptr) {
      std::promise<void> resolved;
      (*stored)->executable->OnResolved([&resolved] { resolved.set_value(); });
      resolved.get_future().wait();
    }
    return (*stored)->id;
  }

  TestPlugin plugin;
  TestCompiler compiler;
  std::unique_ptr<ExecutableCache> cache;
  std::unique_ptr<ProgramStore> programs;
  DeviceSet devices;
};

inline constexpr BufferSpec kVector{DType::kF32, 4};

inline Program Reads(const std::string& name, int inputs) {
  Program program;
  program.name = name;
  program.buffers.assign(inputs, kVector);
  for (int i = 0; i < inputs; ++i) program.parameters.push_back(i);
  program.created = {kVector};
  program.created_results = {0};
  program.result_count = 1;
  program.detail = "float32[4]";
  return program;
}

inline Program Writes(const std::string& name) {
  Program program;
  program.name = name;
  program.buffers = {kVector};
  program.parameters = {0};
  program.written = {0};
  program.written_results = {0};
  program.result_count = 1;
  program.detail = "float32[4]";
  return program;
}

struct TestPrograms {
  explicit TestPrograms(TestHost& host) {
    using Result = absl::StatusOr<std::vector<std::vector<char>>>;
    using Arguments = std::vector<std::vector<char>>;
    TestPlugin& plugin = host.plugin;
    plugin.Register("add", {{kVector}, [](const Arguments& in) -> Result {
                              Floats a = FromBytes<float>(in[0]);
                              const Floats b = FromBytes<float>(in[1]);
                              for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
                              return {{ToBytes(a)}};
                            }});
    plugin.Register("inc_", {{kVector}, [](const Arguments& in) -> Result {
                               Floats a = FromBytes<float>(in[0]);
                               const auto by = FromBytes<int64_t>(in[1])[0];
                               for (float& value : a) value += static_cast<float>(by);
                               return {{ToBytes(a)}};
                             }});
    plugin.Register("fill", {{kVector}, [](const Arguments& in) -> Result {
                               const auto with = FromBytes<int64_t>(in[0])[0];
                               return {{ToBytes(Floats(4, static_cast<float>(with)))}};
                             }});
    plugin.Register("checked_", {{kVector, {DType::kI64, 2}}, [](const Arguments& in) -> Result {
                                   Floats a = FromBytes<float>(in[0]);
                                   const bool bad = a[0] >= 10;
                                   const auto value = static_cast<int64_t>(a[0]);
                                   for (float& x : a) x += 1;
                                   return {{ToBytes(a), ToBytes(std::vector<int64_t>{bad, value})}};
                                 }});
    const auto fails = [](const Arguments&) -> Result {
      return absl::InternalError("the device broke");
    };
    plugin.Register("broken_", {{kVector}, fails});
    plugin.Register("broken", {{kVector}, fails});

    add = host.Define(Reads("add", 2));
    Program words = Writes("inc_");
    words.word_count = 1;
    inc = host.Define(words);
    words = Reads("fill", 0);
    words.word_count = 1;
    fill = host.Define(words);
    Program check = Writes("checked_");
    check.result_count = 2;
    check.check_result = 1;
    check.checks = {{ErrorKind::kIndex, "value {value} is too large"}};
    checked = host.Define(check);
    broken_write = host.Define(Writes("broken_"));
    broken = host.Define(Reads("broken", 1));
  }
  uint64_t add, inc, fill, checked, broken_write, broken;
};

// One client.
class TestSession {
 public:
  explicit TestSession(TestHost& host, const TestPrograms& programs, int64_t quota_bytes = 0)
      : programs_(programs), observer(std::make_unique<TestObserver>()) {
    SessionOptions options;
    options.id = 1;
    options.devices = {0, 1};
    options.memory_bytes_max = quota_bytes;
    session = MakeSession(host.devices, *host.programs, *observer, options);
  }

  uint64_t NewBuffer(int device = 0, BufferSpec spec = kVector) {
    EXPECT_TRUE(session->Alloc(++last_id, spec.dtype, spec.elements, device).ok());
    return last_id;
  }
  uint64_t NewBuffer(const Floats& values, int device = 0) {
    const uint64_t id = NewBuffer(device, {DType::kF32, static_cast<int64_t>(values.size())});
    EXPECT_TRUE(Write(id, values).ok());
    return id;
  }
  absl::Status Write(uint64_t buffer, const Floats& values, int64_t at = 0, int stream = 0) {
    Session::WriteCommand command;
    command.seq = ++seq;
    command.stream = stream;
    command.buffer = buffer;
    command.transfer = seq;
    command.data = values.data();
    command.bytes = command.total_bytes = static_cast<int64_t>(values.size() * sizeof(float));
    command.buffer_offset = at * static_cast<int64_t>(sizeof(float));
    command.last = true;
    return session->Write(command);
  }
  absl::Status Execute(uint64_t program, std::vector<uint64_t> inputs,
                       std::vector<uint64_t> outputs, std::vector<int64_t> words = {},
                       int stream = 0) {
    Session::ExecuteCommand command;
    command.seq = ++seq;
    command.stream = stream;
    command.program = program;
    command.origin = 100 + seq;
    command.inputs = inputs;
    command.outputs = outputs;
    command.words = words;
    return session->Execute(command);
  }
  uint64_t Add(uint64_t a, uint64_t b, int stream = 0) {
    EXPECT_TRUE(Execute(programs_.add, {a, b}, {++last_id}, {}, stream).ok());
    return last_id;
  }
  void Inc(uint64_t a, int64_t by = 1, int stream = 0) {
    EXPECT_TRUE(Execute(programs_.inc, {a}, {}, {by}, stream).ok());
  }
  // Submits a Read; the values are there once the stream completed `seq`.
  struct Reading {
    uint64_t seq = 0;
    int stream = 0;
    std::shared_ptr<Floats> values = std::make_shared<Floats>(4, -1.0f);
    std::shared_ptr<uint64_t> failed = std::make_shared<uint64_t>(0);
  };
  Reading StartRead(uint64_t buffer, int stream = 0) {
    Reading reading;
    Session::ReadCommand command;
    command.seq = reading.seq = ++seq;
    command.stream = reading.stream = stream;
    command.buffer = buffer;
    command.destination = reading.values->data();
    command.bytes = static_cast<int64_t>(reading.values->size() * sizeof(float));
    command.failed = reading.failed.get();
    EXPECT_TRUE(session->Read(command).ok());
    return reading;
  }
  // Waits for it too. Empty if the Read failed.
  Floats Read(uint64_t buffer, int stream = 0) {
    const Reading reading = StartRead(buffer, stream);
    observer->PumpUntil(*session, stream, reading.seq);
    return *reading.failed != 0 ? Floats{} : *reading.values;
  }
  void Sync(int stream = 0) { observer->PumpUntil(*session, stream, seq); }

 private:
  const TestPrograms& programs_;

 public:
  std::unique_ptr<TestObserver> observer;
  std::unique_ptr<Session> session;
  uint64_t seq = 0;
  uint64_t last_id = 0;
};

}  // namespace neurond

#endif  // NEUROND_TESTS_UNIT_SESSION_SESSION_FIXTURE_H_
