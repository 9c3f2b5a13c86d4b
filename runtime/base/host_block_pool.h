// HostBlockPool: 64-byte-aligned blocks of host memory, recycled.
//
// Uploads are assembled in such a block, which a plugin with host memory then adopts without a
// copy. Fresh pages cost up to ten times what the copy costs, so blocks that come back are kept for
// the next upload, up to a bound. A recycled block holds old bytes of the same session: a user
// overwrites all of it or clears it.
//
// Thread-safety: all methods, from any thread (a plugin gives blocks back from its own threads).
// Lifetime: shared_ptr; a HostBlock keeps its pool alive.

#ifndef NEUROND_RUNTIME_BASE_HOST_BLOCK_POOL_H_
#define NEUROND_RUNTIME_BASE_HOST_BLOCK_POOL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace neurond {

class HostBlockPool;

// One block, given back to its pool on destruction. Empty if the host had no memory.
class HostBlock {
 public:
  HostBlock() = default;
  HostBlock(std::shared_ptr<HostBlockPool> pool, void* data, int64_t capacity)
      : pool_(std::move(pool)), data_(data), capacity_(capacity) {}
  HostBlock(HostBlock&& other) noexcept { *this = std::move(other); }
  HostBlock& operator=(HostBlock&& other) noexcept;
  ~HostBlock() { Reset(); }

  char* data() const { return static_cast<char*>(data_); }
  explicit operator bool() const { return data_ != nullptr; }
  void Reset();
  // Gives the block away: to be called once, from any thread, when nobody uses the bytes any more.
  std::function<void()> Release();

 private:
  std::shared_ptr<HostBlockPool> pool_;
  void* data_ = nullptr;
  int64_t capacity_ = 0;
};

class HostBlockPool : public std::enable_shared_from_this<HostBlockPool> {
 public:
  explicit HostBlockPool(int64_t idle_bytes_max) : idle_bytes_max_(idle_bytes_max) {}
  ~HostBlockPool();

  // At least `bytes` bytes; empty if the host has no memory for it.
  HostBlock Take(int64_t bytes);
  int64_t idle_bytes() const;

 private:
  friend class HostBlock;
  void Give(void* data, int64_t capacity);

  const int64_t idle_bytes_max_;
  mutable std::mutex mutex_;
  int64_t idle_bytes_ = 0;
  std::map<int64_t, std::vector<void*>> idle_;  // by capacity
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_HOST_BLOCK_POOL_H_
