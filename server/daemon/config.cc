#include "server/daemon/config.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "proto/ring/socket_path.h"

#ifndef NEURON_PLUGIN_DIR
#define NEURON_PLUGIN_DIR ""
#endif

namespace neurond {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The CPU plugin: beside the program, in the library directory of an installation, or where the
// build found it.
std::string InstalledPlugin() {
  const std::string here = ProgramDirectory();
  for (const std::string& candidate : {here + "/pjrt_cpu.so", here + "/../lib/neurond/pjrt_cpu.so",
                                       std::string(NEURON_PLUGIN_DIR) + "/lib/pjrt_cpu.so"}) {
    std::error_code ignored;
    if (std::filesystem::exists(candidate, ignored)) return candidate;
  }
  return "";
}

// CLI11's checks: what is wrong with the text, or empty.
std::string CheckHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool bare = host.find_first_of(":/") == std::string::npos;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool number = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  if (!host.empty() && (bare || bracketed) && number && std::stoi(port) <= 65535) return "";
  return "expected host:port with a port of 0 to 65535, saw \"" + text + "\"";
}

std::string CheckNameValue(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != 0 && equals != std::string::npos) return "";
  return "expected name=value, saw \"" + text + "\"";
}

std::string DefaultCacheDirectory() {
  const std::string url = Environment("NEURON_COMPILE_CACHE_URL");
  if (!url.empty() && url.front() == '/') return url;
  const std::string cache_home = Environment("XDG_CACHE_HOME");
  if (!cache_home.empty() && cache_home.front() == '/') return cache_home + "/neurond";
  const std::string home = Environment("HOME");
  return home.empty() ? "" : home + "/.cache/neurond";
}

}  // namespace

bool ParseFlags(int argc, char** argv, DaemonConfig* config, int* exit_code) {
  CLI::App app("neurond: owns the devices of this host and runs the work of its clients");
  DaemonConfig& c = *config;
  std::string cache_dir;
  app.set_config("--config", "", "Read these flags from a TOML file");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--socket", c.socket, "Ring socket for local clients");
  app.add_option("--grpc-socket", c.grpc_socket, "gRPC Unix socket; 'none': no such socket");
  app.add_option("--grpc-address", c.grpc_address, "gRPC over TCP, for example 127.0.0.1:50051")
      ->check(CheckHostPort);
  app.add_flag("--detach", c.detach, "Leave the parent process");
  app.add_option("--idle-exit-seconds", c.idle_exit_seconds,
                 "End after so long without a client; 0: never (default: 300 with --detach)")
      ->check(CLI::NonNegativeNumber)
      ->take_last();
  app.add_option("--plugin-kind", c.plugin_kind, "'pjrt' or 'fake'")->take_last();
  app.add_option("--plugin", c.plugin, "Path of the PJRT plugin")->take_last();
  app.add_option("--plugin-option", c.plugin_options, "name=value for the plugin; repeatable")
      ->check(CheckNameValue)
      ->allow_extra_args(false);
  app.add_option("--devices", c.devices, "Number of CPU devices")
      ->check(CLI::Range(0, 127))
      ->take_last();
  app.add_option("--script-file", c.script_file, "Script of the fake plugin")->take_last();
  app.add_option("--device-memory-bytes", c.device_memory_bytes, "Memory of each device")
      ->check(CLI::NonNegativeNumber)
      ->take_last();
  app.add_option("--device-inflight-max", c.device_inflight_max,
                 "Executes of a device that are not complete yet")
      ->check(CLI::Range(1, 1024))
      ->take_last();
  CLI::Option* cache =
      app.add_option("--cache-dir", cache_dir, "Executable cache; '': in memory only");
  cache->take_last();
  app.add_option("--cache-bytes-max", c.cache_bytes_max, "Size of the cache on disk")
      ->check(CLI::NonNegativeNumber)
      ->take_last();
  app.add_option("--workers", c.workers, "Compiler processes; 0: by cores and memory")
      ->check(CLI::Range(0, 256))
      ->take_last();
  app.add_option("--log-file", c.log_file, "Log file; default: standard error")->take_last();
  app.add_option("--log-level", c.log_level, "How much is logged")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "critical", "off"}))
      ->take_last();
  app.set_version_flag("--version", NEURON_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // CLI11 reports --help the same way
    *exit_code = app.exit(error);
    return false;
  }
  if (cache->count() > 0) c.cache_dir = cache_dir;
  return true;
}

void ResolveDefaults(DaemonConfig& config) {
  if (config.socket.empty()) config.socket = ring::DefaultSocketPath();
  config.socket = std::filesystem::absolute(config.socket).string();
  if (config.grpc_socket.empty()) {
    config.grpc_socket =
        std::filesystem::path(config.socket).replace_extension(".grpc.sock").string();
  }
  if (config.plugin_kind == "pjrt") {
    if (config.plugin.empty()) config.plugin = Environment("NEURON_PJRT_PLUGIN");
    if (config.plugin.empty()) config.plugin = InstalledPlugin();
  }
  if (!config.cache_dir.has_value()) config.cache_dir = DefaultCacheDirectory();
  if (config.idle_exit_seconds < 0) config.idle_exit_seconds = config.detach ? 300 : 0;
}

std::map<std::string, std::string> OptionMap(const std::vector<std::string>& options) {
  std::map<std::string, std::string> map;
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    map[option.substr(0, equals)] = equals == std::string::npos ? "" : option.substr(equals + 1);
  }
  return map;
}

std::string ProgramDirectory() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

}  // namespace neurond
