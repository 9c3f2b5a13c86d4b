// Command: one unit of a Stream's work, from its submission to its retirement.
//
//   submitted -> (queued in its Stream) -> started -> finished -> retired
//
// Started means that the plugin was called. Each callback that the plugin still owes, and the owner
// while it is starting the Command, hold one of `pending`; whoever gives the last one back finishes
// the Command: the owner within the submit call when everything ran inline, else the completion
// thread, which retires it on the spot or, if the owner is needed, posts it to Progress.
//
// Thread-safety: the owner's until it is started; then of whoever holds the last `pending`.
// Lifetime: heap; deleted by whoever finishes it. The owner reuses one that finished inline.

#ifndef NEUROND_RUNTIME_STREAM_COMMAND_H_
#define NEUROND_RUNTIME_STREAM_COMMAND_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "runtime/base/error.h"
#include "runtime/base/host_block_pool.h"
#include "runtime/device/device.h"
#include "runtime/stream/progress.h"
#include "runtime/stream/version.h"

namespace neurond {

struct SessionProgram;

struct Command {
  enum class Kind : uint8_t { kExecute, kWrite, kPatch, kRead, kCopy, kWait };

  Kind kind = Kind::kExecute;
  int stream = 0;
  int device = 0;  // within the Session
  uint64_t seq = 0;
  uint64_t origin = 0;
  // Execute: one per parameter of the Program. Read, Copy, Patch: the source. Kept past the start
  // only where a later failure needs them.
  absl::InlinedVector<VersionPtr, 4> inputs;
  // Execute: created, then written. Write, Patch, Copy: the new contents.
  absl::InlinedVector<VersionPtr, 4> outputs;

  // Execute.
  const SessionProgram* program = nullptr;
  absl::InlinedVector<int64_t, 6> words;
  int awaited_try = 0;  // of its Executable: a wake-up is registered for this one
  std::vector<DeviceBufferPtr> results;
  int64_t check[2] = {};  // number of the first failed check, its value
  // Read: where to. Patch: which bytes.
  void* destination = nullptr;
  uint64_t* failed = nullptr;
  int64_t bytes = 0;
  int64_t offset = 0;
  DeviceBufferPtr source;  // what a Read or a Patch downloads from
  HostBlock block;         // Write: the new content. Patch: the old content, then the new one
  HostBlock patch;
  // Wait.
  int other_stream = 0;
  uint64_t other_seq = 0;

  // Under way.
  std::atomic<int> pending = 0;
  bool needs_owner = false;  // only the owner can finish and retire it, also when it went well
  bool tells_owner =
      false;  // it retires at once when it went well; the owner then clears up behind it
  bool has_ticket = false;
  bool retired = false;
  Progress::Ticket ticket = 0;
  std::shared_ptr<Progress> progress;
  Device* gate = nullptr;  // to be left once the Execute is complete
  Error error;             // of the Execute, Read or download
  Error check_error;       // of the check's download

  // As new, without giving back capacity.
  void Reset();

  // Completion callbacks; any thread.
  void OnExecuted(Error result);
  void OnChecked(Error result);
  void OnReadable(Error result);
  void OnTransferred(Error result);  // download, or content in place

 private:
  void GiveBack();
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_STREAM_COMMAND_H_
