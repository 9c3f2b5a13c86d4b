// All counters of the daemon as one JSON text: what kStats frames answer and `neuronctl stats
// --json` prints.
//
// Thread-safety: callable from any thread.

#ifndef NEUROND_SERVER_DAEMON_STATS_H_
#define NEUROND_SERVER_DAEMON_STATS_H_

#include <string>

#include "server/daemon/daemon_state.h"

namespace neurond {

// {"daemon": {...}, "devices": [...], "sessions": [...], "programs": {...}, "cache": {...}}
std::string StatsJson(const DaemonState& state);

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_STATS_H_
