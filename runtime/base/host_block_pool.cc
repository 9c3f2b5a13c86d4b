#include "runtime/base/host_block_pool.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <utility>

namespace neurond {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;

// Four sizes per power of two: at most a quarter is wasted, and a few sizes serve a whole model.
int64_t SizeClass(int64_t bytes) {
  if (bytes <= 4096) return 4096;
  const int64_t step = int64_t(std::bit_floor(static_cast<uint64_t>(bytes - 1))) / 4;
  return (bytes + step - 1) / step * step;
}

void* Allocate(int64_t bytes) {
  if (bytes < kHugePage) return std::aligned_alloc(kAlignment, bytes);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);  // a hint: far fewer faults on first touch
  return data;
}

void Deallocate(void* data, int64_t bytes) {
  if (bytes < kHugePage) {
    std::free(data);
  } else {
    munmap(data, bytes);
  }
}

}  // namespace

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::move(other.pool_);
  data_ = std::exchange(other.data_, nullptr);
  capacity_ = std::exchange(other.capacity_, 0);
  return *this;
}

void HostBlock::Reset() {
  if (data_ != nullptr) pool_->Give(std::exchange(data_, nullptr), capacity_);
  pool_.reset();
}

std::function<void()> HostBlock::Release() {
  return [pool = std::move(pool_), data = std::exchange(data_, nullptr), capacity = capacity_] {
    pool->Give(data, capacity);
  };
}

HostBlockPool::~HostBlockPool() {
  for (auto& [capacity, blocks] : idle_) {
    for (void* data : blocks) Deallocate(data, capacity);
  }
}

HostBlock HostBlockPool::Take(int64_t bytes) {
  const int64_t capacity = SizeClass(bytes);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = idle_.find(capacity);
    if (it != idle_.end() && !it->second.empty()) {
      void* data = it->second.back();
      it->second.pop_back();
      idle_bytes_ -= capacity;
      return HostBlock(shared_from_this(), data, capacity);
    }
  }
  void* data = Allocate(capacity);
  return data == nullptr ? HostBlock() : HostBlock(shared_from_this(), data, capacity);
}

int64_t HostBlockPool::idle_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return idle_bytes_;
}

void HostBlockPool::Give(void* data, int64_t capacity) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_bytes_ + capacity <= idle_bytes_max_) {
      idle_[capacity].push_back(data);
      idle_bytes_ += capacity;
      return;
    }
  }
  Deallocate(data, capacity);
}

}  // namespace neurond
