// RingHost: the parts of a daemon that a ring session uses, over a TestPlugin.

#ifndef NEUROND_TESTS_UNIT_RING_RING_HOST_H_
#define NEUROND_TESTS_UNIT_RING_RING_HOST_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/daemon/daemon_state.h"
#include "tests/unit/session/session_fixture.h"

namespace neurond::ring {

// The parts of a daemon that a ring session uses.
struct RingHost {
  explicit RingHost(int64_t device_bytes = int64_t{64} << 20) : host(false, 4, device_bytes) {
    state.plugin = &host.plugin;
    state.devices = &host.devices;
    state.cache = host.cache.get();
    state.programs = host.programs.get();
    state.sessions = &registry;
    state.use = &use;
    state.decode_program = [](std::string_view) -> absl::StatusOr<Graph> {
      return absl::InvalidArgumentError("the bytes are not a Program");
    };
    state.build_id = "beef";
    state.started = std::chrono::steady_clock::now();
    state.request_stop = [this](const std::string& reason) { stop_reason = reason; };
  }

  TestHost host;
  TestPrograms programs{host};
  SessionRegistry registry;
  UseClock use;
  DaemonState state;
  std::string stop_reason;
};

}  // namespace neurond::ring

#endif  // NEUROND_TESTS_UNIT_RING_RING_HOST_H_
