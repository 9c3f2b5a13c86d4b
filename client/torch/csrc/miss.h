// The miss path: a key that this process has not met.
//
//   daemon knows it (an earlier process)  -> its program and metadata
//   else the CPU reference run            -> the user's exception, or the outputs' metadata
//   else Python traces, the daemon lowers -> accepted, or refused (eager: CPU path; graphs:
//   RuntimeError)
//
// One thread works on a key at a time; others of the same key wait, with no lock and without the
// GIL. Thread-safety: from any thread. Never calls Python with a lock held.

#ifndef NEUROND_CLIENT_TORCH_CSRC_MISS_H_
#define NEUROND_CLIENT_TORCH_CSRC_MISS_H_

#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>

#include "client/torch/csrc/call.h"
#include "client/torch/csrc/entry.h"

namespace neurond::shim {

// The entry for `call`'s key. `level1`: the kStatic entry whose values were appended, or nullptr.
// nullptr: the key's first level changed; take the call apart again.
const Entry* Resolve(const OpInfo& info, const Link& link, const Call& call, uint64_t hash,
                     const Entry* level1, uint64_t graph, const torch::jit::Stack* stack);

struct MissCounters {
  std::atomic<uint64_t> misses{0}, lookups_known{0}, traces{0}, refused{0}, reference_runs{0};
};
MissCounters& Misses();

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_MISS_H_
