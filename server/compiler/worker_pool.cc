#include "server/compiler/worker_pool.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/text.h"
#include "server/compiler/limits.h"

namespace neurond {
namespace {

int DefaultWorkers() {
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const int64_t cores = std::thread::hardware_concurrency();
  return static_cast<int>(std::max<int64_t>(1, std::min(cores, memory / kWorkerMemoryBytes)));
}

CompileResult Failure(absl::StatusCode code, std::string message, bool deterministic = false) {
  CompileResult result;
  result.error = Error::From(absl::Status(code, message));
  result.deterministic = deterministic;
  return result;
}

// A `done` callback on its way to a worker thread of libuv.
struct Delivery {
  uv_work_t work{};
  std::function<void(CompileResult)> done;
  CompileResult result;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Start(WorkerPoolOptions options) {
  // Held open: a rebuild or an upgrade under a running daemon must not give it workers of another
  // build.
  Fd program(open(options.program.c_str(), O_PATH | O_CLOEXEC));
  if (!program.valid() || access(options.program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(Cat("no compiler worker: ", options.program));
  }
  return std::unique_ptr<WorkerPool>(new WorkerPool(std::move(options), std::move(program)));
}

WorkerPool::WorkerPool(WorkerPoolOptions options, Fd program)
    : options_(std::move(options)),
      program_(std::move(program)),
      workers_max_(options_.workers_max > 0 ? options_.workers_max : DefaultWorkers()) {
  uv_loop_init(&loop_);
  wake_.data = this;
  uv_async_init(&loop_, &wake_, [](uv_async_t* a) { static_cast<WorkerPool*>(a->data)->OnWake(); });
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "compiler-pool");
    uv_run(&loop_, UV_RUN_DEFAULT);
  });
}

WorkerPool::~WorkerPool() {
  Shutdown();
  uv_loop_close(&loop_);
}

void WorkerPool::Shutdown() {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      stopping_ = true;
      uv_async_send(&wake_);
    }
  }
  if (thread_.joinable()) thread_.join();
}

void WorkerPool::Compile(CompileRequest request, std::function<void(CompileResult)> done) {
  CompileResult refused;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      refused = Failure(absl::StatusCode::kCancelled, "the daemon is ending");
    } else if (incoming_.size() + static_cast<size_t>(counters_.queued) >= kCompileQueueMax) {
      refused = Failure(absl::StatusCode::kResourceExhausted,
                        Cat(kCompileQueueMax, " programs wait to be compiled already"));
    } else if (request.module.size() > kModuleBytesMax) {
      refused = Failure(absl::StatusCode::kInvalidArgument,
                        Cat("program ", request.name, ": its module has ", request.module.size(),
                            " bytes; the limit is ", kModuleBytesMax),
                        true);
    } else {
      incoming_.push_back(std::make_unique<Job>(Job{std::move(request), std::move(done)}));
      uv_async_send(&wake_);
      return;
    }
  }
  done(std::move(refused));
}

WorkerPoolCounters WorkerPool::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

void WorkerPool::UpdateCounters() {
  std::lock_guard lock(mutex_);
  counters_.workers = static_cast<int64_t>(slots_.size());
  counters_.busy = busy_;
  counters_.queued = static_cast<int64_t>(queue_.size());
}

void WorkerPool::OnWake() {
  bool stop;
  {
    std::lock_guard lock(mutex_);
    for (std::unique_ptr<Job>& job : incoming_) queue_.push_back(std::move(job));
    incoming_.clear();
    stop = stopping_;
  }
  if (stop) {
    Stop();
  } else {
    Schedule();
  }
}

void WorkerPool::Schedule() {
  while (!queue_.empty() && !stopped_ && !alone_runs_) {
    if (queue_.front()->alone && busy_ > 0) break;
    Slot* slot = FindOrStart();
    if (slot == nullptr) break;
    slot->job = std::move(queue_.front());
    queue_.pop_front();
    ++busy_;
    alone_runs_ = slot->job->alone;
    slot->worker->Give(&slot->job->request);
  }
  UpdateCounters();
}

WorkerPool::Slot* WorkerPool::FindOrStart() {
  int alive = 0;
  for (Slot& slot : slots_) {
    if (!slot.worker->usable()) continue;
    if (!slot.worker->busy()) return &slot;
    ++alive;
  }
  if (alive >= workers_max_) return nullptr;
  slots_.push_back({std::make_unique<Worker>(&loop_, options_.fingerprint,
                                             Worker::Events{[this](Worker* w, CompileResult r) {
                                                              OnResult(w, std::move(r));
                                                            },
                                                            [this](Worker* w) { OnGone(w); }}),
                    nullptr});
  {
    std::lock_guard lock(mutex_);
    ++counters_.started;
  }
  slots_.back().worker->Start(Cat("/proc/self/fd/", program_.get()), WorkerArguments());
  return &slots_.back();
}

std::vector<std::string> WorkerPool::WorkerArguments() const {
  const PluginConfig& plugin = options_.plugin;
  std::vector<std::string> arguments = {"--plugin-kind", plugin.kind,        "--plugin",
                                        plugin.path,     "--keep-directory", plugin.keep_directory};
  for (const auto& [name, value] : plugin.options) {
    arguments.push_back("--plugin-option");
    // Executables are compiled for one device and run on any. The number of threads stays what the
    // daemon's plugin sees (no PJRT_NPROC=1 here): XLA's CPU compiler builds it into the code.
    const bool count = name == "cpu_device_count" || name == "devices";
    arguments.push_back(name + "=" + (count ? "1" : value));
  }
  return arguments;
}

WorkerPool::Slot* WorkerPool::SlotOf(Worker* worker) {
  for (Slot& slot : slots_) {
    if (slot.worker.get() == worker) return &slot;
  }
  return nullptr;
}

void WorkerPool::OnResult(Worker* worker, CompileResult result) {
  Slot* slot = SlotOf(worker);
  --busy_;
  alone_runs_ = false;
  Finish(std::move(slot->job), std::move(result));
  Schedule();
}

void WorkerPool::OnGone(Worker* worker) {
  Slot* slot = SlotOf(worker);
  std::unique_ptr<Job> job = std::move(slot->job);
  if (job != nullptr) {
    --busy_;
    alone_runs_ = false;
    {
      std::lock_guard lock(mutex_);
      ++(worker->timed_out() ? counters_.killed : counters_.crashed);
    }
    Retry(std::move(job), *worker);
  }
  slots_.remove_if([worker](const Slot& s) { return s.worker.get() == worker; });
  Schedule();
}

void WorkerPool::Retry(std::unique_ptr<Job> job, const Worker& worker) {
  if (stopped_) {
    Finish(std::move(job), Failure(absl::StatusCode::kCancelled, "the daemon is ending"));
    return;
  }
  spdlog::warn("the compiler of program {} died{}: {}", job->request.name,
               job->alone ? " again" : ", it is tried once more, alone", worker.end_text());
  if (!job->alone) {
    job->alone = true;
    queue_.push_front(std::move(job));
    return;
  }
  const std::string message =
      Cat(worker.crashed_by_itself() ? "the compiler crashed on" : "no compiler worker for",
          " program ", job->request.name, ": ", worker.end_text());
  Finish(std::move(job), Failure(absl::StatusCode::kInternal, message, worker.crashed_by_itself()));
}

void WorkerPool::Finish(std::unique_ptr<Job> job, CompileResult result) {
  auto* delivery = new Delivery{{}, std::move(job->done), std::move(result)};
  delivery->work.data = delivery;
  uv_queue_work(
      &loop_, &delivery->work,
      [](uv_work_t* w) {
        auto* d = static_cast<Delivery*>(w->data);
        d->done(std::move(d->result));
      },
      [](uv_work_t* w, int) { delete static_cast<Delivery*>(w->data); });
}

void WorkerPool::Stop() {
  if (stopped_) return;
  stopped_ = true;
  for (std::unique_ptr<Job>& job : queue_) {
    Finish(std::move(job), Failure(absl::StatusCode::kCancelled, "the daemon is ending"));
  }
  queue_.clear();
  for (Slot& slot : slots_) slot.worker->Kill();
  uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);  // the loop ends with its last handle
}

}  // namespace neurond
