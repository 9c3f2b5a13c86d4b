// Daemon: the composition root. Makes every part from the config, connects them, runs the loop, and
// takes them down in order.
//
// Order of making: lock file, listening socket, plugin (before any thread: a library may change the
// environment), devices, compiler workers, caches, gRPC, ring. Nothing touches a device or a socket
// before the lock file is held.
//
// Threads: the loop (signals, accept, idle timer, drain) is the thread that calls Run; each ring
// session has its own; the worker pool has one; the plugin and gRPC have theirs. The loop never
// executes and never compiles.
//
// Ending: SIGTERM, SIGINT, a stop request or an idle timeout start a drain: no new clients,
// sessions end once they have nothing queued or kDrainMs have passed; a second signal skips the
// wait.
//
// Thread-safety: one thread, but RequestStop: any thread.

#ifndef NEUROND_SERVER_DAEMON_DAEMON_H_
#define NEUROND_SERVER_DAEMON_DAEMON_H_

#include <uv.h>

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "server/compiler/worker_pool.h"
#include "server/daemon/config.h"
#include "server/daemon/daemon_state.h"
#include "server/daemon/listen_socket.h"
#include "server/daemon/lock_file.h"
#include "server/daemon/use_clock.h"
#include "server/ring/ring_server.h"

namespace neurond {

class GrpcServer;

class Daemon {
 public:
  explicit Daemon(DaemonConfig config);
  ~Daemon();

  // `inherited_fd`: the listening ring socket, or -1.
  absl::Status Start(int inherited_fd);
  void Run();
  // A device has work that did not end; after Run() only.
  bool DevicesBusy();

 private:
  absl::Status MakePluginAndDevices();
  absl::Status MakeCompilerAndCaches();
  absl::Status StartFrontEnds();
  void FillState();
  void StartLoopHandles();

  void RequestStop(const std::string& reason);
  void OnStopRequested();
  void OnSignal(int number);
  void Drain(const std::string& reason);
  void OnDrainTick();
  void OnRingEmpty();
  // How long the daemon must still be idle before it ends.
  int64_t IdleMsLeft() const;
  void ArmIdleTimer();
  void OnIdleTimer();
  void Finish();

  const DaemonConfig config_;
  std::unique_ptr<LockFile> lock_;
  std::unique_ptr<ListenSocket> socket_;
  std::unique_ptr<Plugin> plugin_;
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<WorkerPool> compiler_;
  std::unique_ptr<ExecutableCache> cache_;
  std::unique_ptr<ProgramStore> programs_;
  SessionRegistry sessions_;
  UseClock use_;
  DaemonState state_;
  std::unique_ptr<GrpcServer> grpc_;

  uv_loop_t loop_{};
  std::unique_ptr<ring::RingServer> ring_;
  uv_signal_t signals_[2]{};
  uv_async_t stop_{};
  uv_timer_t idle_{};
  uv_timer_t drain_{};
  std::mutex stop_mutex_;
  std::string stop_reason_;
  bool draining_ = false;
  bool finished_ = false;
  uint64_t drain_deadline_ms_ = 0;
};

// Everything after the flags: sets up the process, runs a Daemon. Returns the exit code.
int RunDaemon(DaemonConfig config);

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_DAEMON_H_
