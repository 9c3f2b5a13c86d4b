// Plugins by kind: the one place that knows which implementations exist.
//
// Thread-safety: pure function. Make a Plugin before starting threads: a library may read and set
// environment variables when it loads.

#ifndef NEUROND_PLUGINS_REGISTRY_REGISTRY_H_
#define NEUROND_PLUGINS_REGISTRY_REGISTRY_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/device/plugin.h"

namespace neurond {

struct PluginConfig {
  std::string kind = "pjrt";  // "pjrt" | "fake"
  // pjrt: the library. fake: the library whose numerics it wraps; empty: its own interpreter.
  std::string path;
  // pjrt: create options ("cpu_device_count" = "4"). fake: see plugins/fake/fake_plugin.h; what it
  // does not know goes to the wrapped library.
  std::map<std::string, std::string> options;
  // Where the plugin may keep small files (the library's hash); empty: nowhere. Need not exist yet.
  std::string keep_directory;
};

absl::StatusOr<std::unique_ptr<Plugin>> MakePlugin(const PluginConfig& config);

}  // namespace neurond

#endif  // NEUROND_PLUGINS_REGISTRY_REGISTRY_H_
