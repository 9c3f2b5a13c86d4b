// RemoteExecution: one Execute call of a remote client, as a Session of its own: upload the inputs,
// run, read the results.
//
//   Begin -> WriteInput ... (inputs in order, each whole) -> Run -> ReadOutput ... -> destructor
//
// It is the Session's owner thread and its observer: commands are submitted, then the thread sleeps
// until the stream has passed them, looking at `cancelled` every kGrpcPollMs. Where the caller
// waits for the client instead, Close calls `cancel`. It is listed in the SessionRegistry while it
// lives, so operators see and close it like any other session, and the daemon does not think itself
// idle.
//
// Thread-safety: one thread calls; the observer's methods, Counters and Close come from any thread.
// Lifetime: may be destroyed at any point; work that the device already began ends by itself.
// Errors: INVALID_ARGUMENT names the input, RESOURCE_EXHAUSTED the device; a DeferredError of the
// Program comes back from Run with the Program's name and its inputs' types.

#ifndef NEUROND_SERVER_GRPC_REMOTE_EXECUTION_H_
#define NEUROND_SERVER_GRPC_REMOTE_EXECUTION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/program/program_store.h"
#include "runtime/session/session.h"
#include "server/daemon/daemon_state.h"

namespace neurond {

// Arguments and results of a Program as a remote client sees them. Results: the created Buffers,
// then the written ones.
struct RemoteSignature {
  std::vector<TensorType> inputs, outputs;
  int word_count = 0;
};
RemoteSignature SignatureOf(const Program& program);

int64_t TensorBytes(const TensorType& type);

class RemoteExecution final : private SessionObserver, private LiveSession {
 public:
  RemoteExecution(const DaemonState& state, StoredProgramPtr program, int device,
                  std::function<bool()> cancelled, std::function<void()> cancel);
  ~RemoteExecution() override;

  const RemoteSignature& signature() const { return signature_; }

  absl::Status Begin();
  // The bytes of input `index` that follow those written so far.
  absl::Status WriteInput(int index, std::string_view bytes);
  absl::Status Run(std::span<const int64_t> words);
  // Bytes [offset, offset + size) of output `index`. Waits.
  absl::Status ReadOutput(int index, int64_t offset, std::span<char> destination);

  // While it lives, the caller's thread waits for the client: closing the session cancels the call.
  class WaitForClient {
   public:
    explicit WaitForClient(RemoteExecution& execution) : execution_(execution) {
      execution_.SetWaiting(true);
    }
    ~WaitForClient() { execution_.SetWaiting(false); }
    WaitForClient(const WaitForClient&) = delete;
    WaitForClient& operator=(const WaitForClient&) = delete;

   private:
    RemoteExecution& execution_;
  };
  // ABORTED with the reason once the session was closed.
  absl::Status CheckOpen();

 private:
  // A tensor of the signature: its Buffer, or 0 if it has no elements.
  struct Slot {
    uint64_t buffer = 0;
    int64_t bytes = 0;
  };

  absl::Status AllocInputs();
  // Until the stream has passed `seq`, or the call is cancelled or the session closed, if it may
  // stop.
  absl::Status WaitFor(uint64_t seq, bool may_stop);
  absl::Status CheckComplete(int index) const;
  void SetWaiting(bool waiting);

  void OnCompleted(int stream, uint64_t seq) override;
  void OnUnreported(uint64_t) override {}
  void Wake() override;
  SessionCounters Counters() const override;
  void Close(const std::string& reason) override;

  const DaemonState& state_;
  const StoredProgramPtr stored_;
  const Program& program_;
  const int device_;
  const std::function<bool()> cancelled_;
  const std::function<void()> cancel_;
  const RemoteSignature signature_;
  const uint64_t id_;

  std::vector<Slot> inputs_, outputs_;
  std::vector<uint64_t> program_inputs_,
      program_outputs_;  // Buffer ids, one per slot of the Program
  uint64_t last_buffer_ = 0, last_seq_ = 0;
  int writing_ = 0;      // the input that gets bytes now
  int64_t written_ = 0;  // its bytes so far
  bool registered_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t completed_seq_ = 0;  // guarded by mutex_, as is what follows
  bool woken_ = false;
  bool waits_for_client_ = false;
  std::string closed_;

  std::unique_ptr<Session> session_;  // last: its end may still call the observer
};

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_REMOTE_EXECUTION_H_
