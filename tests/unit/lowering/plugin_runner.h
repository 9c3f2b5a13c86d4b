// Runs a lowered Program on the plugin that NEURON_PJRT_PLUGIN names, on data in host vectors of
// bytes.

#ifndef NEUROND_TESTS_UNIT_LOWERING_PLUGIN_RUNNER_H_
#define NEUROND_TESTS_UNIT_LOWERING_PLUGIN_RUNNER_H_

#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/registry/registry.h"
#include "runtime/lowering/lowering.h"

namespace neurond::testing {

using Bytes = std::string;

template <typename T>
Bytes ToBytes(const std::vector<T>& values) {
  return Bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
std::vector<T> FromBytes(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class LoweredProgram {
 public:
  static absl::StatusOr<LoweredProgram> Make(const Graph& graph) {
    auto program = Lower(graph);
    if (!program.ok()) return program.status();
    auto executable = Plugin().CompileAndLoad(program->module, "");
    if (!executable.ok()) return executable.status();
    return LoweredProgram(*std::move(program), *std::move(executable));
  }

  // buffers: one per slot. Returns the module's results.
  absl::StatusOr<std::vector<Bytes>> Run(const std::vector<Bytes>& buffers,
                                         const std::vector<int64_t>& words) {
    std::vector<DeviceBufferPtr> owned;
    for (int slot : program_.parameters) {
      const BufferSpec& spec = program_.buffers[slot];
      auto buffer = Plugin().Upload(0, spec.dtype, spec.elements, buffers[slot].data());
      if (!buffer.ok()) return buffer.status();
      owned.push_back(*buffer);
    }
    if (program_.word_count > 0) {
      auto buffer = Plugin().Upload(0, DType::kI64, program_.word_count, words.data());
      if (!buffer.ok()) return buffer.status();
      owned.push_back(*buffer);
    }
    std::vector<DeviceBuffer*> arguments;
    for (const DeviceBufferPtr& b : owned) arguments.push_back(b.get());
    const std::unique_ptr<bool[]> donate(new bool[arguments.size() + 1]());
    auto result =
        executable_->Execute(0, arguments, {donate.get(), arguments.size()}, [](Error) {});
    if (!result.ok()) return result.status();
    std::vector<Bytes> out;
    for (const DeviceBufferPtr& b : result->outputs) {
      Bytes bytes(b->elements() * DTypeBytes(b->dtype()), '\0');
      auto done = std::make_shared<std::promise<Error>>();
      const absl::Status status =
          Plugin().Download(*b, 0, static_cast<int64_t>(bytes.size()), bytes.data(),
                            [done](Error e) { done->set_value(std::move(e)); });
      if (!status.ok()) return status;
      const Error error = done->get_future().get();
      if (!error.ok()) return error.ToStatus();
      out.push_back(std::move(bytes));
    }
    return out;
  }

  const Program& program() const { return program_; }

 private:
  LoweredProgram(Program program, LoadedExecutablePtr executable)
      : program_(std::move(program)), executable_(std::move(executable)) {}

  // One for the process, never destroyed.
  static neurond::Plugin& Plugin() {
    static neurond::Plugin* const plugin = [] {
      const char* path = std::getenv("NEURON_PJRT_PLUGIN");
      auto made = MakePlugin({"pjrt", path == nullptr ? "" : path, {}, ""});
      return made.ok() ? made->release() : nullptr;
    }();
    if (plugin == nullptr) std::abort();  // the test needs its plugin
    return *plugin;
  }

  Program program_;
  LoadedExecutablePtr executable_;
};

}  // namespace neurond::testing

#endif  // NEUROND_TESTS_UNIT_LOWERING_PLUGIN_RUNNER_H_
