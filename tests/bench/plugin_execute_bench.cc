// What our Plugin adds to a PJRT call: chained 16-element adds, with and without donation, uploads
// and downloads of a few bytes.
//
// NEURON_PJRT_PLUGIN names the library.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "plugins/registry/registry.h"

namespace neurond {
namespace {

constexpr char kAdd[] = R"(module @bench_add {
  func.func public @main(%arg0: tensor<16xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
)";

Plugin& ThePlugin() {
  static Plugin* const plugin = [] {
    const char* path = std::getenv("NEURON_PJRT_PLUGIN");
    auto made = MakePlugin({"pjrt", path == nullptr ? "" : path, {{"cpu_device_count", "1"}}, ""});
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
      std::exit(1);
    }
    return made->release();
  }();
  return *plugin;
}

void BM_ChainedAdd(benchmark::State& state) {
  Plugin& plugin = ThePlugin();
  LoadedExecutablePtr add = *plugin.CompileAndLoad(kAdd, "");
  const std::vector<float> zeros(16, 0), ones(16, 1);
  DeviceBufferPtr value = *plugin.Upload(0, DType::kF32, 16, zeros.data());
  DeviceBufferPtr one = *plugin.Upload(0, DType::kF32, 16, ones.data());
  const bool donate[] = {state.range(0) != 0, state.range(1) != 0};
  for (auto _ : state) {
    DeviceBuffer* arguments[] = {value.get(), one.get()};
    auto result = add->Execute(0, arguments, donate, [](Error) {});
    value = std::move(result->outputs[0]);
  }
}
// {donated, flag of the argument that the module does not alias}
BENCHMARK(BM_ChainedAdd)
    ->ArgNames({"donate", "other"})
    ->Args({0, 0})
    ->Args({0, 1})
    ->Args({1, 0})
    ->Args({1, 1});

void BM_UploadWords(benchmark::State& state) {
  Plugin& plugin = ThePlugin();
  const std::vector<int64_t> words(state.range(0), 7);
  for (auto _ : state) {
    auto buffer = plugin.Upload(0, DType::kI64, words.size(), words.data());
    benchmark::DoNotOptimize(buffer);
  }
}
BENCHMARK(BM_UploadWords)->Arg(1)->Arg(64);

void BM_DownloadReady(benchmark::State& state) {
  Plugin& plugin = ThePlugin();
  const std::vector<float> ones(16, 1);
  DeviceBufferPtr one = *plugin.Upload(0, DType::kF32, 16, ones.data());
  float out[16];
  for (auto _ : state) {
    benchmark::DoNotOptimize(plugin.Download(*one, 0, sizeof(out), out, [](Error) {}));
  }
}
BENCHMARK(BM_DownloadReady);

}  // namespace
}  // namespace neurond
