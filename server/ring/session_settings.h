// The settings of a Hello: lines "NAME=value" of NEURON_RT_* variables, which belong to the
// session, not to the daemon.
//
// Thread-safety: pure functions.

#ifndef NEUROND_SERVER_RING_SESSION_SETTINGS_H_
#define NEUROND_SERVER_RING_SESSION_SETTINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace neurond::ring {

struct SessionSettings {
  std::vector<int> devices;  // visible ones, in the order asked for
  std::string tag;           // NEURON_PROCESS_TAG
  std::string client_build;  // names what traced the client's Programs: tracer, shim, torch
};

// NEURON_RT_VISIBLE_CORES: "0", "0-3", "0,2-3"; NEURON_RT_NUM_CORES: so many of them, the first
// ones. Unknown names are ignored. INVALID_ARGUMENT names the setting, its value and how many
// devices there are.
absl::StatusOr<SessionSettings> ParseSettings(std::string_view text, int device_count);

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_SESSION_SETTINGS_H_
