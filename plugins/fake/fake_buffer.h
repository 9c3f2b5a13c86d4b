// FakeBuffer: a buffer of the wrapped plugin, or one that is still to come, or an error.
//
// FakeContent is that future, shared by the buffer, the job that makes it and those that wait for
// it. States: pending -> there | failed, once. MemoryCharge is the content's share of its device's
// memory.
//
// Lifetime: shared_ptr-owned. A donated FakeBuffer has no content.
// Thread-safety: all methods, from any thread. Callbacks run outside the lock, on the thread that
// resolves.

#ifndef NEUROND_PLUGINS_FAKE_FAKE_BUFFER_H_
#define NEUROND_PLUGINS_FAKE_FAKE_BUFFER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/device/plugin.h"

namespace neurond::fake {

class MemoryCharge {
 public:
  MemoryCharge() = default;
  // An empty charge if `used` + `bytes` would pass `bound` (0: none).
  static MemoryCharge Take(std::atomic<int64_t>& used, int64_t bytes, int64_t bound);
  MemoryCharge(MemoryCharge&& other) noexcept
      : used_(std::exchange(other.used_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(used_, other.used_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryCharge() {
    if (used_ != nullptr) *used_ -= bytes_;
  }
  explicit operator bool() const { return used_ != nullptr; }

 private:
  std::atomic<int64_t>* used_ = nullptr;
  int64_t bytes_ = 0;
};

class FakeContent {
 public:
  explicit FakeContent(MemoryCharge charge) : charge_(std::move(charge)) {}

  void Resolve(DeviceBufferPtr buffer) { Finish(std::move(buffer), Error{}); }
  void Fail(Error error) { Finish(nullptr, std::move(error)); }

  // Null while pending or failed.
  DeviceBufferPtr buffer() const;
  bool pending() const;
  Error error() const;
  // Runs `fn` once resolved, inline if so already.
  void OnResolved(std::function<void()> fn);
  // Blocks until resolved.
  void Wait() const;

  MemoryCharge TakeCharge();
  void SetCharge(MemoryCharge charge);

 private:
  void Finish(DeviceBufferPtr buffer, Error error);

  mutable std::mutex mutex_;
  mutable std::condition_variable resolved_;
  bool pending_ = true;
  DeviceBufferPtr buffer_;
  Error error_;
  std::vector<std::function<void()>> waiting_;
  MemoryCharge charge_;
};
using FakeContentPtr = std::shared_ptr<FakeContent>;

class FakeBuffer final : public DeviceBuffer {
 public:
  FakeBuffer(FakeContentPtr content, DType dtype, int64_t elements, int device)
      : elements_(elements), device_(device), dtype_(dtype), content_(std::move(content)) {}

  DType dtype() const override { return dtype_; }
  int64_t elements() const override { return elements_; }
  int device() const override { return device_; }
  bool IsReady() const override;
  void OnReady(DoneCallback done) override;

  int64_t bytes() const { return elements_ * DTypeBytes(dtype_); }
  FakeContentPtr content() const;  // null once donated
  void Donate();

 private:
  const int64_t elements_;
  const int device_;
  const DType dtype_;
  mutable std::mutex mutex_;
  FakeContentPtr content_;
};

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_FAKE_BUFFER_H_
