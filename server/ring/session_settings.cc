#include "server/ring/session_settings.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "runtime/base/text.h"
#include "server/ring/limits.h"

namespace neurond::ring {
namespace {

// Cuts what stands before the first `separator` off `text`; the rest is empty if there is none.
std::string_view CutBefore(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
}

bool ParseNumber(std::string_view text, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

absl::Status Bad(std::string_view name, std::string_view value, size_t device_count) {
  return absl::InvalidArgumentError(
      Cat("cannot use ", name, "='", value, "': there ", device_count == 1 ? "is 1 device" : "are ",
          device_count == 1 ? "" : Cat(device_count, " devices"), ", numbered from 0"));
}

absl::StatusOr<std::vector<int>> ParseCores(std::string_view value, int device_count) {
  const absl::Status bad = Bad("NEURON_RT_VISIBLE_CORES", value, static_cast<size_t>(device_count));
  if (value.back() == ',') return bad;
  std::vector<int> devices;
  while (!value.empty()) {
    std::string_view last_text = CutBefore(value, ',');
    const bool range = last_text.find('-') != std::string_view::npos;
    const std::string_view first_text = range ? CutBefore(last_text, '-') : last_text;
    int first, last;
    if (!ParseNumber(first_text, &first) || !ParseNumber(last_text, &last)) return bad;
    if (first < 0 || last < first || last >= device_count) return bad;
    for (int device = first; device <= last; ++device) {
      if (std::find(devices.begin(), devices.end(), device) != devices.end()) return bad;
      devices.push_back(device);
    }
  }
  return devices;
}

}  // namespace

absl::StatusOr<SessionSettings> ParseSettings(std::string_view text, int device_count) {
  SessionSettings settings;
  settings.devices.resize(device_count);
  std::iota(settings.devices.begin(), settings.devices.end(), 0);
  std::string_view cores, count;
  while (!text.empty()) {
    std::string_view value = CutBefore(text, '\n');
    const std::string_view name = CutBefore(value, '=');
    if (name == "NEURON_RT_VISIBLE_CORES") cores = value;
    if (name == "NEURON_RT_NUM_CORES") count = value;
    if (name == "NEURON_PROCESS_TAG") settings.tag = value.substr(0, kTagBytesMax);
    if (name == "client_build") settings.client_build = value;
  }
  if (!cores.empty()) {
    absl::StatusOr<std::vector<int>> devices = ParseCores(cores, device_count);
    if (!devices.ok()) return devices.status();
    settings.devices = *std::move(devices);
  }
  if (!count.empty()) {
    int wanted = 0;
    if (!ParseNumber(count, &wanted) || wanted < 1 ||
        wanted > static_cast<int>(settings.devices.size())) {
      return Bad("NEURON_RT_NUM_CORES", count, settings.devices.size());
    }
    settings.devices.resize(wanted);
  }
  return settings;
}

}  // namespace neurond::ring
