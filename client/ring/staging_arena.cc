#include "client/ring/staging_arena.h"

#include <iterator>

namespace neurond::client {
namespace {
constexpr uint64_t kAlignment = 64;
}  // namespace

StagingArena::StagingArena(uint64_t bytes) { gaps_.emplace(0, bytes); }

std::optional<uint64_t> StagingArena::TryAcquire(uint64_t bytes, uint64_t consumed_seq) {
  const uint64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::lock_guard lock(mutex_);
  ReclaimLocked(consumed_seq);
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    const auto [offset, room] = *gap;
    if (room < size) continue;
    gaps_.erase(gap);
    if (room > size) gaps_.emplace(offset + size, room - size);
    used_.emplace(offset, size);
    return offset;
  }
  return std::nullopt;
}

void StagingArena::Release(uint64_t offset) {
  std::lock_guard lock(mutex_);
  ReleaseLocked(offset);
}

void StagingArena::ReleaseAfter(uint64_t offset, uint64_t seq) {
  std::lock_guard lock(mutex_);
  pending_.emplace(seq, offset);
}

uint64_t StagingArena::OldestPending() const {
  std::lock_guard lock(mutex_);
  return pending_.empty() ? 0 : pending_.begin()->first;
}

void StagingArena::ReclaimLocked(uint64_t consumed_seq) {
  while (!pending_.empty() && pending_.begin()->first <= consumed_seq) {
    ReleaseLocked(pending_.begin()->second);
    pending_.erase(pending_.begin());
  }
}

void StagingArena::ReleaseLocked(uint64_t offset) {
  auto block = used_.find(offset);
  if (block == used_.end()) return;
  uint64_t begin = block->first, bytes = block->second;
  used_.erase(block);
  auto next = gaps_.lower_bound(begin);
  if (next != gaps_.end() && begin + bytes == next->first) {
    bytes += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      previous->second += bytes;
      return;
    }
  }
  gaps_.emplace(begin, bytes);
}

}  // namespace neurond::client
