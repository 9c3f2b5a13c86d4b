// ClientImpl: the one implementation of Client. Submission (push lock, sequence numbers, frees) is
// in submission.cc, uploads and downloads in transfer.cc, requests over the socket in requests.cc,
// connecting in connect.cc.
//
// Locks: push_mutex_ (sequence numbers and the ring) and frees_mutex_ (a list), in that order.
// Thread-safety: as Client says.

#ifndef NEUROND_CLIENT_RING_CLIENT_IMPL_H_
#define NEUROND_CLIENT_RING_CLIENT_IMPL_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "client/ring/areas.h"
#include "client/ring/client.h"
#include "client/ring/connection.h"
#include "client/ring/fork_guard.h"
#include "client/ring/ring_writer.h"
#include "client/ring/staging_arena.h"
#include "client/ring/wait_scope.h"

namespace neurond::client {

class ClientImpl : public Client {
 public:
  ClientImpl(WaitHooks hooks, std::unique_ptr<Connection> connection, Greeting greeting);
  ~ClientImpl() override;
  Status MapAreas();

  std::string daemon_build_id() const override { return greeting_.build_id; }
  int daemon_pid() const override { return static_cast<int>(greeting_.reply.daemon_pid); }
  uint64_t session() const override { return greeting_.reply.session; }
  int device_count() const override { return greeting_.reply.device_count; }
  bool dead() const override { return fork_guard_.InChild() || connection_->dead(); }
  Status AwaitRoom() override;
  uint64_t NewBufferId() override { return next_buffer_.fetch_add(1, std::memory_order_relaxed); }

  Status Alloc(uint64_t buffer, ring::DType dtype, uint64_t elements, int device) override;
  void Free(uint64_t buffer) override;
  Status Execute(int stream, uint64_t program, uint64_t origin, std::span<const uint64_t> inputs,
                 std::span<const uint64_t> outputs, std::span<const int64_t> words,
                 uint64_t* seq) override;
  Status Copy(int stream, uint64_t source, uint64_t destination, uint64_t origin,
              uint64_t* seq) override;
  Status RecordEvent(int stream, uint64_t event, uint64_t* seq) override;
  Status WaitStream(int stream, int other_stream, uint64_t other_seq) override;

  Status Write(int stream, uint64_t buffer, uint64_t offset, const void* data, uint64_t bytes,
               uint64_t origin, uint64_t* seq) override;
  Status Read(int stream, uint64_t buffer, uint64_t offset, void* data, uint64_t bytes,
              uint64_t origin) override;

  uint64_t last_seq(int stream) const override;
  uint64_t completed_seq(int stream) const override;
  Status WaitCompleted(int stream, uint64_t seq) override;
  bool WaitCompletedFor(int stream, uint64_t seq, std::chrono::milliseconds most) override;
  uint64_t unreported() const override;

  Status TakeError(int stream, int device, uint64_t upto_seq, uint64_t buffer, bool* found,
                   DeviceError* error) override;
  Status Lookup(std::string_view key, uint64_t* program, std::string* meta) override;
  Status Define(std::string_view key, std::string_view meta, std::string_view program_bytes,
                uint64_t* program) override;
  Status ChangeGrant(int device, int64_t delta_bytes, int64_t* granted, int64_t* free_bytes,
                     int64_t* total) override;
  Status EventTime(uint64_t event, int64_t* time_ns) override;
  Status Devices(std::vector<DeviceInfo>* devices) override;
  Status Stats(std::string* json) override;

 private:
  // Why nothing can be submitted, or ok.
  Status Usable();
  Status CheckStream(int stream) const;

  // One record: waits for ring space, takes the next sequence number, calls `fill` with where the
  // record goes, publishes. `wait` must be declared before any lock the caller holds.
  using Fill = std::function<void(std::byte* record, uint64_t seq)>;
  template <class FillFn>
  Status Push(int stream, uint64_t bytes, uint64_t* seq, WaitScope& wait, const FillFn& fill);
  template <class Record>
  Status PushFixed(int stream, ring::RecordType type, Record record, uint64_t* seq);
  Status PushLargeExecute(int stream, uint64_t bytes, uint64_t* seq, const Fill& fill);
  std::byte* ReserveLocked(uint64_t bytes, WaitScope& wait);
  void PublishLocked();
  // Pushes the frees that were put aside. `wait` nullptr: only as many as fit.
  bool FlushFreesLocked(WaitScope* wait);
  // So that what was freed before a request counts for it. Returns the last sequence number.
  uint64_t FlushForRequest(WaitScope& wait);
  uint64_t LastPushed();

  // Whether a wait may be given up: not halfway through something, and not under a lock.
  enum class GiveUp { kNever, kIfInterrupted };
  // Sleeps until the word reaches the target. kUnavailable: dead.
  Status WaitWord(const std::atomic<uint64_t>& word, std::atomic<uint32_t>& waiting,
                  uint64_t target, WaitScope& wait, GiveUp give_up);
  Status WaitConsumed(uint64_t seq, WaitScope& wait, GiveUp give_up);
  Status WaitStreamCompleted(int stream, uint64_t seq, WaitScope& wait);
  // A staging block, waiting for one if need be.
  Status AcquireStaging(uint64_t bytes, WaitScope& wait, GiveUp give_up, uint64_t* offset);
  void ReleaseStaging(uint64_t offset);

  struct ReadChunk {
    uint64_t seq = 0, staging = 0, bytes = 0;
    std::byte* destination = nullptr;
    int stream = 0;
  };
  Status PushReadChunk(int stream, uint64_t buffer, uint64_t offset, uint64_t origin,
                       WaitScope& wait, ReadChunk* chunk);
  // Waits for a chunk and copies it out if `deliver`. kAborted: its producer failed.
  Status FinishReadChunk(const ReadChunk& chunk, bool deliver, WaitScope& wait);
  // Gives back the blocks of downloads that were given up and that the daemon no longer writes to.
  void ReclaimGivenUp();

  template <class Reply, class Request>
  Status FixedRequest(ring::FrameType type, const Request& request, Reply* reply,
                      std::string* tail);
  Status RawRequest(ring::FrameType type, std::initializer_list<std::string_view> parts,
                    std::string* reply, GiveUp give_up = GiveUp::kIfInterrupted);

  const WaitHooks hooks_;
  const ForkGuard fork_guard_;
  std::unique_ptr<Connection> connection_;
  Greeting greeting_;
  std::unique_ptr<Areas> areas_;
  std::unique_ptr<RingWriter> writer_;
  StagingArena staging_;
  std::mutex staging_mutex_;
  std::condition_variable staging_released_;
  std::vector<ReadChunk> given_up_;  // guarded by staging_mutex_

  std::mutex push_mutex_;
  uint64_t seq_ = 0;  // of the last record pushed
  std::array<std::atomic<uint64_t>, ring::kStreamsMax> last_seq_{};
  std::atomic<bool> woke_daemon_{false};  // by the last push: then a spin would only be in its way

  std::mutex frees_mutex_;
  std::vector<uint64_t> frees_;

  std::atomic<uint64_t> next_buffer_{1};
  std::atomic<uint64_t> next_transfer_{1};
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_CLIENT_IMPL_H_
