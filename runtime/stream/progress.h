// Progress: which Commands of a Session are under way, and the retirement of each Stream in order.
//
// This is the part of a Session that completion threads of a plugin may touch. A Command that did
// not finish within its submit call has a slot in its Stream from submission on; a Stream's
// sequence is complete up to the slot before the first unfinished one. The observer is told on the
// thread that finished the Command, so that a waiting client is woken without a hop over the owner.
// What needs the owner (errors, checks, memory to let go of) is posted here and the owner woken.
//
// Fast path: while a Stream has no slot and no notification under way (`busy` is false), only the
// owner can touch it, and it does so without the mutex.
//
// Thread-safety: each method says who may call it. The observer is called without the mutex.
// Lifetime: shared by the Session and its running Commands. Close() ends every call to the observer
// and every use of a Read's destination; what finishes later is dropped.

#ifndef NEUROND_RUNTIME_STREAM_PROGRESS_H_
#define NEUROND_RUNTIME_STREAM_PROGRESS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/stream/observer.h"

namespace neurond {

struct Command;

class Progress {
 public:
  // Names a slot within its Stream.
  using Ticket = uint64_t;

  // `now_ns`: CLOCK_MONOTONIC, injected for tests.
  Progress(SessionObserver& observer, int streams, std::function<int64_t()> now_ns);
  ~Progress();

  // --- Owner ---
  // A Command of `stream` is under way. Sequence numbers of a Stream rise.
  Ticket Enter(int stream, uint64_t seq);
  // A Command that finished in its submit call, or a record that is none.
  void RetireNow(int stream, uint64_t seq);
  // An event: its time is when everything before it in its Stream has retired.
  void RetireEvent(int stream, uint64_t seq, uint64_t event);
  std::optional<int64_t> EventTime(uint64_t event) const;
  // Every Command of `stream` with a sequence number <= seq has retired.
  bool Retired(int stream, uint64_t seq) const;
  // Posted since the last call.
  std::vector<Command*> TakePosted();
  // Asks for a Wake() whenever a Command finishes (something waits for one).
  void WakeOnRetire(bool wanted) { wake_on_retire_.store(wanted, std::memory_order_seq_cst); }
  // No observer call, no use of a Read's destination from here on; waits for those under way.
  void Close();

  // --- Any thread ---
  void Retire(int stream, Ticket ticket);
  // Hands a finished Command to the owner. Deletes it if the Session is gone.
  void Post(Command* command);
  void Wake();
  // Guards the use of memory that is only valid while the Session lives. False: it is gone.
  bool BeginAccess();
  void EndAccess();
  // Slots not retired.
  int64_t backlog() const { return backlog_.load(std::memory_order_relaxed); }
  // Commands whose plugin call is under way.
  void Started() { running_.fetch_add(1, std::memory_order_relaxed); }
  // Sequentially consistent with WakeOnRetire: whoever asked for a wake-up and still saw this
  // Command running is woken.
  void Finished() { running_.fetch_sub(1, std::memory_order_seq_cst); }
  int64_t running() const { return running_.load(std::memory_order_seq_cst); }

 private:
  struct Slot {
    uint64_t seq = 0;
    uint64_t event = 0;
    bool done = false;
    bool has_event = false;
    bool counted = false;  // in backlog_
  };
  struct alignas(64) StreamState {
    std::atomic<bool> busy = false;  // false: no slot, no notification under way
    bool notifying = false;
    uint64_t completed = 0;
    uint64_t notified = 0;
    Ticket first = 0;  // ticket of slots.front()
    std::deque<Slot> slots;
  };

  void Push(StreamState& stream, const Slot& slot);
  // Retires what is done at the front and tells the observer; returns with the lock held.
  void Advance(int stream, std::unique_lock<std::mutex>& lock);
  void Stamp(uint64_t event);

  SessionObserver& observer_;
  const std::function<int64_t()> now_ns_;
  const std::unique_ptr<StreamState[]> streams_;
  std::atomic<int64_t> backlog_ = 0;
  std::atomic<int64_t> running_ = 0;
  std::atomic<bool> wake_on_retire_ = false;

  mutable std::mutex mutex_;  // of the Streams' slots and everything below
  std::condition_variable quiet_;
  bool closed_ = false;
  bool backlog_full_ = false;  // reached kSessionBacklogMax and not yet kSessionBacklogLow again
  int active_calls_ = 0;
  std::vector<Command*> posted_;
  absl::flat_hash_map<uint64_t, int64_t> event_ns_;
  std::deque<uint64_t> event_order_;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_STREAM_PROGRESS_H_
