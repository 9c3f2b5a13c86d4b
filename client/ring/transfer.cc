// Uploads and downloads through the staging area.
#include <chrono>
#include <cstring>
#include <deque>

#include "client/ring/client_impl.h"
#include "client/ring/limits.h"

namespace neurond::client {

bool ClientImpl::AcquireStaging(uint64_t bytes, WaitScope& wait, uint64_t* offset) {
  for (;;) {
    const uint64_t consumed = areas_->progress()->consumed_seq.load(std::memory_order_acquire);
    if (std::optional<uint64_t> block = staging_.TryAcquire(bytes, consumed)) {
      *offset = *block;
      return true;
    }
    wait.Enter();
    if (const uint64_t seq = staging_.OldestPending(); seq != 0) {
      if (!WaitConsumed(seq, wait)) return false;
      continue;
    }
    // Everything is held by downloads of other threads.
    if (!connection_->Alive()) return false;
    std::unique_lock lock(staging_mutex_);
    staging_released_.wait_for(lock, std::chrono::milliseconds(10));
  }
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
  for (uint64_t done = 0; done < bytes; done += record.bytes) {
    if (window.size() >= kWriteWindowChunks) {
      if (!WaitConsumed(window.front(), wait)) return connection_->DeathStatus();
      window.pop_front();
    }
    record.bytes = std::min(kWriteChunkBytes, bytes - done);
    if (!AcquireStaging(record.bytes, wait, &record.staging_offset)) {
      return connection_->DeathStatus();
    }
    std::memcpy(areas_->staging() + record.staging_offset, source + done, record.bytes);
    record.buffer_offset = offset + done;
    record.flags = done + record.bytes == bytes ? ring::kLastChunk : 0;
    uint64_t number;
    Status status = PushFixed(stream, ring::RecordType::kWrite, record, &number);
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
  if (!AcquireStaging(status_at + sizeof(uint64_t), wait, &chunk->staging)) {
    return connection_->DeathStatus();
  }
  ring::ReadRecord record{};
  record.buffer = buffer;
  record.staging_offset = chunk->staging;
  record.bytes = chunk->bytes;
  record.buffer_offset = offset;
  record.origin = origin;
  Status status = PushFixed(stream, ring::RecordType::kRead, record, &chunk->seq);
  if (!status.ok()) ReleaseStaging(chunk->staging);
  return status;
}

Status ClientImpl::FinishReadChunk(int stream, const ReadChunk& chunk, bool deliver,
                                   WaitScope& wait) {
  // A dead daemon's session writes no more, but its last download might: such a block is never used
  // again.
  if (!WaitStreamCompleted(stream, chunk.seq, wait)) return connection_->DeathStatus();
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
    Status status = FinishReadChunk(stream, window.front(), result.ok(), wait);
    window.pop_front();
    if (result.ok()) result = status;
  }
  return result;
}

}  // namespace neurond::client
