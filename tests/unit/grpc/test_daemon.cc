#include "tests/unit/grpc/test_daemon.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "server/wire/program_codec.h"

namespace neurond {
namespace {

class ThreadCompiler final : public Compiler {
 public:
  explicit ThreadCompiler(Plugin& plugin) : plugin_(plugin) {}
  ~ThreadCompiler() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void Compile(CompileRequest request, std::function<void(CompileResult)> done) override {
    std::lock_guard lock(mutex_);
    threads_.emplace_back([this, request = std::move(request), done = std::move(done)] {
      CompileResult result;
      const auto serialized = plugin_.Compile(request.module, request.options);
      if (serialized.ok()) {
        result.serialized = *serialized;
      } else {
        result.error = Error::From(serialized.status());
        result.deterministic = true;
      }
      done(std::move(result));
    });
  }

 private:
  Plugin& plugin_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace

TestDaemon::TestDaemon(const PluginConfig& config) {
  std::string directory = (std::filesystem::temp_directory_path() / "grpcXXXXXX").string();
  directory_ = mkdtemp(directory.data());
  auto plugin = MakePlugin(config);
  if (!plugin.ok()) {
    ADD_FAILURE() << plugin.status();
    abort();
  }
  plugin_ = *std::move(plugin);
  devices_ = std::make_unique<DeviceSet>(*plugin_, 4, int64_t{64} << 20);
  compiler_ = std::make_unique<ThreadCompiler>(*plugin_);
  cache_ = MakeExecutableCache(*plugin_, *compiler_, ExecutableCacheOptions{});
  programs_ = MakeProgramStore(*cache_, "", "test");
  state_.plugin = plugin_.get();
  state_.devices = devices_.get();
  state_.cache = cache_.get();
  state_.programs = programs_.get();
  state_.sessions = &sessions_;
  state_.use = &use_;
  state_.decode_program = wire::DecodeProgram;
  state_.build_id = "b01d";
  state_.version = "1.2.3";
  state_.started = std::chrono::steady_clock::now();
  state_.request_stop = [this](const std::string&) { ++stops_; };
  GrpcServerOptions options;
  options.unix_path = directory_ + "/grpc.sock";
  options.tcp_address = "127.0.0.1:0";
  options.workers = [] { return WorkerCounters{2, 1, 0, 3, 0, 0}; };
  auto server = StartGrpcServer(state_, std::move(options));
  if (!server.ok()) {
    ADD_FAILURE() << server.status();
    abort();
  }
  server_ = *std::move(server);
}

TestDaemon::~TestDaemon() {
  server_.reset();
  programs_.reset();
  cache_.reset();
  compiler_.reset();
  std::filesystem::remove_all(directory_);
}

}  // namespace neurond
