// SessionImpl: the Session. submit.cc resolves names and captures Versions, dispatch.cc starts
// Commands, finish.cc finishes them and spreads failures, session.cc holds the rest.
//
// Thread-safety: as session.h says. Everything here is the owner thread's but `progress_` and the
// tallies.

#ifndef NEUROND_RUNTIME_SESSION_SESSION_IMPL_H_
#define NEUROND_RUNTIME_SESSION_SESSION_IMPL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "runtime/base/host_block_pool.h"
#include "runtime/base/tally.h"
#include "runtime/session/buffer_table.h"
#include "runtime/session/error_book.h"
#include "runtime/session/session.h"
#include "runtime/session/session_program.h"
#include "runtime/session/words_cache.h"
#include "runtime/stream/command.h"
#include "runtime/stream/progress.h"
#include "runtime/stream/version.h"

namespace neurond {

class SessionImpl final : public Session {
 public:
  SessionImpl(std::vector<Device*> devices, ProgramStore& programs, SessionObserver& observer,
              SessionOptions options);
  ~SessionImpl() override;

  absl::Status Alloc(uint64_t buffer, DType dtype, int64_t elements, int device) override;
  absl::Status Free(uint64_t buffer) override;
  absl::Status Execute(const ExecuteCommand& command) override;
  absl::Status Write(const WriteCommand& command) override;
  absl::Status Read(const ReadCommand& command) override;
  absl::Status Copy(uint64_t seq, int stream, uint64_t source, uint64_t destination,
                    uint64_t origin) override;
  absl::Status RecordEvent(uint64_t seq, int stream, uint64_t event) override;
  absl::Status Wait(uint64_t seq, int stream, int other_stream, uint64_t other_seq) override;
  void Retire(uint64_t seq, int stream) override;

  void Pump() override;
  int64_t backlog() const override { return progress_->backlog(); }

  DeferredErrorPtr TakeError(int stream, int device, uint64_t upto_seq) override;
  DeferredErrorPtr TakeBufferError(uint64_t buffer) override;
  uint64_t unreported() const override { return errors_.unreported(); }
  absl::StatusOr<int64_t> EventTime(uint64_t event) const override;
  absl::StatusOr<Grant> ChangeGrant(int device, int64_t delta_bytes) override;
  SessionCounters Counters() const override;

 private:
  using CommandPtr = std::unique_ptr<Command>;

  // A Write whose last chunk has not come.
  struct Transfer {
    uint64_t buffer = 0;
    int64_t start = 0;
    int64_t received = 0;
    int64_t total = 0;
    HostBlock block;
  };

  // --- submit.cc ---
  absl::Status CheckStream(int stream, uint64_t seq);
  absl::StatusOr<Buffer*> Need(uint64_t id);
  SessionProgram* FindProgram(uint64_t id);
  // Validates everything an Execute names; fills slots_ and says where it runs. Changes nothing
  // else.
  absl::StatusOr<int> CheckExecute(const SessionProgram& program, const ExecuteCommand& command);
  void CaptureExecute(const ExecuteCommand& from, Command& command);
  absl::StatusOr<Transfer*> Chunk(const WriteCommand& command, const Buffer& buffer);
  // The Version to read. A Buffer never written gets zeros.
  VersionPtr Current(uint64_t id, Buffer& buffer);
  // Makes the Buffer's next Version.
  VersionPtr Next(uint64_t id, Buffer& buffer);
  absl::StatusOr<DeviceBufferPtr> Zeros(Device& device, const Buffer& buffer);

  // --- dispatch.cc, finish.cc ---
  CommandPtr NewCommand(Command::Kind kind, int stream, int device, uint64_t seq, uint64_t origin);
  void Submit(CommandPtr command);
  // Starts (and perhaps finishes) the Command, or says that it has to wait; then something will
  // wake the owner.
  bool TryStart(Command* command);
  bool StartExecute(Command* command);
  // A Write of a whole Buffer: depends on nothing, so it never waits.
  void RunWrite(CommandPtr command, Buffer& buffer, HostBlock block);
  bool StartRead(Command* command);
  bool StartCopy(Command* command);
  bool StartPatch(Command* command);
  bool StartWait(Command* command);
  // True with a *failure too, if compiling failed.
  bool ExecutableReady(Command* command, Error* failure);
  bool MemoryAvailable(Command* command);
  bool EnterGate(Command* command);
  bool RunExecute(Command* command);
  bool MayDonate(const Command& command, size_t parameter) const;
  void BindResults(Command& command, bool good);
  void CheckResults(Command* command);
  // The start is over: finishes the Command if all callbacks ran, else leaves it to the last one.
  void LetGo(Command* command);
  void EnsureTicket(Command& command);
  // A device buffer with the block's bytes; may take the block.
  absl::StatusOr<DeviceBufferPtr> Content(Device& where, DType dtype, int64_t elements,
                                          HostBlock& block);
  void Finish(Command* command);
  bool FinishPatch(Command& command);
  void FinishFailed(Command* command);
  void Fail(Command* command, const RootPtr& root);
  void Retire(Command* command);
  void RunQueues();
  void SettleUndetermined();
  RootPtr OldestRoot(const Command& command) const;
  RootPtr NewRoot(const Command& command, Error error) const;
  Error CheckError(const Command& command) const;

  // --- session.cc ---
  // Gives Buffers whose current Version is an error of this root their last good one.
  void Revert(const Root& root);
  void RevertBuffer(Version& failed);
  void TellUnreported();
  void LogUnreported() const;
  Device& device(int index) const { return *devices_[index]; }

  const SessionOptions options_;
  const std::vector<Device*> devices_;
  ProgramStore& programs_;
  SessionObserver& observer_;
  const std::shared_ptr<Progress> progress_;
  const std::shared_ptr<HostBlockPool> blocks_;
  BufferTable buffers_;
  ErrorBook errors_;
  WordsCache words_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<SessionProgram>> program_table_;
  absl::flat_hash_map<uint64_t, Transfer> transfers_;
  std::vector<std::deque<CommandPtr>> queues_;  // per Stream: submitted, not started
  std::vector<int> waiting_streams_;            // Streams with a queue
  std::vector<Command*> undetermined_;          // failed; which root is not known yet
  std::vector<CommandPtr> spare_;
  bool needs_retirement_ = false;  // something waits for a Command to finish
  uint64_t newest_seq_ = 0;
  // Scratch of one submission.
  std::vector<Buffer*> slots_;
  std::vector<uint64_t> new_ids_;
  std::vector<DeviceBuffer*> arguments_;
  absl::InlinedVector<bool, 16> donate_;

  Tally executes_, writes_, reads_, copies_, bytes_written_, bytes_read_, errors_total_;
  std::atomic<uint64_t> unreported_ = 0;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_SESSION_SESSION_IMPL_H_
