#include "tests/cts/cts_support.h"

#include <cstdio>
#include <map>
#include <mutex>

namespace neurond::cts {

std::vector<Kind> Kinds() {
  const char* path = std::getenv("NEURON_PJRT_PLUGIN");
  const std::string library = path == nullptr ? "" : path;
  return {
      {"pjrt", {"pjrt", library, {{"cpu_device_count", "4"}}, ""}},
      {"fake", {"fake", "", {}, ""}},
      {"fake_async", {"fake", "", {{"async", "true"}}, ""}},
      {"fake_over_pjrt", {"fake", library, {{"cpu_device_count", "4"}, {"async", "true"}}, ""}},
  };
}

std::unique_ptr<Plugin> Make(const Kind& kind) {
  absl::StatusOr<std::unique_ptr<Plugin>> plugin = MakePlugin(kind.config);
  if (!plugin.ok()) {
    std::fprintf(stderr, "%s: %s\n", kind.name.c_str(), plugin.status().ToString().c_str());
    std::abort();
  }
  return *std::move(plugin);
}

Plugin& Shared(const Kind& kind) {
  static auto& plugins = *new std::map<std::string, std::unique_ptr<Plugin>>;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Plugin>& plugin = plugins[kind.name];
  if (plugin == nullptr) plugin = Make(kind);
  return *plugin;
}

}  // namespace neurond::cts
