// Runs Programs in this process through the PJRT plugin, without a daemon: what the `graph` bench
// compares the daemon with. Same bytes, same lowering, same plugin and compile options; arguments
// are made up, since time does not depend on them.
//
//   graph_bench PLUGIN.so PROGRAM... runs all Programs, in order, as one step
//
// Reads "N\n" from stdin, runs N steps, each waited for, and answers with one line of N
// milliseconds; ends at the end of stdin. Fails (exit 1) if a Program cannot be run.

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "plugins/registry/registry.h"
#include "runtime/lowering/lowering.h"
#include "server/wire/program_codec.h"

namespace neurond {
namespace {

using Clock = std::chrono::steady_clock;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// Small numbers, so that nothing overflows or becomes denormal; zeros for integers, which index.
std::vector<char> MakeUpContent(const BufferSpec& spec) {
  std::vector<char> bytes(static_cast<size_t>(spec.elements * DTypeBytes(spec.dtype)));
  if (spec.dtype != DType::kF32) return bytes;
  auto* values = reinterpret_cast<float*>(bytes.data());
  uint32_t state = 1;
  for (int64_t i = 0; i < spec.elements; ++i) {
    state = state * 1664525 + 1013904223;
    values[i] = 0.01f + 0.02f * static_cast<float>(state >> 8) / (1 << 24);
  }
  return bytes;
}

// One Program, ready to run again and again: its arguments stay, but for written ones, which each
// run replaces by their next Version.
class Runner {
 public:
  static absl::StatusOr<Runner> Make(Plugin& plugin, const std::string& path) {
    Runner runner;
    auto graph = wire::DecodeProgram(ReadFile(path));
    if (!graph.ok()) return graph.status();
    auto program = Lower(*graph);
    if (!program.ok()) return program.status();
    runner.program_ = *std::move(program);
    auto executable = plugin.CompileAndLoad(runner.program_.module, "");
    if (!executable.ok()) return executable.status();
    runner.executable_ = *std::move(executable);
    for (int slot : runner.program_.parameters) {
      const BufferSpec& spec = runner.program_.buffers[slot];
      auto buffer = plugin.Upload(0, spec.dtype, spec.elements, MakeUpContent(spec).data());
      if (!buffer.ok()) return buffer.status();
      runner.arguments_.push_back(*std::move(buffer));
    }
    if (runner.program_.word_count > 0) {
      auto words = runner.UploadWords(plugin, *graph);
      if (!words.ok()) return words.status();
      runner.arguments_.push_back(*std::move(words));
    }
    runner.FindDonated();
    return runner;
  }

  absl::Status Run(DoneCallback done) {
    std::vector<DeviceBuffer*> arguments;
    for (const DeviceBufferPtr& argument : arguments_) arguments.push_back(argument.get());
    auto result =
        executable_->Execute(0, arguments, {donate_.get(), arguments_.size()}, std::move(done));
    if (!result.ok()) return result.status();
    for (const auto& [argument, output] : next_) arguments_[argument] = result->outputs[output];
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<DeviceBufferPtr> UploadWords(Plugin& plugin, const Graph& graph) {
    std::vector<int64_t> words(program_.word_count, 0);
    for (const ScalarSpec& scalar : graph.scalars) {
      if (scalar.dtype == DType::kF64) words[scalar.word] = std::bit_cast<int64_t>(0.5);
      if (scalar.dtype == DType::kI64) words[scalar.word] = 1;
    }
    return plugin.Upload(0, DType::kI64, program_.word_count, words.data());
  }

  void FindDonated() {
    donate_ = std::make_unique<bool[]>(arguments_.size());
    for (size_t w = 0; w < program_.written.size(); ++w) {
      for (size_t p = 0; p < program_.parameters.size(); ++p) {
        if (program_.parameters[p] != program_.written[w]) continue;
        donate_[p] = true;
        next_.emplace_back(p, program_.written_results[w]);
      }
    }
  }

  Program program_;
  LoadedExecutablePtr executable_;
  std::vector<DeviceBufferPtr> arguments_;
  std::unique_ptr<bool[]> donate_;
  std::vector<std::pair<size_t, int>> next_;  // argument, the module result that replaces it
};

// One step: every Program once, then a wait for the last; a device runs them in order.
absl::StatusOr<double> Step(std::vector<Runner>& runners) {
  const auto start = Clock::now();
  std::vector<std::future<Error>> ends;
  for (Runner& runner : runners) {
    auto end = std::make_shared<std::promise<Error>>();
    ends.push_back(end->get_future());
    if (auto status = runner.Run([end](Error error) { end->set_value(std::move(error)); });
        !status.ok()) {
      return status;
    }
  }
  for (auto& end : ends) {
    if (Error error = end.get(); !error.ok()) return absl::InternalError(error.message);
  }
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

absl::Status Serve(const std::string& plugin_path, const std::vector<std::string>& paths) {
  PluginConfig config;
  config.path = plugin_path;
  auto plugin = MakePlugin(config);
  if (!plugin.ok()) return plugin.status();
  std::vector<Runner> runners;
  for (const std::string& path : paths) {
    auto runner = Runner::Make(**plugin, path);
    if (!runner.ok()) {
      return absl::Status(runner.status().code(),
                          path + ": " + std::string(runner.status().message()));
    }
    runners.push_back(*std::move(runner));
  }
  for (int steps; std::cin >> steps;) {
    for (int i = 0; i < steps; ++i) {
      auto milliseconds = Step(runners);
      if (!milliseconds.ok()) return milliseconds.status();
      std::cout << *milliseconds << (i + 1 < steps ? ' ' : '\n');
    }
    std::cout.flush();
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace neurond

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: graph_bench PLUGIN.so PROGRAM...\n";
    return 2;
  }
  const absl::Status status = neurond::Serve(argv[1], {argv + 2, argv + argc});
  if (!status.ok()) std::cerr << status << '\n';
  // The plugin's threads may still run: leave without destructors.
  std::cout.flush();
  _exit(status.ok() ? 0 : 1);
}
