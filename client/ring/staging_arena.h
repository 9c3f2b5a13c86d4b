// StagingArena: which parts of the staging area are in use. Blocks are 64-byte aligned; the lowest
// fitting gap is taken, so that the same, warm pages are used again and again.
//
// A block is given back at once (Release) or when the daemon has consumed a sequence number
// (ReleaseAfter).
//
// Thread-safety: all methods, from any thread; one short lock.

#ifndef NEUROND_CLIENT_RING_STAGING_ARENA_H_
#define NEUROND_CLIENT_RING_STAGING_ARENA_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace neurond::client {

class StagingArena {
 public:
  explicit StagingArena(uint64_t bytes);

  // The offset of a block of at least `bytes`, after taking back what `consumed_seq` frees; nullopt
  // if no gap fits.
  std::optional<uint64_t> TryAcquire(uint64_t bytes, uint64_t consumed_seq);
  void Release(uint64_t offset);
  void ReleaseAfter(uint64_t offset, uint64_t seq);
  // The smallest sequence number that will free a block; 0 if none will.
  uint64_t OldestPending() const;

 private:
  void ReclaimLocked(uint64_t consumed_seq);
  void ReleaseLocked(uint64_t offset);

  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> gaps_;          // offset -> bytes, never adjacent
  std::map<uint64_t, uint64_t> used_;          // offset -> bytes
  std::multimap<uint64_t, uint64_t> pending_;  // seq -> offset
};

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_STAGING_ARENA_H_
