// What a Session adds to the plugin's own Execute: a cached 16-element add, submitted to
// completion, against the same Execute called directly. Run:
// NEURON_PJRT_PLUGIN=.plugin/lib/pjrt_cpu.so session_bench
//
//   BM_PluginExecute     the plugin alone
//   BM_SessionExecute    the same through a Session: two inputs, a new output, the old output freed
//   BM_SessionInPlace    a += b, donated
//   BM_SessionWords      a += word, the same word each time
//   BM_SessionRead       64 bytes back to the host
//
// The minimum of many short runs is what counts: it is the one that nothing else on the machine got
// between.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <vector>

#include "plugins/registry/registry.h"
#include "runtime/session/session.h"

namespace neurond {
namespace {

constexpr BufferSpec kSpec{DType::kF32, 16};

// Compiles in the caller's process.
class InlineCompiler final : public Compiler {
 public:
  explicit InlineCompiler(Plugin& plugin) : plugin_(plugin) {}
  void Compile(CompileRequest request, std::function<void(CompileResult)> done) override {
    CompileResult result;
    absl::StatusOr<std::string> bytes = plugin_.Compile(request.module, request.options);
    if (bytes.ok()) {
      result.serialized = *std::move(bytes);
    } else {
      result.error = Error::From(bytes.status());
    }
    done(std::move(result));
  }

 private:
  Plugin& plugin_;
};

class Silent final : public SessionObserver {
 public:
  void OnCompleted(int, uint64_t seq) override { completed = seq; }
  void OnUnreported(uint64_t) override {}
  void Wake() override {}
  std::atomic<uint64_t> completed = 0;
};

Program Add() {
  Program program;
  program.name = "add";
  program.buffers = {kSpec, kSpec};
  program.parameters = {0, 1};
  program.created = {kSpec};
  program.created_results = {0};
  program.result_count = 1;
  program.module =
      "module @add {\n  func.func public @main(%a: tensor<16xf32>, %b: tensor<16xf32>) -> "
      "tensor<16xf32> {\n    %0 = stablehlo.add %a, %b : tensor<16xf32>\n    return %0 : "
      "tensor<16xf32>\n  }\n}\n";
  return program;
}

Program AddInPlace() {
  Program program = Add();
  program.name = "add_";
  program.created.clear();
  program.created_results.clear();
  program.written = {0};
  program.written_results = {0};
  program.module =
      "module @add_ {\n  func.func public @main(%a: tensor<16xf32> {tf.aliasing_output = 0 : "
      "i32}, %b: tensor<16xf32>) -> tensor<16xf32> {\n    %0 = stablehlo.add %a, %b : "
      "tensor<16xf32>\n    return %0 : tensor<16xf32>\n  }\n}\n";
  return program;
}

Program AddWord() {
  Program program = AddInPlace();
  program.name = "add_word";
  program.buffers = {kSpec};
  program.parameters = {0};
  program.word_count = 1;
  program.module =
      "module @add_word {\n  func.func public @main(%a: tensor<16xf32> {tf.aliasing_output = 0 : "
      "i32}, %w: tensor<1xi64>) -> tensor<16xf32> {\n    %0 = stablehlo.convert %w : "
      "(tensor<1xi64>) -> tensor<1xf32>\n    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : "
      "(tensor<1xf32>) -> tensor<16xf32>\n    %2 = stablehlo.add %a, %1 : tensor<16xf32>\n    "
      "return %2 : tensor<16xf32>\n  }\n}\n";
  return program;
}

void Shortest(benchmark::internal::Benchmark* bench) {
  bench->Iterations(100)->Repetitions(100)->ReportAggregatesOnly()->ComputeStatistics(
      "min",
      [](const std::vector<double>& runs) { return *std::min_element(runs.begin(), runs.end()); });
}

struct Host {
  static std::unique_ptr<Plugin> Load() {
    PluginConfig config;
    const char* path = std::getenv("NEURON_PJRT_PLUGIN");
    config.path = path == nullptr ? "" : path;
    config.options = {{"cpu_device_count", "1"}};
    auto plugin = MakePlugin(config);
    if (!plugin.ok()) {
      std::fprintf(stderr, "%s\n", plugin.status().ToString().c_str());
      std::exit(1);
    }
    return *std::move(plugin);
  }
  Host()
      : plugin(Load()),
        compiler(*plugin),
        cache(MakeExecutableCache(*plugin, compiler, {})),
        programs(MakeProgramStore(*cache, "", "bench")),
        devices(*plugin, 4, 0) {
    SessionOptions options;
    options.devices = {0};
    session = MakeSession(devices, *programs, observer, options);
    a = Buffer();
    b = Buffer();
  }
  StoredProgramPtr Define(Program program) {
    auto stored = programs->DefineModule(std::move(program));
    std::promise<void> resolved;
    (*stored)->executable->OnResolved([&] { resolved.set_value(); });
    resolved.get_future().wait();
    if ((*stored)->executable->loaded() == nullptr) {
      std::fprintf(stderr, "%s\n", (*stored)->executable->error().message.c_str());
      std::exit(1);
    }
    return *stored;
  }
  uint64_t Buffer() {
    session->Alloc(++ids, kSpec.dtype, kSpec.elements, 0).IgnoreError();
    const float values[16] = {};
    Session::WriteCommand write;
    write.seq = ++seq;
    write.buffer = ids;
    write.transfer = seq;
    write.data = values;
    write.bytes = write.total_bytes = sizeof(values);
    write.last = true;
    session->Write(write).IgnoreError();
    return ids;
  }

  std::unique_ptr<Plugin> plugin;
  InlineCompiler compiler;
  std::unique_ptr<ExecutableCache> cache;
  std::unique_ptr<ProgramStore> programs;
  DeviceSet devices;
  Silent observer;
  std::unique_ptr<Session> session;
  uint64_t seq = 0, ids = 0, a = 0, b = 0;
};

Host& Shared() {
  static Host* const host = new Host;
  return *host;
}

void BM_PluginExecute(benchmark::State& state) {
  Host& host = Shared();
  LoadedExecutable* add = host.Define(Add())->executable->loaded();
  const float values[16] = {};
  const DeviceBufferPtr a = *host.plugin->Upload(0, kSpec.dtype, 16, values);
  const DeviceBufferPtr b = *host.plugin->Upload(0, kSpec.dtype, 16, values);
  DeviceBuffer* const arguments[] = {a.get(), b.get()};
  const bool donate[] = {false, false};
  for (auto _ : state) {
    auto result = add->Execute(0, arguments, donate, [](const Error&) {});
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(BM_PluginExecute)->Apply(Shortest);

void BM_SessionExecute(benchmark::State& state) {
  Host& host = Shared();
  Session::ExecuteCommand command;
  command.program = host.Define(Add())->id;
  const uint64_t inputs[] = {host.a, host.b};
  uint64_t output = 0;
  command.inputs = inputs;
  command.outputs = {&output, 1};
  for (auto _ : state) {
    command.seq = ++host.seq;
    output = ++host.ids;
    if (!host.session->Execute(command).ok()) state.SkipWithError("execute");
    host.session->Free(output).IgnoreError();
  }
}
BENCHMARK(BM_SessionExecute)->Apply(Shortest);

void RunInPlace(benchmark::State& state, Program program) {
  Host& host = Shared();
  Session::ExecuteCommand command;
  const int64_t word = 3;
  if (program.word_count > 0) command.words = {&word, 1};
  const uint64_t inputs[] = {host.a, host.b};
  command.inputs = {inputs, program.buffers.size()};
  command.program = host.Define(std::move(program))->id;
  for (auto _ : state) {
    command.seq = ++host.seq;
    if (!host.session->Execute(command).ok()) state.SkipWithError("execute");
  }
  if (host.session->unreported() != 0) state.SkipWithError("a program failed");
}
void BM_SessionInPlace(benchmark::State& state) { RunInPlace(state, AddInPlace()); }
BENCHMARK(BM_SessionInPlace)->Apply(Shortest);
void BM_SessionWords(benchmark::State& state) { RunInPlace(state, AddWord()); }
BENCHMARK(BM_SessionWords)->Apply(Shortest);

void BM_SessionRead(benchmark::State& state) {
  Host& host = Shared();
  float values[16];
  Session::ReadCommand command;
  command.buffer = host.a;
  command.destination = values;
  command.bytes = sizeof(values);
  for (auto _ : state) {
    command.seq = ++host.seq;
    if (!host.session->Read(command).ok()) state.SkipWithError("read");
    while (host.observer.completed < host.seq) {
    }
  }
}
BENCHMARK(BM_SessionRead)->Apply(Shortest);

}  // namespace
}  // namespace neurond

BENCHMARK_MAIN();
