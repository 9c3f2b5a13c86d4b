// Uploads and downloads through the staging area.
#include <chrono>
#include <cstring>
#include <deque>

#include "client/ring/client_impl.h"
#include "client/ring/limits.h"

namespace neurond::client {

Status ClientImpl::AcquireStaging(uint64_t bytes, WaitScope& wait, GiveUp give_up,
                                  uint64_t* offset) {
  for (;;) {
    ReclaimGivenUp();
    const uint64_t consumed = areas_->progress()->consumed_seq.load(std::memory_order_acquire);
    if (std::optional<uint64_t> block = staging_.TryAcquire(bytes, consumed)) {
      *offset = *block;
      return {};
    }
    wait.Enter();
    if (const uint64_t seq = staging_.OldestPending(); seq != 0) {
      if (Status status = WaitConsumed(seq, wait, give_up); !status.ok()) return status;
      continue;
    }
    // Everything is held by downloads of other threads, or by some that were given up.
    if (!connection_->Alive()) return connection_->DeathStatus();
    if (give_up == GiveUp::kIfInterrupted) {
      if (Status status = wait.Interrupted(false); !status.ok()) return status;
    }
    std::unique_lock lock(staging_mutex_);
    staging_released_.wait_for(lock, std::chrono::milliseconds(10));
  }
}

void ClientImpl::ReclaimGivenUp() {
  std::lock_guard lock(staging_mutex_);
  std::erase_if(given_up_, [this](const ReadChunk& chunk) {
    const bool done = completed_seq(chunk.stream) >= chunk.seq;
    if (done) staging_.Release(chunk.staging);
    return done;
  });
}

void ClientImpl::ReleaseStaging(uint64_t offset) {
  staging_.Release(offset);
  staging_released_.notify_all();
}

Status ClientImpl::Write(int stream, uint64_t buffer, uint64_t offset, const void* data,
                         uint64_t bytes, uint64_t origin, uint64_t* seq) {
  if (Status status = Usable(); !status.ok()) return status;
  if (bytes == 0) return {};
  WaitScope wait(hooks_);
  ring::WriteRecord record{};
  record.buffer = buffer;
  record.transfer = next_transfer_.fetch_add(1, std::memory_order_relaxed);
  record.total_bytes = bytes;
  record.origin = origin;
  std::deque<uint64_t> window;
  const auto* source = static_cast<const std::byte*>(data);
  // More chunks than the window holds follow what the daemon does: if it is behind, the wait for it
  // comes first, where it may be interrupted.
  if (bytes > kWriteWindowChunks * kWriteChunkBytes) {
    Status status = WaitConsumed(LastPushed(), wait, GiveUp::kIfInterrupted);
    if (!status.ok()) return status;
  }
  for (uint64_t done = 0; done < bytes; done += record.bytes) {
    Status status;
    if (window.size() >= kWriteWindowChunks) {
      status = WaitConsumed(window.front(), wait, GiveUp::kNever);
      if (!status.ok()) return status;
      window.pop_front();
    }
    record.bytes = std::min(kWriteChunkBytes, bytes - done);
    status = AcquireStaging(record.bytes, wait, done == 0 ? GiveUp::kIfInterrupted : GiveUp::kNever,
                            &record.staging_offset);
    if (!status.ok()) return status;
    std::memcpy(areas_->staging() + record.staging_offset, source + done, record.bytes);
    record.buffer_offset = offset + done;
    record.flags = done + record.bytes == bytes ? ring::kLastChunk : 0;
    uint64_t number;
    status = PushFixed(stream, ring::RecordType::kWrite, record, &number);
    if (!status.ok()) return status;
    staging_.ReleaseAfter(record.staging_offset, number);
    window.push_back(number);
    if (seq != nullptr) *seq = number;
  }
  return {};
}

Status ClientImpl::PushReadChunk(int stream, uint64_t buffer, uint64_t offset, uint64_t origin,
                                 WaitScope& wait, ReadChunk* chunk) {
  const uint64_t status_at = ring::ReadStatusOffset(chunk->bytes);
  Status status =
      AcquireStaging(status_at + sizeof(uint64_t), wait, GiveUp::kIfInterrupted, &chunk->staging);
  if (!status.ok()) return status;
  chunk->stream = stream;
  ring::ReadRecord record{};
  record.buffer = buffer;
  record.staging_offset = chunk->staging;
  record.bytes = chunk->bytes;
  record.buffer_offset = offset;
  record.origin = origin;
  status = PushFixed(stream, ring::RecordType::kRead, record, &chunk->seq);
  if (!status.ok()) ReleaseStaging(chunk->staging);
  return status;
}

Status ClientImpl::FinishReadChunk(const ReadChunk& chunk, bool deliver, WaitScope& wait) {
  // A dead daemon's session writes no more, but its last download might: such a block is never used
  // again.
  Status status = WaitStreamCompleted(chunk.stream, chunk.seq, wait);
  if (!status.ok()) return status;
  const std::byte* data = areas_->staging() + chunk.staging;
  uint64_t failed;
  std::memcpy(&failed, data + ring::ReadStatusOffset(chunk.bytes), sizeof(failed));
  if (failed == 0 && deliver) std::memcpy(chunk.destination, data, chunk.bytes);
  ReleaseStaging(chunk.staging);
  if (failed == 0) return {};
  return {Code::kAborted, "the buffer's content could not be computed"};
}

Status ClientImpl::Read(int stream, uint64_t buffer, uint64_t offset, void* data, uint64_t bytes,
                        uint64_t origin) {
  if (Status status = Usable(); !status.ok()) return status;
  WaitScope wait(hooks_);
  std::deque<ReadChunk> window;
  Status result;
  uint64_t pushed = 0;
  while (pushed < bytes || !window.empty()) {
    const bool more = pushed < bytes && result.ok() && window.size() < kReadWindowChunks;
    if (more) {
      ReadChunk chunk;
      chunk.bytes = std::min(kReadChunkBytes, bytes - pushed);
      chunk.destination = static_cast<std::byte*>(data) + pushed;
      result = PushReadChunk(stream, buffer, offset + pushed, origin, wait, &chunk);
      if (result.ok()) {
        window.push_back(chunk);
        pushed += chunk.bytes;
      }
      continue;
    }
    if (window.empty()) break;
    Status status = result.code == Code::kCancelled
                        ? result
                        : FinishReadChunk(window.front(), result.ok(), wait);
    if (status.code == Code::kCancelled) {
      std::lock_guard lock(staging_mutex_);
      given_up_.push_back(window.front());
      result = status;
    }
    window.pop_front();
    if (result.ok()) result = status;
  }
  return result;
}

}  // namespace neurond::client
