#include "plugins/registry/registry.h"

#include "absl/strings/str_cat.h"
#include "plugins/pjrt/pjrt_plugin.h"

namespace neurond {

absl::StatusOr<std::unique_ptr<Plugin>> MakePlugin(const PluginConfig& config) {
  if (config.kind == "pjrt") {
    if (config.path.empty()) {
      return absl::InvalidArgumentError("plugin kind \"pjrt\" needs the path of a library");
    }
    return pjrt::PjrtPlugin::Create({config.path, config.options, config.keep_directory});
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no plugin kind \"", config.kind, "\": expected \"pjrt\" or \"fake\""));
}

}  // namespace neurond
