#include "runtime/stream/progress.h"

#include <utility>

#include "runtime/base/limits.h"
#include "runtime/stream/command.h"

namespace neurond {
namespace {

constexpr int64_t kNotYet = -1;

}  // namespace

Progress::Progress(SessionObserver& observer, int streams, std::function<int64_t()> now_ns)
    : observer_(observer),
      now_ns_(std::move(now_ns)),
      streams_(std::make_unique<StreamState[]>(streams)) {}

Progress::~Progress() {
  for (Command* command : posted_) delete command;
}

void Progress::Push(StreamState& s, const Slot& slot) {
  s.slots.push_back(slot);
  s.busy.store(true, std::memory_order_relaxed);
}

Progress::Ticket Progress::Enter(int stream, uint64_t seq) {
  std::lock_guard<std::mutex> lock(mutex_);
  StreamState& s = streams_[stream];
  Slot slot;
  slot.seq = seq;
  slot.counted = true;
  Push(s, slot);
  if (backlog_.fetch_add(1, std::memory_order_relaxed) + 1 >= kSessionBacklogMax) {
    backlog_full_ = true;
  }
  return s.first + s.slots.size() - 1;
}

void Progress::RetireNow(int stream, uint64_t seq) {
  StreamState& s = streams_[stream];
  if (!s.busy.load(std::memory_order_acquire)) {
    s.completed = s.notified = seq;
    observer_.OnCompleted(stream, seq);
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (!s.slots.empty() && s.slots.back().done && !s.slots.back().has_event) {
    s.slots.back().seq = seq;  // they retire together
    return;
  }
  Slot slot;
  slot.seq = seq;
  slot.done = true;
  Push(s, slot);
  Advance(stream, lock);
}

void Progress::RetireEvent(int stream, uint64_t seq, uint64_t event) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (auto it = event_ns_.find(event); it != event_ns_.end())
    it->second = kNotYet;  // recorded again
  StreamState& s = streams_[stream];
  Slot slot;
  slot.seq = seq;
  slot.event = event;
  slot.has_event = true;
  slot.done = true;
  Push(s, slot);
  Advance(stream, lock);
}

void Progress::Retire(int stream, Ticket ticket) {
  std::unique_lock<std::mutex> lock(mutex_);
  StreamState& s = streams_[stream];
  s.slots[ticket - s.first].done = true;
  Advance(stream, lock);
}

void Progress::Stamp(uint64_t event) {
  if (event_ns_.insert_or_assign(event, now_ns_()).second) event_order_.push_back(event);
  while (static_cast<int64_t>(event_order_.size()) > kSessionEventsMax) {
    event_ns_.erase(event_order_.front());
    event_order_.pop_front();
  }
}

void Progress::Advance(int stream, std::unique_lock<std::mutex>& lock) {
  StreamState& s = streams_[stream];
  bool retired = false;
  bool wake = false;
  while (!s.slots.empty() && s.slots.front().done) {
    const Slot& slot = s.slots.front();
    s.completed = slot.seq;
    if (slot.has_event) Stamp(slot.event);
    if (slot.counted) backlog_.fetch_sub(1, std::memory_order_relaxed);
    s.slots.pop_front();
    ++s.first;
    retired = true;
  }
  if (backlog_full_ && backlog() <= kSessionBacklogLow) {
    backlog_full_ = false;
    wake = true;
  }
  wake = wake || wake_on_retire_.load(std::memory_order_seq_cst);
  // One thread at a time tells the observer, so that it sees rising numbers; the others leave
  // theirs to it.
  if (retired && !s.notifying) {
    s.notifying = true;
    while (s.notified < s.completed && !closed_) {
      const uint64_t seq = s.notified = s.completed;
      ++active_calls_;
      lock.unlock();
      observer_.OnCompleted(stream, seq);
      lock.lock();
      if (--active_calls_ == 0 && closed_) quiet_.notify_all();
    }
    s.notifying = false;
    if (s.slots.empty()) s.busy.store(false, std::memory_order_release);
  }
  if (wake) {
    lock.unlock();
    Wake();
    lock.lock();
  }
}

std::optional<int64_t> Progress::EventTime(uint64_t event) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = event_ns_.find(event);
  if (it == event_ns_.end() || it->second == kNotYet) return std::nullopt;
  return it->second;
}

bool Progress::Retired(int stream, uint64_t seq) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const StreamState& s = streams_[stream];
  return s.slots.empty() || s.slots.front().seq > seq;
}

std::vector<Command*> Progress::TakePosted() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(posted_, {});
}

void Progress::Post(Command* command) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) {
      posted_.push_back(command);
      command = nullptr;
    }
  }
  if (command != nullptr) {
    delete command;
  } else {
    Wake();
  }
}

void Progress::Wake() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    ++active_calls_;
  }
  observer_.Wake();
  EndAccess();
}

bool Progress::BeginAccess() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return false;
  ++active_calls_;
  return true;
}

void Progress::EndAccess() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--active_calls_ == 0 && closed_) quiet_.notify_all();
}

void Progress::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  closed_ = true;
  quiet_.wait(lock, [this] { return active_calls_ == 0; });
}

}  // namespace neurond
