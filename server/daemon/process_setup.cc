#include "server/daemon/process_setup.h"

#include <sched.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "runtime/base/text.h"
#include "server/daemon/limits.h"

namespace neurond {
void Detach() {
  const pid_t pid = fork();
  if (pid > 0) _exit(0);
  setsid();
}

void ResetInherited() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof(all));
  sched_setaffinity(0, sizeof(all), &all);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a failed write, not the end
  umask(077);
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

absl::Status SetUpLogging(const std::string& file, const std::string& level, bool detached) {
  spdlog::sink_ptr sink;
  if (file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    struct stat info;
    if (stat(file.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {  // would wait for its reader
      return absl::InvalidArgumentError(Cat("cannot log to ", file, ": it is a pipe"));
    }
    spdlog::file_event_handlers handlers;
    if (detached) {  // what a plugin prints stays beside the log, also when that is a new file
      handlers.after_open = [](const spdlog::filename_t&, std::FILE* opened) {
        dup2(fileno(opened), STDOUT_FILENO);
        dup2(fileno(opened), STDERR_FILENO);
      };
    }
    try {  // spdlog reports a file that cannot be opened this way
      sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, kLogFileBytesMax,
                                                                    kLogFiles, false, handlers);
    } catch (const spdlog::spdlog_ex& error) {
      return absl::InvalidArgumentError(Cat("cannot log to ", file, ": ", error.what()));
    }
  }
  auto logger = std::make_shared<spdlog::logger>("neurond", std::move(sink));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %P %L %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace neurond
