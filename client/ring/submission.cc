#include <sys/types.h>

#include <cstring>

#include "client/ring/client_impl.h"
#include "client/ring/limits.h"
#include "client/ring/progress_wait.h"

namespace neurond::client {
namespace {

constexpr uint64_t Padded(uint64_t bytes) { return (bytes + 7) & ~uint64_t{7}; }

ring::RecordHeader Header(uint64_t bytes, ring::RecordType type, int stream, uint64_t seq) {
  return {static_cast<uint32_t>(bytes), static_cast<uint16_t>(type), static_cast<uint16_t>(stream),
          seq};
}

// A header from the same build whose record is filled in one memcpy.
template <class Record>
void Put(std::byte* at, const Record& record) {
  std::memcpy(at, &record, sizeof(record));
}

std::byte* PutArray(std::byte* at, const void* values, size_t count) {
  if (count != 0) std::memcpy(at, values, count * 8);
  return at + count * 8;
}

}  // namespace

Status ClientImpl::Usable() {
  if (fork_guard_.InChild()) {
    return {Code::kFailedPrecondition,
            "the device cannot be used in a forked child of the process that opened it; use the "
            "'spawn' start method"};
  }
  if (connection_->dead()) return connection_->DeathStatus();
  return {};
}

Status ClientImpl::CheckStream(int stream) const {
  if (stream >= 0 && stream < static_cast<int>(ring::kStreamsMax)) return {};
  return {Code::kInvalidArgument, "stream " + std::to_string(stream) +
                                      " is out of range; expected 0 to " +
                                      std::to_string(ring::kStreamsMax - 1)};
}

Status ClientImpl::WaitWord(const std::atomic<uint64_t>& word, std::atomic<uint32_t>& waiting,
                            uint64_t target, WaitScope& wait, GiveUp give_up) {
  if (word.load(std::memory_order_acquire) >= target) return {};
  if (!woke_daemon_.load(std::memory_order_relaxed) && SpinFor(word, target)) return {};
  wait.Enter();
  bool signalled;
  while (!SleepFor(word, waiting, target, &signalled)) {
    if (areas_->progress()->epoch_ended.load(std::memory_order_relaxed) != 0 ||
        !connection_->Alive()) {
      if (word.load() >= target) return {};
      if (!connection_->Alive()) return connection_->DeathStatus();
    }
    if (give_up == GiveUp::kNever) continue;
    if (Status status = wait.Interrupted(signalled); !status.ok()) return status;
  }
  return {};
}

Status ClientImpl::WaitConsumed(uint64_t seq, WaitScope& wait, GiveUp give_up) {
  return WaitWord(areas_->progress()->consumed_seq, areas_->ring()->client_waiting_consumed, seq,
                  wait, give_up);
}

Status ClientImpl::WaitStreamCompleted(int stream, uint64_t seq, WaitScope& wait) {
  return WaitWord(areas_->progress()->completed_seq[stream],
                  areas_->ring()->client_waiting_stream[stream], seq, wait, GiveUp::kIfInterrupted);
}

Status ClientImpl::AwaitRoom() {
  const ring::RingHeader& header = *areas_->ring();
  const uint64_t head = header.head.load(std::memory_order_relaxed);
  if (head - header.tail.load(std::memory_order_acquire) <= kRingFillMax) [[likely]] {
    return {};
  }
  if (Status status = Usable(); !status.ok()) return status;
  WaitScope wait(hooks_);
  return WaitWord(header.tail, areas_->ring()->client_waiting_tail, head - kRingFillMax, wait,
                  GiveUp::kIfInterrupted);
}

std::byte* ClientImpl::ReserveLocked(uint64_t bytes, WaitScope& wait) {
  for (;;) {
    uint64_t tail_needed;
    std::byte* record = writer_->TryReserve(bytes, &tail_needed);
    if (record != nullptr) return record;
    if (!WaitWord(areas_->ring()->tail, areas_->ring()->client_waiting_tail, tail_needed, wait,
                  GiveUp::kNever)
             .ok()) {
      return nullptr;
    }
  }
}

void ClientImpl::PublishLocked() {
  woke_daemon_.store(writer_->Publish(), std::memory_order_relaxed);
}

bool ClientImpl::FlushFreesLocked(WaitScope* wait) {
  std::vector<uint64_t> frees;
  {
    std::lock_guard lock(frees_mutex_);
    if (frees_.empty()) return true;
    frees.swap(frees_);
  }
  size_t done = 0;
  bool fits = true;
  while (done < frees.size() && fits) {
    const auto count =
        static_cast<uint32_t>(std::min<size_t>(frees.size() - done, kFreesPerRecordMax));
    const uint64_t bytes =
        count == 1 ? sizeof(ring::FreeRecord) : sizeof(ring::FreeManyRecord) + uint64_t{8} * count;
    uint64_t tail_needed;
    std::byte* at =
        wait != nullptr ? ReserveLocked(bytes, *wait) : writer_->TryReserve(bytes, &tail_needed);
    fits = at != nullptr;
    if (!fits) break;
    if (count == 1) {
      Put(at, ring::FreeRecord{Header(bytes, ring::RecordType::kFree, 0, ++seq_), frees[done]});
    } else {
      Put(at,
          ring::FreeManyRecord{Header(bytes, ring::RecordType::kFreeMany, 0, ++seq_), count, 0});
      PutArray(at + sizeof(ring::FreeManyRecord), frees.data() + done, count);
    }
    PublishLocked();
    done += count;
  }
  if (done < frees.size()) {
    std::lock_guard lock(frees_mutex_);
    frees_.insert(frees_.begin(), frees.begin() + static_cast<ssize_t>(done), frees.end());
  }
  return fits;
}

uint64_t ClientImpl::FlushForRequest(WaitScope& wait) {
  std::lock_guard lock(push_mutex_);
  FlushFreesLocked(&wait);
  return seq_;
}

uint64_t ClientImpl::LastPushed() {
  std::lock_guard lock(push_mutex_);
  return seq_;
}

template <class FillFn>
Status ClientImpl::Push(int stream, uint64_t bytes, uint64_t* seq, WaitScope& wait,
                        const FillFn& fill) {
  if (Status status = Usable(); !status.ok()) return status;
  if (Status status = CheckStream(stream); !status.ok()) return status;
  std::lock_guard lock(push_mutex_);
  if (!FlushFreesLocked(&wait)) return connection_->DeathStatus();
  std::byte* record = ReserveLocked(bytes, wait);
  if (record == nullptr) return connection_->DeathStatus();
  fill(record, ++seq_);
  PublishLocked();
  last_seq_[stream].store(seq_, std::memory_order_relaxed);
  if (seq != nullptr) *seq = seq_;
  return {};
}

template <class Record>
Status ClientImpl::PushFixed(int stream, ring::RecordType type, Record record, uint64_t* seq) {
  WaitScope wait(hooks_);
  return Push(stream, sizeof(record), seq, wait, [&](std::byte* at, uint64_t number) {
    record.h = Header(sizeof(record), type, stream, number);
    Put(at, record);
  });
}

Status ClientImpl::Alloc(uint64_t buffer, ring::DType dtype, uint64_t elements, int device) {
  ring::AllocRecord record{};
  record.buffer = buffer;
  record.elements = elements;
  record.dtype = static_cast<uint8_t>(dtype);
  record.device = static_cast<uint8_t>(device);
  return PushFixed(0, ring::RecordType::kAlloc, record, nullptr);
}

void ClientImpl::Free(uint64_t buffer) {
  if (dead()) return;
  if (std::unique_lock lock(push_mutex_, std::try_to_lock); lock.owns_lock()) {
    uint64_t tail_needed;
    if (FlushFreesLocked(nullptr)) {
      if (std::byte* at = writer_->TryReserve(sizeof(ring::FreeRecord), &tail_needed)) {
        Put(at, ring::FreeRecord{
                    Header(sizeof(ring::FreeRecord), ring::RecordType::kFree, 0, ++seq_), buffer});
        PublishLocked();
        return;
      }
    }
  }
  // The ring is full or busy: the next push or request takes it along.
  std::lock_guard lock(frees_mutex_);
  frees_.push_back(buffer);
}

Status ClientImpl::Execute(int stream, uint64_t program, uint64_t origin,
                           std::span<const uint64_t> inputs, std::span<const uint64_t> outputs,
                           std::span<const int64_t> words, uint64_t* seq) {
  const uint64_t bytes =
      sizeof(ring::ExecuteRecord) + 8 * (inputs.size() + outputs.size() + words.size());
  const auto fill = [&](std::byte* at, uint64_t number) {
    ring::ExecuteRecord record{};
    record.h = Header(bytes, ring::RecordType::kExecute, stream, number);
    record.program = program;
    record.origin = origin;
    record.input_count = static_cast<uint32_t>(inputs.size());
    record.output_count = static_cast<uint32_t>(outputs.size());
    record.word_count = static_cast<uint32_t>(words.size());
    Put(at, record);
    at = PutArray(at + sizeof(record), inputs.data(), inputs.size());
    at = PutArray(at, outputs.data(), outputs.size());
    PutArray(at, words.data(), words.size());
  };
  if (bytes > ring::kRecordBytesMax) return PushLargeExecute(stream, bytes, seq, fill);
  WaitScope wait(hooks_);
  return Push(stream, bytes, seq, wait, fill);
}

Status ClientImpl::PushLargeExecute(int stream, uint64_t bytes, uint64_t* seq, const Fill& fill) {
  if (Status status = Usable(); !status.ok()) return status;
  if (bytes > ring::kLargeRecordBytesMax) {
    return {Code::kInvalidArgument, "a record of " + std::to_string(bytes) +
                                        " bytes is larger than the largest (" +
                                        std::to_string(ring::kLargeRecordBytesMax) + ")"};
  }
  WaitScope wait(hooks_);
  uint64_t offset;
  Status status = AcquireStaging(bytes, wait, GiveUp::kNever, &offset);
  if (!status.ok()) return status;
  uint64_t number = 0;
  status =
      Push(stream, sizeof(ring::LargeRecord), &number, wait, [&](std::byte* at, uint64_t next) {
        fill(areas_->staging() + offset, next);
        Put(at, ring::LargeRecord{
                    Header(sizeof(ring::LargeRecord), ring::RecordType::kLarge, stream, next),
                    offset, Padded(bytes)});
      });
  if (!status.ok()) return status;
  staging_.ReleaseAfter(offset, number);
  if (seq != nullptr) *seq = number;
  return {};
}

Status ClientImpl::Copy(int stream, uint64_t source, uint64_t destination, uint64_t origin,
                        uint64_t* seq) {
  return PushFixed(stream, ring::RecordType::kCopy,
                   ring::CopyRecord{{}, source, destination, origin}, seq);
}

Status ClientImpl::RecordEvent(int stream, uint64_t event, uint64_t* seq) {
  return PushFixed(stream, ring::RecordType::kRecord, ring::EventRecord{{}, event}, seq);
}

Status ClientImpl::WaitStream(int stream, int other_stream, uint64_t other_seq) {
  if (Status status = CheckStream(other_stream); !status.ok()) return status;
  ring::WaitRecord record{};
  record.seq = other_seq;
  record.other_stream = static_cast<uint16_t>(other_stream);
  return PushFixed(stream, ring::RecordType::kWait, record, nullptr);
}

uint64_t ClientImpl::last_seq(int stream) const {
  if (!CheckStream(stream).ok()) return 0;
  return last_seq_[stream].load(std::memory_order_relaxed);
}

uint64_t ClientImpl::completed_seq(int stream) const {
  if (!CheckStream(stream).ok()) return 0;
  return areas_->progress()->completed_seq[stream].load(std::memory_order_acquire);
}

uint64_t ClientImpl::unreported() const {
  return areas_->progress()->unreported.load(std::memory_order_acquire);
}

Status ClientImpl::WaitCompleted(int stream, uint64_t seq) {
  if (Status status = Usable(); !status.ok()) return status;
  if (Status status = CheckStream(stream); !status.ok()) return status;
  WaitScope wait(hooks_);
  return WaitStreamCompleted(stream, seq, wait);
}

bool ClientImpl::WaitCompletedFor(int stream, uint64_t seq, std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  if (!Usable().ok() || !CheckStream(stream).ok()) return false;
  const std::atomic<uint64_t>& word = areas_->progress()->completed_seq[stream];
  WaitScope wait(hooks_);
  wait.Enter();
  bool signalled;
  while (!SleepFor(word, areas_->ring()->client_waiting_stream[stream], seq, &signalled)) {
    if (!connection_->Alive() || std::chrono::steady_clock::now() >= end) return false;
  }
  return true;
}

// The transfers are in transfer.cc; they push these two records.
template Status ClientImpl::PushFixed(int, ring::RecordType, ring::WriteRecord, uint64_t*);
template Status ClientImpl::PushFixed(int, ring::RecordType, ring::ReadRecord, uint64_t*);

}  // namespace neurond::client
