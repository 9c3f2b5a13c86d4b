// Memory of the interpreter's devices: a block, and the buffer that holds it.
//
// Lifetime: a Block lives as long as a buffer or a running program uses it; then its release runs
// (an adopted block goes back to its owner). Thread-safety: all methods, from any thread.

#ifndef NEUROND_PLUGINS_FAKE_INTERPRETER_BUFFER_H_
#define NEUROND_PLUGINS_FAKE_INTERPRETER_BUFFER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/device/plugin.h"

namespace neurond::fake {

class Block {
 public:
  // CLONE: a real device allocates its own memory here.
  static std::shared_ptr<Block> Allocate(int64_t bytes);  // null: out of memory
  Block(char* data, std::function<void()> release) : data_(data), release_(std::move(release)) {}
  ~Block() { release_(); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  char* data() const { return data_; }

 private:
  char* const data_;
  const std::function<void()> release_;
};

class InterpreterBuffer final : public DeviceBuffer {
 public:
  InterpreterBuffer(std::shared_ptr<Block> block, DType dtype, int64_t elements, int device)
      : elements_(elements), device_(device), dtype_(dtype), block_(std::move(block)) {}

  DType dtype() const override { return dtype_; }
  int64_t elements() const override { return elements_; }
  int device() const override { return device_; }
  // CLONE: where work goes on after Execute returned, a buffer is ready when its work is done.
  bool IsReady() const override { return true; }
  void OnReady(DoneCallback done) override { done(Error{}); }

  int64_t bytes() const { return elements_ * DTypeBytes(dtype_); }
  // Null once the buffer was donated.
  std::shared_ptr<Block> block() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return block_;
  }
  std::shared_ptr<Block> Donate() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(block_, nullptr);
  }

 private:
  const int64_t elements_;
  const int device_;
  const DType dtype_;
  mutable std::mutex mutex_;
  std::shared_ptr<Block> block_;
};

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_INTERPRETER_BUFFER_H_
