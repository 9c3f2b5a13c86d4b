// Session: all state of one client. Buffers and their Versions, Streams, memory grants, deferred
// errors; torn down as one.
//
// Names are resolved at *submission*: each Command captures the Versions it reads and creates those
// it writes, so every Command sees memory as it was when it was submitted, whatever Stream it runs
// on. A failed Command resolves its output Versions to a root DeferredError, which its dependents
// pass on. A write that did not run keeps the Buffer's last good Version behind the error; once the
// error is reported the Buffer reverts to it.
//
// Thread-safety: one owner thread calls every method but Counters(). Plugin completions and
// resolved Executables arrive on other threads; they go to a mailbox, `wake` is called (from any
// thread, must be cheap and idempotent), and the owner calls Pump(). Nothing here blocks: what
// cannot run yet is queued. Once backlog() has reached kSessionBacklogMax the owner should stop
// reading its ring; it is woken when the backlog is down to kSessionBacklogLow. (The destructor
// waits for host copies under way, never for a program.)
//
// Devices: an Execute runs where its inputs are; without inputs on its Stream's device, which is
// stream % (number of visible devices). Errors: a Status from a submit method means the Command
// itself was malformed (unknown id, wrong counts, range): the client is wrong. Failures of
// well-formed Commands become DeferredErrors.

#ifndef NEUROND_RUNTIME_SESSION_SESSION_H_
#define NEUROND_RUNTIME_SESSION_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/error.h"
#include "runtime/device/device.h"
#include "runtime/program/program_store.h"
#include "runtime/stream/observer.h"

namespace neurond {

struct SessionOptions {
  uint64_t id = 0;
  uint32_t uid = 0;
  int pid = 0;
  std::string tag;               // NEURON_PROCESS_TAG
  std::vector<int> devices;      // visible ones, indices into the DeviceSet
  int64_t memory_bytes_max = 0;  // quota per device; 0: the device's
  int streams_max = 256;
};

struct SessionCounters {
  uint64_t id = 0;
  uint32_t uid = 0;
  int pid = 0;
  std::string tag;
  int64_t buffers = 0, buffer_bytes = 0, granted_bytes = 0;
  int64_t executes = 0, writes = 0, reads = 0, copies = 0, bytes_written = 0, bytes_read = 0;
  int64_t errors = 0, unreported = 0, backlog = 0;
};

class Session {
 public:
  virtual ~Session() =
      default;  // drops every name; running programs keep their memory until they end

  virtual absl::Status Alloc(uint64_t buffer, DType dtype, int64_t elements, int device) = 0;
  virtual absl::Status Free(uint64_t buffer) = 0;

  struct ExecuteCommand {
    uint64_t seq = 0;
    int stream = 0;
    uint64_t program = 0;
    uint64_t origin = 0;
    std::span<const uint64_t> inputs;   // one per slot of Program.buffers
    std::span<const uint64_t> outputs;  // new ids, one per Program.created
    std::span<const int64_t> words;
  };
  virtual absl::Status Execute(const ExecuteCommand& command) = 0;

  struct WriteCommand {
    uint64_t seq = 0;
    int stream = 0;
    uint64_t buffer = 0;
    uint64_t transfer = 0;
    const void* data = nullptr;  // copied before the call returns
    int64_t bytes = 0;
    int64_t buffer_offset = 0;
    int64_t total_bytes = 0;
    bool last = false;
    uint64_t origin = 0;
  };
  virtual absl::Status Write(const WriteCommand& command) = 0;

  struct ReadCommand {
    uint64_t seq = 0;
    int stream = 0;
    uint64_t buffer = 0;
    void* destination =
        nullptr;  // valid until the stream completed seq or the Session is destroyed
    int64_t bytes = 0;
    int64_t buffer_offset = 0;
    uint64_t origin = 0;
    // Set to 1 before the stream completes seq if the bytes were not delivered; else left alone.
    // Valid as long as `destination`.
    uint64_t* failed = nullptr;
  };
  virtual absl::Status Read(const ReadCommand& command) = 0;
  virtual absl::Status Copy(uint64_t seq, int stream, uint64_t source, uint64_t destination,
                            uint64_t origin) = 0;
  virtual absl::Status RecordEvent(uint64_t seq, int stream, uint64_t event) = 0;
  virtual absl::Status Wait(uint64_t seq, int stream, int other_stream, uint64_t other_seq) = 0;
  // A record without a Command of its own (Alloc, Free) retires too.
  virtual void Retire(uint64_t seq, int stream) = 0;

  // Handles completions and runs what has become runnable. Owner thread.
  virtual void Pump() = 0;
  // Commands submitted and not retired, without those that finished in their submit call.
  virtual int64_t backlog() const = 0;

  // Takes the oldest unreported root of a stream up to a sequence number (stream >= 0), of a device
  // (device >= 0), or of all; marks it reported; Buffers behind it revert to their last good
  // Version.
  virtual DeferredErrorPtr TakeError(int stream, int device, uint64_t upto_seq) = 0;
  // The root behind a Buffer's current Version, if it is an error; marks it reported.
  virtual DeferredErrorPtr TakeBufferError(uint64_t buffer) = 0;
  virtual uint64_t unreported() const = 0;
  // CLOCK_MONOTONIC ns; NOT_FOUND while the event has not completed.
  virtual absl::StatusOr<int64_t> EventTime(uint64_t event) const = 0;

  struct Grant {
    int64_t granted_bytes = 0, free_bytes = 0, total_bytes = 0;
  };
  // RESOURCE_EXHAUSTED names what was asked, what is free and the device.
  virtual absl::StatusOr<Grant> ChangeGrant(int device, int64_t delta_bytes) = 0;

  virtual SessionCounters Counters() const = 0;  // any thread
};

std::unique_ptr<Session> MakeSession(DeviceSet& devices, ProgramStore& programs,
                                     SessionObserver& observer, SessionOptions options);

}  // namespace neurond

#endif  // NEUROND_RUNTIME_SESSION_SESSION_H_
