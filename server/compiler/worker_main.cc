// neurond-compiler: one compiler worker. Gives up what it does not need, loads the plugin, then
// compiles what comes on stdin, one program after the other (protocol.h). The daemon starts, feeds,
// limits and replaces it; nobody runs it by hand.
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>

#include "plugins/registry/registry.h"
#include "server/compiler/limits.h"
#include "server/compiler/protocol.h"
#include "server/compiler/sandbox.h"

namespace neurond {
namespace {

bool ReadAll(int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = write(fd, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

// The stream that the daemon reads: a duplicate of the first stdout, so that nobody's print gets
// into it.
class Replies {
 public:
  Replies() : fd_(dup(STDOUT_FILENO)) { dup2(STDERR_FILENO, STDOUT_FILENO); }
  bool Send(absl::StatusCode code, std::string_view payload, double seconds) {
    const WorkerReply reply{kWorkerMagic, static_cast<uint32_t>(code), payload.size(), seconds};
    return WriteAll(fd_, &reply, sizeof(reply)) && WriteAll(fd_, payload.data(), payload.size());
  }
  bool SendError(const absl::Status& status, double seconds) {
    return Send(status.code(), std::string(status.message()), seconds);
  }

 private:
  const int fd_;
};

bool ServeOne(Plugin& plugin, Replies& replies) {
  WorkerRequest request;
  if (!ReadAll(STDIN_FILENO, &request, sizeof(request)) || request.magic != kWorkerMagic ||
      request.options_bytes > kModuleBytesMax || request.module_bytes > kModuleBytesMax) {
    return false;
  }
  std::string options(request.options_bytes, '\0'), module(request.module_bytes, '\0');
  if (!ReadAll(STDIN_FILENO, options.data(), options.size()) ||
      !ReadAll(STDIN_FILENO, module.data(), module.size())) {
    return false;
  }
  RenewCpuTime();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::string> serialized = plugin.Compile(module, options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return serialized.ok() ? replies.Send(absl::StatusCode::kOk, *serialized, took.count())
                         : replies.SendError(serialized.status(), took.count());
}

int Main(const PluginConfig& config) {
  prctl(PR_SET_NAME, "neurond-compile");  // it was started by descriptor, which has no name
  Replies replies;
  absl::Status status = SandboxBeforePlugin();
  std::unique_ptr<Plugin> plugin;
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<Plugin>> made = MakePlugin(config);
    status = made.status();
    if (made.ok()) plugin = *std::move(made);
  }
  if (status.ok()) status = SandboxAfterPlugin();
  if (!status.ok()) {
    replies.SendError(status, 0);
    return 1;
  }
  if (!replies.Send(absl::StatusCode::kOk, plugin->fingerprint(), 0)) return 1;
  while (ServeOne(*plugin, replies)) {
  }
  _exit(0);  // nothing worth taking down in order
}

}  // namespace
}  // namespace neurond

int main(int argc, char** argv) {
  CLI::App app("neurond-compiler: a compiler worker of neurond");
  neurond::PluginConfig config;
  std::vector<std::string> options;
  app.add_option("--plugin-kind", config.kind);
  app.add_option("--plugin", config.path);
  app.add_option("--plugin-option", options)->allow_extra_args(false);
  app.add_option("--keep-directory", config.keep_directory);
  CLI11_PARSE(app, argc, argv);
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    config.options[option.substr(0, equals)] =
        equals == std::string::npos ? "" : option.substr(equals + 1);
  }
  return neurond::Main(config);
}
