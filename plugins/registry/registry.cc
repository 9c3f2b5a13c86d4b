#include "plugins/registry/registry.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "plugins/fake/fake_plugin.h"
#include "plugins/fake/interpreter_plugin.h"
#include "plugins/pjrt/pjrt_plugin.h"

namespace neurond {
namespace {

std::string Take(std::map<std::string, std::string>& options, const std::string& name,
                 const std::string& otherwise) {
  const auto it = options.find(name);
  if (it == options.end()) return otherwise;
  std::string value = it->second;
  options.erase(it);
  return value;
}

absl::StatusOr<std::unique_ptr<Plugin>> MakeInner(const std::string& devices,
                                                  const PluginConfig& config) {
  if (!config.path.empty()) {
    return pjrt::PjrtPlugin::Create({config.path, config.options, config.keep_directory});
  }
  if (!config.options.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the fake plugin has no option \"", config.options.begin()->first, "\""));
  }
  int count = 0;
  if (!absl::SimpleAtoi(devices, &count)) {
    return absl::InvalidArgumentError(absl::StrCat("devices = \"", devices, "\" is no number"));
  }
  return fake::InterpreterPlugin::Create(count);
}

absl::StatusOr<std::unique_ptr<Plugin>> MakeFake(PluginConfig config) {
  fake::FakeOptions options;
  options.script = Take(config.options, "script", "");
  options.script_file = Take(config.options, "script_file", "");
  options.async = Take(config.options, "async", "false") == "true";
  options.fails_late = Take(config.options, "fails_late", "true") == "true";
  const std::string devices = config.path.empty() ? Take(config.options, "devices", "4") : "";
  absl::StatusOr<std::unique_ptr<Plugin>> inner = MakeInner(devices, config);
  if (!inner.ok()) return inner.status();
  return fake::FakePlugin::Create(*std::move(inner), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Plugin>> MakePlugin(const PluginConfig& config) {
  if (config.kind == "pjrt") {
    if (config.path.empty()) {
      return absl::InvalidArgumentError("plugin kind \"pjrt\" needs the path of a library");
    }
    return pjrt::PjrtPlugin::Create({config.path, config.options, config.keep_directory});
  }
  if (config.kind == "fake") return MakeFake(config);
  return absl::InvalidArgumentError(
      absl::StrCat("no plugin kind \"", config.kind, "\": expected \"pjrt\" or \"fake\""));
}

}  // namespace neurond
