// TestPlugin: a Plugin whose every step a test decides. No thread, no clock: work runs inline, or
// is held until the test runs it.
//
// A "module" is the name of a kernel that the test registered, a C++ function over host memory.
// plugins/fake interprets real modules and has threads; here a test says which run ends when, and
// on which thread.
//
// Thread-safety: all methods, from any thread. A run happens on the thread that calls RunNext.

#ifndef NEUROND_TESTS_UNIT_SESSION_TEST_PLUGIN_H_
#define NEUROND_TESTS_UNIT_SESSION_TEST_PLUGIN_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/device/plugin.h"
#include "runtime/executable/compiler.h"
#include "runtime/program/graph.h"

namespace neurond {

// What a buffer holds, once it is there.
class TestContent {
 public:
  void Resolve(std::vector<char> bytes) { Settle(std::move(bytes), Error{}); }
  void Fail(Error error) { Settle({}, std::move(error)); }
  bool ready() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return ready_;
  }
  Error error() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return error_;
  }
  std::vector<char> bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }
  void OnReady(DoneCallback done) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!ready_) {
        waiting_.push_back(std::move(done));
        return;
      }
    }
    done(error());
  }

 private:
  void Settle(std::vector<char> bytes, Error error) {
    std::vector<DoneCallback> waiting;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      bytes_ = std::move(bytes);
      error_ = std::move(error);
      ready_ = true;
      waiting = std::exchange(waiting_, {});
    }
    for (DoneCallback& done : waiting) done(this->error());
  }

  mutable std::mutex mutex_;
  bool ready_ = false;
  std::vector<char> bytes_;
  Error error_;
  std::vector<DoneCallback> waiting_;
};
using TestContentPtr = std::shared_ptr<TestContent>;

class TestBuffer final : public DeviceBuffer {
 public:
  TestBuffer(std::atomic<int64_t>& live, BufferSpec spec, int device, TestContentPtr content)
      : live_(live), spec_(spec), device_(device), content_(std::move(content)) {
    ++live_;
  }
  ~TestBuffer() override {
    --live_;
    if (release_) release_();
  }
  DType dtype() const override { return spec_.dtype; }
  int64_t elements() const override { return spec_.elements; }
  int device() const override { return device_; }
  bool IsReady() const override { return content_->ready(); }
  void OnReady(DoneCallback done) override { content_->OnReady(std::move(done)); }

  const TestContentPtr& content() const { return content_; }
  void set_release(std::function<void()> release) { release_ = std::move(release); }
  std::atomic<bool> donated = false;

 private:
  std::atomic<int64_t>& live_;
  const BufferSpec spec_;
  const int device_;
  const TestContentPtr content_;
  std::function<void()> release_;
};

struct TestKernel {
  std::vector<BufferSpec> results;
  // One vector of bytes per result, or an error.
  std::function<absl::StatusOr<std::vector<std::vector<char>>>(
      const std::vector<std::vector<char>>&)>
      run;
};

class TestPlugin : public Plugin {
 public:
  explicit TestPlugin(int devices = 2, bool may_fail_late = false, bool serializes = true)
      : traits_(devices), serializes_(serializes) {
    for (int i = 0; i < devices; ++i) {
      traits_[i].name = Cat("test:", i);
      traits_[i].platform = "test";
      traits_[i].host_memory = true;
      traits_[i].may_fail_after_dispatch = may_fail_late;
    }
  }

  void Register(const std::string& name, TestKernel kernel) {
    kernels_[name] = std::make_shared<TestKernel>(std::move(kernel));
  }
  // From here on Executes return at once and wait for RunNext.
  void Hold(bool hold) {
    std::lock_guard<std::mutex> lock(mutex_);
    hold_ = hold;
  }
  // Runs the oldest held Execute on this thread. False if there is none.
  bool RunNext() {
    return Run([](std::deque<Held>& held) { return held.begin(); });
  }
  // The same of one device, and of those whose inputs are there: another thread may run what makes
  // them.
  bool RunNext(int device) {
    return Run([device](std::deque<Held>& held) {
      return std::find_if(held.begin(), held.end(), [device](const Held& h) {
        return h.device == device &&
               std::all_of(h.inputs.begin(), h.inputs.end(),
                           [](const TestContentPtr& input) { return input->ready(); });
      });
    });
  }
  // Runs the newest one first.
  bool RunLast() {
    return Run([](std::deque<Held>& held) { return held.empty() ? held.end() : held.end() - 1; });
  }
  // The next Execute returns this instead of running.
  void FailNextExecute(absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    refusals_.push_back(std::move(status));
  }
  void FailNextUpload(absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    upload_refusals_.push_back(std::move(status));
  }
  std::vector<bool> last_donated() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_donated_;
  }
  std::atomic<int64_t> live_buffers = 0;
  std::atomic<int64_t> executes = 0, uploads = 0, adopts = 0, loads = 0, compiles = 0;

  std::string name() const override { return "test"; }
  std::string fingerprint() const override { return "test-1"; }
  int device_count() const override { return static_cast<int>(traits_.size()); }
  const DeviceTraits& traits(int device) const override { return traits_[device]; }
  bool can_serialize() const override { return serializes_; }

  absl::StatusOr<std::string> Compile(const std::string& module, const std::string&) override {
    ++compiles;
    return "executable:" + module;
  }
  absl::StatusOr<LoadedExecutablePtr> Load(const std::string& serialized) override;
  absl::StatusOr<LoadedExecutablePtr> CompileAndLoad(const std::string& module,
                                                     const std::string& options) override {
    absl::StatusOr<std::string> serialized = Compile(module, options);
    return Load(*serialized);
  }

  absl::StatusOr<DeviceBufferPtr> Upload(int device, DType dtype, int64_t elements,
                                         const void* data) override {
    ++uploads;
    return FromHost(device, dtype, elements, data);
  }
  absl::StatusOr<DeviceBufferPtr> Adopt(int device, DType dtype, int64_t elements, void* block,
                                        std::function<void()> release) override {
    ++adopts;
    absl::StatusOr<DeviceBufferPtr> buffer = FromHost(device, dtype, elements, block);
    if (buffer.ok()) {
      static_cast<TestBuffer&>(**buffer).set_release(std::move(release));
    } else {
      release();
    }
    return buffer;
  }
  absl::Status Download(DeviceBuffer& buffer, int64_t offset, int64_t bytes, void* destination,
                        DoneCallback done) override {
    auto& source = static_cast<TestBuffer&>(buffer);
    if (source.donated) return absl::InvalidArgumentError("the buffer was donated");
    const TestContentPtr content = source.content();
    content->OnReady([=](Error error) {
      if (error.ok()) {
        const std::vector<char> all = content->bytes();
        std::memcpy(destination, all.data() + offset, static_cast<size_t>(bytes));
      }
      done(std::move(error));
    });
    return absl::OkStatus();
  }
  absl::StatusOr<DeviceBufferPtr> CopyToDevice(DeviceBuffer& buffer, int device) override {
    auto& source = static_cast<TestBuffer&>(buffer);
    auto copy = std::make_shared<TestContent>();
    source.content()->OnReady([copy, from = source.content()](Error error) {
      error.ok() ? copy->Resolve(from->bytes()) : copy->Fail(error);
    });
    return std::make_shared<TestBuffer>(live_buffers, BufferSpec{buffer.dtype(), buffer.elements()},
                                        device, copy);
  }

 private:
  friend class TestExecutable;

  struct Held {
    int device;
    std::vector<TestContentPtr> inputs;
    std::function<void()> run;
  };
  template <typename Choose>
  bool Run(Choose choose) {
    std::function<void()> run;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto chosen = choose(held_);
      if (chosen == held_.end()) return false;
      run = std::move(chosen->run);
      held_.erase(chosen);
    }
    run();
    return true;
  }

  absl::StatusOr<DeviceBufferPtr> FromHost(int device, DType dtype, int64_t elements,
                                           const void* data) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!upload_refusals_.empty()) {
        absl::Status status = upload_refusals_.front();
        upload_refusals_.pop_front();
        return status;
      }
    }
    auto content = std::make_shared<TestContent>();
    const char* bytes = static_cast<const char*>(data);
    content->Resolve(std::vector<char>(bytes, bytes + elements * DTypeBytes(dtype)));
    return std::make_shared<TestBuffer>(live_buffers, BufferSpec{dtype, elements}, device, content);
  }

  std::vector<DeviceTraits> traits_;
  const bool serializes_;
  std::map<std::string, std::shared_ptr<TestKernel>> kernels_;
  mutable std::mutex mutex_;
  bool hold_ = false;
  std::deque<Held> held_;
  std::deque<absl::Status> refusals_;
  std::deque<absl::Status> upload_refusals_;
  std::vector<bool> last_donated_;
};

class TestExecutable final : public LoadedExecutable {
 public:
  TestExecutable(TestPlugin& plugin, std::shared_ptr<TestKernel> kernel)
      : plugin_(plugin), kernel_(std::move(kernel)) {}

  absl::StatusOr<ExecuteResult> Execute(int device, std::span<DeviceBuffer* const> arguments,
                                        std::span<const bool> donate, DoneCallback done) override {
    std::vector<TestContentPtr> inputs;
    for (DeviceBuffer* argument : arguments) {
      auto& buffer = static_cast<TestBuffer&>(*argument);
      if (buffer.donated) return absl::InvalidArgumentError("an argument was donated");
      if (buffer.device() != device) return absl::InvalidArgumentError("argument elsewhere");
      inputs.push_back(buffer.content());
    }
    ++plugin_.executes;
    {
      std::lock_guard<std::mutex> lock(plugin_.mutex_);
      if (!plugin_.refusals_.empty()) {
        absl::Status status = plugin_.refusals_.front();
        plugin_.refusals_.pop_front();
        return status;
      }
      plugin_.last_donated_.assign(donate.begin(), donate.end());
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (donate[i]) static_cast<TestBuffer&>(*arguments[i]).donated = true;
    }
    ExecuteResult result;
    std::vector<TestContentPtr> outputs;
    for (const BufferSpec& spec : kernel_->results) {
      outputs.push_back(std::make_shared<TestContent>());
      result.outputs.push_back(
          std::make_shared<TestBuffer>(plugin_.live_buffers, spec, device, outputs.back()));
    }
    auto run = [kernel = kernel_, inputs, outputs, done] { Run(*kernel, inputs, outputs, done); };
    std::unique_lock<std::mutex> lock(plugin_.mutex_);
    if (plugin_.hold_) {
      plugin_.held_.push_back({device, inputs, run});
    } else {
      lock.unlock();
      run();
    }
    return result;
  }
  int64_t TemporaryBytes() const override { return 0; }

 private:
  static void Run(const TestKernel& kernel, const std::vector<TestContentPtr>& inputs,
                  const std::vector<TestContentPtr>& outputs, const DoneCallback& done) {
    std::vector<std::vector<char>> arguments;
    Error error;
    for (const TestContentPtr& input : inputs) {
      if (!input->ready()) error = {absl::StatusCode::kInternal, ErrorKind::kRuntime, "not ready"};
      if (error.ok()) error = input->error();
      arguments.push_back(input->bytes());
    }
    absl::StatusOr<std::vector<std::vector<char>>> results =
        error.ok() ? kernel.run(arguments) : error.ToStatus();
    for (size_t i = 0; i < outputs.size(); ++i) {
      results.ok() ? outputs[i]->Resolve((*results)[i])
                   : outputs[i]->Fail(Error::From(results.status()));
    }
    done(results.ok() ? Error{} : Error::From(results.status()));
  }

  TestPlugin& plugin_;
  const std::shared_ptr<TestKernel> kernel_;
};

inline absl::StatusOr<LoadedExecutablePtr> TestPlugin::Load(const std::string& serialized) {
  ++loads;
  constexpr std::string_view kPrefix = "executable:";
  auto it = serialized.starts_with(kPrefix) ? kernels_.find(serialized.substr(kPrefix.size()))
                                            : kernels_.end();
  if (it == kernels_.end()) return absl::InvalidArgumentError(Cat("cannot load ", serialized));
  return std::make_shared<TestExecutable>(*this, it->second);
}

// Compiles inline, or when the test says so.
class TestCompiler final : public Compiler {
 public:
  void Compile(CompileRequest request, std::function<void(CompileResult)> done) override {
    ++requests;
    std::unique_lock<std::mutex> lock(mutex_);
    auto answer = [this, request, done] { done(Answer(request)); };
    if (hold_) {
      held_.push_back(answer);
      return;
    }
    lock.unlock();
    answer();
  }
  void Hold(bool hold) {
    std::lock_guard<std::mutex> lock(mutex_);
    hold_ = hold;
  }
  bool AnswerNext() {
    std::function<void()> answer;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (held_.empty()) return false;
      answer = std::move(held_.front());
      held_.pop_front();
    }
    answer();
    return true;
  }
  // The next answer is this failure.
  void FailNext(Error error, bool deterministic) {
    std::lock_guard<std::mutex> lock(mutex_);
    failures_.push_back({std::move(error), deterministic, "", 0});
  }
  std::atomic<int64_t> requests = 0;

 private:
  CompileResult Answer(const CompileRequest& request) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failures_.empty()) {
      CompileResult failure = failures_.front();
      failures_.pop_front();
      return failure;
    }
    CompileResult result;
    result.serialized = "executable:" + request.module;
    result.seconds = 0.5;
    return result;
  }
  std::mutex mutex_;
  bool hold_ = false;
  std::deque<std::function<void()>> held_;
  std::deque<CompileResult> failures_;
};

}  // namespace neurond

#endif  // NEUROND_TESTS_UNIT_SESSION_TEST_PLUGIN_H_
