// DaemonConfig: what the flags of `neurond` say.
//
// Thread-safety: a value.

#ifndef NEUROND_SERVER_DAEMON_CONFIG_H_
#define NEUROND_SERVER_DAEMON_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace neurond {

struct DaemonConfig {
  std::string socket;       // ring socket; empty: the per-user default
  std::string grpc_socket;  // empty: neurond.grpc.sock beside the ring socket; "none": no gRPC on a
                            // Unix socket
  std::string grpc_address;    // TCP, "127.0.0.1:0"; empty: none
  bool detach = false;         // leave the parent, as a client that starts us wants it
  int idle_exit_seconds = -1;  // without any client; 0: never; -1: 300 when detached, else never

  std::string plugin_kind = "pjrt";
  std::string plugin;  // path; empty: NEURON_PJRT_PLUGIN, else the one installed beside the daemon
  std::vector<std::string> plugin_options;  // "name=value"
  int devices = 0;                          // 0: 4 for the CPU plugin, else what the plugin has
  std::string script_file;                  // plugin kind "fake"
  // Per device; 0: what the plugin says, else a share of the host's.
  int64_t device_memory_bytes = 0;
  int device_inflight_max = 4;

  std::optional<std::string>
      cache_dir;  // "": memory only; not given: NEURON_COMPILE_CACHE_URL, XDG_CACHE_HOME, ~/.cache
  int64_t cache_bytes_max = int64_t{20} << 30;
  int workers = 0;  // compiler processes; 0: by cores and memory

  std::string log_file;  // empty: stderr
  std::string log_level = "info";
};

// Parses the command line. False: exit with *exit_code (--help, or a mistake that was printed).
bool ParseFlags(int argc, char** argv, DaemonConfig* config, int* exit_code);

// Fills in what depends on the environment: socket, plugin, cache directory.
void ResolveDefaults(DaemonConfig& config);

// "name=value" texts as a map; a text without '=' maps to "".
std::map<std::string, std::string> OptionMap(const std::vector<std::string>& options);

// The directory this program lies in.
std::string ProgramDirectory();

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_CONFIG_H_
