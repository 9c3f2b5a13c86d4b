#include "server/compiler/worker.h"

#include <csignal>
#include <cstring>

#include "absl/strings/strip.h"
#include "runtime/base/text.h"
#include "server/compiler/limits.h"

namespace neurond {
namespace {

void Allocate(uv_handle_t*, size_t suggested, uv_buf_t* buffer) {
  buffer->base = new char[suggested];
  buffer->len = suggested;
}

bool IsDeterministic(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return true;
    default:
      return false;
  }
}

}  // namespace

Worker::Worker(uv_loop_t* loop, std::string fingerprint, Events events)
    : loop_(loop), fingerprint_(std::move(fingerprint)), events_(std::move(events)) {
  uv_pipe_init(loop_, &in_, 0);
  uv_pipe_init(loop_, &out_, 0);
  uv_pipe_init(loop_, &errors_, 0);
  uv_timer_init(loop_, &timer_);
  process_.data = in_.data = out_.data = errors_.data = timer_.data = write_.data = this;
}

int Worker::Start(const std::string& program, const std::vector<std::string>& arguments) {
  char name[] = "neurond-compiler";
  std::vector<char*> argv = {name};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  uv_stdio_container_t stdio[3];
  const auto read_end = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_READABLE_PIPE);
  const auto write_end = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
  stdio[0].flags = read_end;
  stdio[0].data.stream = reinterpret_cast<uv_stream_t*>(&in_);
  stdio[1].flags = write_end;
  stdio[1].data.stream = reinterpret_cast<uv_stream_t*>(&out_);
  stdio[2].flags = write_end;
  stdio[2].data.stream = reinterpret_cast<uv_stream_t*>(&errors_);
  uv_process_options_t options{};
  options.file = program.c_str();
  options.args = argv.data();
  options.stdio = stdio;
  options.stdio_count = 3;
  options.exit_cb = [](uv_process_t* p, int64_t status, int signal) {
    static_cast<Worker*>(p->data)->OnExit(status, signal);
  };
  const int rc = uv_spawn(loop_, &process_, &options);
  process_.data = this;
  if (rc != 0) {
    end_text_ = Cat("cannot start ", program, ": ", uv_strerror(rc));
    exited_ = out_closed_ = errors_closed_ = true;
    return rc;
  }
  uv_read_start(reinterpret_cast<uv_stream_t*>(&out_), Allocate,
                [](uv_stream_t* s, ssize_t n, const uv_buf_t* b) {
                  static_cast<Worker*>(s->data)->OnOutput(n, b);
                });
  uv_read_start(reinterpret_cast<uv_stream_t*>(&errors_), Allocate,
                [](uv_stream_t* s, ssize_t n, const uv_buf_t* b) {
                  static_cast<Worker*>(s->data)->OnErrors(n, b);
                });
  return 0;
}

void Worker::Give(const CompileRequest* request) {
  request_ = request;
  if (exited_) {  // it could not be started
    MaybeGone();
    return;
  }
  header_ = {kWorkerMagic, 0, request->options.size(), request->module.size()};
  uv_buf_t buffers[] = {
      uv_buf_init(reinterpret_cast<char*>(&header_), sizeof(header_)),
      uv_buf_init(const_cast<char*>(request->options.data()), request->options.size()),
      uv_buf_init(const_cast<char*>(request->module.data()), request->module.size())};
  uv_write(&write_, reinterpret_cast<uv_stream_t*>(&in_), buffers, 3, [](uv_write_t*, int) {});
  uv_timer_start(
      &timer_, [](uv_timer_t* t) { static_cast<Worker*>(t->data)->OnTimer(); }, kCompileMs, 0);
}

void Worker::OnTimer() {
  if (busy()) {
    timed_out_ = true;
    Kill();
    return;
  }
  // Idle for long: end of file on its stdin ends it.
  ending_ = true;
  if (!uv_is_closing(reinterpret_cast<uv_handle_t*>(&in_))) {
    ++open_handles_;
    uv_close(reinterpret_cast<uv_handle_t*>(&in_), [](uv_handle_t* h) {
      auto* worker = static_cast<Worker*>(h->data);
      --worker->open_handles_;
      worker->MaybeGone();
    });
  }
}

void Worker::Kill() {
  ending_ = true;
  if (!exited_) uv_process_kill(&process_, SIGKILL);
}

void Worker::OnOutput(ssize_t count, const uv_buf_t* buffer) {
  if (count > 0) output_.append(buffer->base, static_cast<size_t>(count));
  delete[] buffer->base;
  if (count < 0) {
    out_closed_ = true;
    uv_read_stop(reinterpret_cast<uv_stream_t*>(&out_));
    MaybeGone();
    return;
  }
  TakeReplies();
}

void Worker::TakeReplies() {
  WorkerReply reply;
  while (!ending_ && output_.size() >= sizeof(reply)) {
    std::memcpy(&reply, output_.data(), sizeof(reply));
    if (reply.magic != kWorkerMagic || reply.payload_bytes > kSerializedBytesMax) {
      BreakOff("it broke the protocol");
      return;
    }
    if (output_.size() < sizeof(reply) + reply.payload_bytes) return;
    std::string payload = output_.substr(sizeof(reply), reply.payload_bytes);
    output_.erase(0, sizeof(reply) + reply.payload_bytes);
    TakeReply(reply, std::move(payload));
  }
}

void Worker::TakeReply(const WorkerReply& reply, std::string payload) {
  if (!greeted_) {
    greeted_ = true;
    if (reply.code != 0) {
      BreakOff(Cat("it could not start: ", payload));
    } else if (payload != fingerprint_) {
      BreakOff(
          "the plugin's file or options have changed since the daemon started; restart the daemon");
    }
    return;
  }
  if (request_ == nullptr) {
    BreakOff("it answered without being asked");
    return;
  }
  request_ = nullptr;
  CompileResult result;
  result.seconds = reply.seconds;
  const auto code = static_cast<absl::StatusCode>(reply.code);
  if (code == absl::StatusCode::kOk) {
    result.serialized = std::move(payload);
  } else {
    result.error = Error::From(absl::Status(code, payload));
    result.deterministic = IsDeterministic(code);
  }
  uv_timer_start(
      &timer_, [](uv_timer_t* t) { static_cast<Worker*>(t->data)->OnTimer(); }, kWorkerIdleMs, 0);
  events_.on_result(this, std::move(result));
}

void Worker::BreakOff(const std::string& why) {
  if (end_text_.empty()) end_text_ = why;
  Kill();
}

void Worker::OnErrors(ssize_t count, const uv_buf_t* buffer) {
  if (count > 0) {
    error_tail_.append(buffer->base, static_cast<size_t>(count));
    if (error_tail_.size() > kStderrTailBytes) {
      error_tail_.erase(0, error_tail_.size() - kStderrTailBytes);
    }
  }
  delete[] buffer->base;
  if (count >= 0) return;
  errors_closed_ = true;
  uv_read_stop(reinterpret_cast<uv_stream_t*>(&errors_));
  MaybeGone();
}

void Worker::OnExit(int64_t status, int signal) {
  exited_ = ending_ = true;
  const std::string how = signal != 0 ? Cat("signal ", signal, " (", strsignal(signal), ")")
                                      : Cat("exit status ", status);
  if (end_text_.empty()) {
    end_text_ = how;
    crashed_by_itself_ = !timed_out_ && signal != SIGKILL && signal != SIGTERM;
  }
  if (timed_out_) end_text_ = Cat("killed after ", kCompileMs / 1000, " s");
  MaybeGone();
}

void Worker::MaybeGone() {
  if (!exited_ || !out_closed_ || !errors_closed_) return;
  if (open_handles_ == 0 && uv_is_closing(reinterpret_cast<uv_handle_t*>(&timer_))) {
    const std::string tail(absl::StripAsciiWhitespace(error_tail_));
    if (!tail.empty()) Append(end_text_, ": ", tail);
    events_.on_gone(this);  // may destroy this
    return;
  }
  CloseHandles();
}

void Worker::CloseHandles() {
  for (uv_handle_t* handle :
       {reinterpret_cast<uv_handle_t*>(&process_), reinterpret_cast<uv_handle_t*>(&in_),
        reinterpret_cast<uv_handle_t*>(&out_), reinterpret_cast<uv_handle_t*>(&errors_),
        reinterpret_cast<uv_handle_t*>(&timer_)}) {
    // A process that was never spawned has no loop.
    if (handle->loop == nullptr || uv_is_closing(handle)) continue;
    ++open_handles_;
    uv_close(handle, [](uv_handle_t* h) {
      auto* worker = static_cast<Worker*>(h->data);
      if (--worker->open_handles_ == 0) worker->MaybeGone();
    });
  }
}

}  // namespace neurond
