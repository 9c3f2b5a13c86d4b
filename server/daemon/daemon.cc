#include "server/daemon/daemon.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "plugins/registry/registry.h"
#include "proto/ring/build_id.h"
#include "proto/ring/socket_path.h"
#include "runtime/base/text.h"
#include "server/daemon/limits.h"
#include "server/daemon/process_setup.h"
#include "server/wire/program_codec.h"
#ifdef NEURON_GRPC
#include "server/grpc/grpc_server.h"
#else
namespace neurond {
class GrpcServer {};
}  // namespace neurond
#endif

namespace neurond {
namespace {

PluginConfig MakePluginConfig(const DaemonConfig& config) {
  PluginConfig plugin;
  plugin.kind = config.plugin_kind;
  plugin.path = config.plugin;
  plugin.options = OptionMap(config.plugin_options);
  plugin.keep_directory = *config.cache_dir;
  if (!config.script_file.empty()) plugin.options["script_file"] = config.script_file;
  const bool interpreter = config.plugin_kind == "fake" && config.plugin.empty();
  const bool cpu = config.plugin.find("cpu") != std::string::npos;
  if (interpreter || cpu || config.devices != 0) {
    plugin.options.try_emplace(interpreter ? "devices" : "cpu_device_count",
                               std::to_string(config.devices != 0 ? config.devices : kCpuDevices));
  }
  return plugin;
}

// Bytes of each device where the plugin does not say: devices that are host memory share four
// fifths of the machine's, so that filling them all leaves the host alive. 0: unbounded.
int64_t DefaultDeviceMemory(const Plugin& plugin) {
  const int devices = plugin.device_count();
  if (devices == 0 || plugin.traits(0).memory_bytes > 0 || !plugin.traits(0).host_memory) return 0;
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? pages * page_bytes / 5 * 4 / devices : 0;
}

void CloseHandle(uv_handle_t* handle) {
  if (handle->loop != nullptr && !uv_is_closing(handle)) uv_close(handle, nullptr);
}

}  // namespace

Daemon::Daemon(DaemonConfig config) : config_(std::move(config)) { uv_loop_init(&loop_); }

Daemon::~Daemon() {
  grpc_.reset();
  ring_.reset();
  programs_.reset();
  cache_.reset();
  compiler_.reset();
  devices_.reset();
  plugin_.reset();
  uv_loop_close(&loop_);
}

absl::Status Daemon::Start(int inherited_fd) {
  const std::string directory = std::filesystem::path(config_.socket).parent_path().string();
  std::error_code made;
  if (!std::filesystem::exists(directory, made)) {
    std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), made);
    const std::string problem = ring::PrivateDirectoryProblem(directory);
    if (!problem.empty()) return absl::FailedPreconditionError(problem);
  }
  // A predecessor that was asked to end may still be at it.
  absl::StatusOr<LockFile> lock =
      LockFile::Take(ring::LifeLockPath(config_.socket), inherited_fd >= 0 ? kLifeLockMs : 0);
  if (!lock.ok()) return lock.status();
  lock_ = std::make_unique<LockFile>(*std::move(lock));
  lock_->WritePid();
  absl::StatusOr<ListenSocket> socket = ListenSocket::Open(config_.socket, inherited_fd);
  if (!socket.ok()) return socket.status();
  socket_ = std::make_unique<ListenSocket>(*std::move(socket));
  if (absl::Status status = MakePluginAndDevices(); !status.ok()) return status;
  if (absl::Status status = MakeCompilerAndCaches(); !status.ok()) return status;
  FillState();
  return StartFrontEnds();
}

absl::Status Daemon::MakePluginAndDevices() {
  if (config_.plugin_kind == "pjrt" && config_.plugin.empty()) {
    return absl::FailedPreconditionError(
        "no PJRT plugin: name one with --plugin or NEURON_PJRT_PLUGIN");
  }
  absl::StatusOr<std::unique_ptr<Plugin>> plugin = MakePlugin(MakePluginConfig(config_));
  if (!plugin.ok()) return plugin.status();
  plugin_ = *std::move(plugin);
  const int64_t memory_bytes =
      config_.device_memory_bytes > 0 ? config_.device_memory_bytes : DefaultDeviceMemory(*plugin_);
  devices_ = std::make_unique<DeviceSet>(*plugin_, config_.device_inflight_max, memory_bytes);
  return absl::OkStatus();
}

absl::Status Daemon::MakeCompilerAndCaches() {
  WorkerPoolOptions options;
  options.program = ProgramDirectory() + "/neurond-compiler";
  options.plugin = MakePluginConfig(config_);
  options.workers_max = config_.workers;
  options.fingerprint = plugin_->fingerprint();
  absl::StatusOr<std::unique_ptr<WorkerPool>> pool = WorkerPool::Start(std::move(options));
  if (!pool.ok()) return pool.status();
  compiler_ = *std::move(pool);
  ExecutableCacheOptions cache;
  cache.directory = config_.cache_dir->empty() ? "" : *config_.cache_dir + "/executables";
  cache.disk_bytes_max = config_.cache_bytes_max;
  cache_ = MakeExecutableCache(*plugin_, *compiler_, std::move(cache));
  programs_ = MakeProgramStore(*cache_, *config_.cache_dir, ring::ElfBuildId("/proc/self/exe"));
  return absl::OkStatus();
}

void Daemon::FillState() {
  state_.plugin = plugin_.get();
  state_.devices = devices_.get();
  state_.cache = cache_.get();
  state_.programs = programs_.get();
  state_.sessions = &sessions_;
  state_.use = &use_;
  state_.decode_program = wire::DecodeProgram;
  state_.build_id = ring::ElfBuildId("/proc/self/exe");
  state_.version = NEURON_VERSION;
  state_.socket = config_.socket;
  state_.grpc_address = config_.grpc_address;
  state_.cache_dir = *config_.cache_dir;
  state_.log_file = config_.log_file;
  state_.started = std::chrono::steady_clock::now();
  state_.request_stop = [this](const std::string& reason) { RequestStop(reason); };
}

absl::Status Daemon::StartFrontEnds() {
  StartLoopHandles();
#ifdef NEURON_GRPC
  GrpcServerOptions options;
  if (config_.grpc_socket != "none") options.unix_path = config_.grpc_socket;
  options.tcp_address = config_.grpc_address;
  options.workers = [this] {
    const WorkerPoolCounters c = compiler_->counters();
    return WorkerCounters{c.workers, c.busy, c.queued, c.started, c.crashed, c.killed};
  };
  absl::StatusOr<std::unique_ptr<GrpcServer>> grpc = StartGrpcServer(state_, std::move(options));
  if (!grpc.ok()) return grpc.status();
  grpc_ = *std::move(grpc);
  if (grpc_->tcp_port() != 0) spdlog::info("gRPC on TCP port {}", grpc_->tcp_port());
#endif
  ring_ = std::make_unique<ring::RingServer>(&loop_, state_, socket_->TakeFd(),
                                             [this] { OnRingEmpty(); });
  if (absl::Status status = ring_->Start(); !status.ok()) return status;
  ArmIdleTimer();
  return absl::OkStatus();
}

void Daemon::StartLoopHandles() {
  stop_.data = idle_.data = drain_.data = signals_[0].data = signals_[1].data = this;
  uv_async_init(&loop_, &stop_,
                [](uv_async_t* a) { static_cast<Daemon*>(a->data)->OnStopRequested(); });
  uv_timer_init(&loop_, &idle_);
  uv_timer_init(&loop_, &drain_);
  const int numbers[] = {SIGTERM, SIGINT};
  for (int i = 0; i < 2; ++i) {
    uv_signal_init(&loop_, &signals_[i]);
    uv_signal_start(
        &signals_[i],
        [](uv_signal_t* s, int number) { static_cast<Daemon*>(s->data)->OnSignal(number); },
        numbers[i]);
  }
}

void Daemon::Run() {
  spdlog::info("neurond {} (build {}) serves {} on {}", state_.version, state_.build_id,
               plugin_->name(), config_.socket);
  uv_run(&loop_, UV_RUN_DEFAULT);
}

void Daemon::RequestStop(const std::string& reason) {
  {
    std::lock_guard lock(stop_mutex_);
    stop_reason_ = reason;
  }
  uv_async_send(&stop_);
}

void Daemon::OnStopRequested() {
  std::string reason;
  {
    std::lock_guard lock(stop_mutex_);
    reason = stop_reason_;
  }
  Drain(reason);
}

void Daemon::OnSignal(int number) {
  if (draining_) drain_deadline_ms_ = 0;
  Drain(Cat("signal ", number));
}

void Daemon::Drain(const std::string& reason) {
  if (draining_) return;
  draining_ = true;
  spdlog::info("ending: {}", reason);
  alarm(kDrainHardSeconds);  // whatever hangs then, the process ends
  sessions_.Freeze();
  socket_->Unlink();
  ring_->Stop();
  drain_deadline_ms_ = uv_now(&loop_) + kDrainMs;
  uv_timer_stop(&idle_);
  uv_timer_start(
      &drain_, [](uv_timer_t* t) { static_cast<Daemon*>(t->data)->OnDrainTick(); }, 0,
      kDrainTickMs);
}

void Daemon::OnDrainTick() {
  int64_t queued = 0;
  for (const SessionCounters& c : sessions_.List()) queued += c.backlog;
  if (queued == 0 || uv_now(&loop_) >= drain_deadline_ms_) ring_->EndAll("the daemon is stopping");
  if (ring_->sessions() == 0) Finish();
}

void Daemon::OnRingEmpty() {
  if (draining_) {
    Finish();
  } else {
    ArmIdleTimer();
  }
}

int64_t Daemon::IdleMsLeft() const {
  return int64_t{1000} * config_.idle_exit_seconds - use_.idle().count();
}

void Daemon::ArmIdleTimer() {
  if (config_.idle_exit_seconds <= 0) return;
  // What keeps an idle daemon alive when its time is up (somebody about to connect) is over soon.
  const int64_t wait_ms = std::max(IdleMsLeft(), kIdleRetryMs);
  uv_timer_start(
      &idle_, [](uv_timer_t* t) { static_cast<Daemon*>(t->data)->OnIdleTimer(); },
      static_cast<uint64_t>(wait_ms), 0);
}

void Daemon::OnIdleTimer() {
  const bool gone = IdleMsLeft() <= 0 && socket_->UnlinkIfIdle([this] {
    return ring_->AcceptWaiting() == 0 && ring_->sessions() == 0 && sessions_.FreezeIfEmpty();
  });
  if (gone) {
    Drain("idle");
  } else {
    ArmIdleTimer();
  }
}

bool Daemon::DevicesBusy() {
  for (int i = 0; i < devices_->size(); ++i) {
    if (devices_->at(i).counters().inflight > 0) return true;
  }
  return false;
}

void Daemon::Finish() {
  if (finished_) return;
  finished_ = true;
#ifdef NEURON_GRPC
  if (grpc_ != nullptr) grpc_->Shutdown(std::chrono::milliseconds(kGrpcDrainMs));
#endif
  ring_->Close();
  for (uv_signal_t& s : signals_) CloseHandle(reinterpret_cast<uv_handle_t*>(&s));
  CloseHandle(reinterpret_cast<uv_handle_t*>(&stop_));
  CloseHandle(reinterpret_cast<uv_handle_t*>(&idle_));
  CloseHandle(reinterpret_cast<uv_handle_t*>(&drain_));
}

int RunDaemon(DaemonConfig config) {
  const int inherited = InheritedListenFd();
  if (config.detach) Detach();
  ResetInherited();
  ResolveDefaults(config);
  if (absl::Status status = SetUpLogging(config.log_file, config.log_level, config.detach);
      !status.ok()) {
    std::fprintf(stderr, "neurond: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  Daemon daemon(std::move(config));
  if (absl::Status status = daemon.Start(inherited); !status.ok()) {
    spdlog::error("cannot start: {}", std::string(status.message()));
    spdlog::shutdown();
    // Parts that already run are not worth taking down in order.
    _exit(1);
  }
  daemon.Run();
  if (daemon.DevicesBusy()) {
    // A device still computes into memory that teardown would free; the process's end frees it as
    // well.
    spdlog::info("ended while a program was running");
    spdlog::shutdown();
    _exit(0);
  }
  spdlog::info("ended");
  return 0;
}

}  // namespace neurond
