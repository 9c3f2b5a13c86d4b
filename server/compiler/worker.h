// Worker: one neurond-compiler process, as the pool's loop sees it. Started for a job; after that
// it is given one job at a time.
//
// A worker may die at any time, with or without a job. Its owner hears of a finished job and of the
// end, each once.
//
// Thread-safety: the pool's loop thread. Lifetime: owned by the pool; may be destroyed only after
// on_gone.

#ifndef NEUROND_SERVER_COMPILER_WORKER_H_
#define NEUROND_SERVER_COMPILER_WORKER_H_

#include <uv.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/executable/compiler.h"
#include "server/compiler/protocol.h"

namespace neurond {

class Worker {
 public:
  struct Events {
    std::function<void(Worker*, CompileResult)> on_result;
    std::function<void(Worker*)> on_gone;
  };
  Worker(uv_loop_t* loop, std::string fingerprint, Events events);

  // 0 or a uv error.
  int Start(const std::string& program, const std::vector<std::string>& arguments);
  // Only if !busy(). `request` must stay until on_result or on_gone.
  void Give(const CompileRequest* request);
  void Kill();

  bool busy() const { return request_ != nullptr; }
  bool usable() const { return !ending_; }
  // How it ended, once it is gone: "signal 6 (Aborted): last lines of stderr".
  const std::string& end_text() const { return end_text_; }
  bool timed_out() const { return timed_out_; }
  // Whether the end says something about the program: not if somebody killed it.
  bool crashed_by_itself() const { return crashed_by_itself_; }

 private:
  void OnOutput(ssize_t count, const uv_buf_t* buffer);
  void OnErrors(ssize_t count, const uv_buf_t* buffer);
  void OnExit(int64_t status, int signal);
  void OnTimer();
  void TakeReplies();
  void TakeReply(const WorkerReply& reply, std::string payload);
  void BreakOff(const std::string& why);
  void MaybeGone();
  void CloseHandles();

  uv_loop_t* const loop_;
  const std::string fingerprint_;
  const Events events_;
  uv_process_t process_{};
  uv_pipe_t in_{}, out_{}, errors_{};
  uv_timer_t timer_{};
  uv_write_t write_{};
  WorkerRequest header_{};
  const CompileRequest* request_ = nullptr;
  std::string output_;
  std::string error_tail_;
  std::string end_text_;
  bool greeted_ = false;
  bool ending_ = false;  // takes no more jobs
  bool timed_out_ = false;
  bool crashed_by_itself_ = false;
  bool exited_ = false, out_closed_ = false, errors_closed_ = false;
  int open_handles_ = 0;
};

}  // namespace neurond

#endif  // NEUROND_SERVER_COMPILER_WORKER_H_
