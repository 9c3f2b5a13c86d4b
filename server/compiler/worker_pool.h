// WorkerPool: compiles in neurond-compiler processes, several at once, each sandboxed and
// replaceable.
//
// Workers are started on demand, up to workers_max; one without work ends after a minute. A program
// whose worker dies is tried once more *alone*, with nothing else running, so that neither memory
// shortage nor a neighbour is to blame; if that fails too, the result is an error that names the
// program and says how the worker ended.
//
// Admission: at most `workers_max` compiles at once, by default one per core and per
// kWorkerMemoryBytes of the machine's memory.
//
// Threads: the pool has one, which runs a libuv loop; `done` callbacks run on libuv's worker
// threads, since they load executables. Thread-safety: all methods, from any thread; Shutdown and
// the destructor from one.

#ifndef NEUROND_SERVER_COMPILER_WORKER_POOL_H_
#define NEUROND_SERVER_COMPILER_WORKER_POOL_H_

#include <uv.h>

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/registry/registry.h"
#include "runtime/executable/compiler.h"
#include "server/compiler/worker.h"
#include "server/ring/fd.h"

namespace neurond {

struct WorkerPoolOptions {
  std::string program;  // neurond-compiler
  PluginConfig plugin;
  std::string fingerprint;  // of the daemon's plugin; a worker with another one is refused
  int workers_max = 0;      // 0: by cores and memory
};

struct WorkerPoolCounters {
  int64_t workers = 0, busy = 0, queued = 0, started = 0, crashed = 0, killed = 0;
};

class WorkerPool final : public Compiler {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Start(WorkerPoolOptions options);
  ~WorkerPool() override;

  void Compile(CompileRequest request, std::function<void(CompileResult)> done) override;
  WorkerPoolCounters counters() const;
  // Ends all workers; every request that waits or runs fails with CANCELLED, and so does every
  // later one.
  void Shutdown();

 private:
  struct Job {
    CompileRequest request;
    std::function<void(CompileResult)> done;
    bool alone = false;  // the second try
  };
  struct Slot {
    std::unique_ptr<Worker> worker;
    std::unique_ptr<Job> job;
  };

  WorkerPool(WorkerPoolOptions options, Fd program);
  void OnWake();
  void Schedule();
  // nullptr: no worker is free and none may be started.
  Slot* FindOrStart();
  Slot* SlotOf(Worker* worker);
  void OnResult(Worker* worker, CompileResult result);
  void OnGone(Worker* worker);
  void Retry(std::unique_ptr<Job> job, const Worker& worker);
  void Finish(std::unique_ptr<Job> job, CompileResult result);
  void Stop();
  void UpdateCounters();
  std::vector<std::string> WorkerArguments() const;

  const WorkerPoolOptions options_;
  const Fd program_;
  const int workers_max_;
  std::thread thread_;
  uv_loop_t loop_{};
  uv_async_t wake_{};

  mutable std::mutex mutex_;
  std::deque<std::unique_ptr<Job>> incoming_;
  WorkerPoolCounters counters_;
  bool stopping_ = false;

  // The loop thread's own.
  std::deque<std::unique_ptr<Job>> queue_;
  std::list<Slot> slots_;
  int busy_ = 0;
  bool alone_runs_ = false;
  bool stopped_ = false;
};

}  // namespace neurond

#endif  // NEUROND_SERVER_COMPILER_WORKER_POOL_H_
