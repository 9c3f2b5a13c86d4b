#include "plugins/fake/fake_buffer.h"

namespace neurond::fake {

MemoryCharge MemoryCharge::Take(std::atomic<int64_t>& used, int64_t bytes, int64_t bound) {
  MemoryCharge charge;
  const int64_t now = used += bytes;
  if (bound > 0 && now > bound) {
    used -= bytes;
    return charge;
  }
  charge.used_ = &used;
  charge.bytes_ = bytes;
  return charge;
}

DeviceBufferPtr FakeContent::buffer() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return buffer_;
}

bool FakeContent::pending() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return pending_;
}

Error FakeContent::error() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

void FakeContent::OnResolved(std::function<void()> fn) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (pending_) {
      waiting_.push_back(std::move(fn));
      return;
    }
  }
  fn();
}

void FakeContent::Wait() const {
  std::unique_lock<std::mutex> lock(mutex_);
  resolved_.wait(lock, [this] { return !pending_; });
}

MemoryCharge FakeContent::TakeCharge() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::move(charge_);
}

void FakeContent::SetCharge(MemoryCharge charge) {
  std::lock_guard<std::mutex> lock(mutex_);
  charge_ = std::move(charge);
}

void FakeContent::Finish(DeviceBufferPtr buffer, Error error) {
  std::vector<std::function<void()>> waiting;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_ = false;
    buffer_ = std::move(buffer);
    error_ = std::move(error);
    waiting.swap(waiting_);
    resolved_.notify_all();
  }
  for (const std::function<void()>& fn : waiting) fn();
}

FakeContentPtr FakeBuffer::content() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return content_;
}

void FakeBuffer::Donate() {
  FakeContentPtr donated;
  std::lock_guard<std::mutex> lock(mutex_);
  donated.swap(content_);
}

bool FakeBuffer::IsReady() const {
  const FakeContentPtr content = this->content();
  if (content == nullptr) return true;
  if (content->pending()) return false;
  const DeviceBufferPtr buffer = content->buffer();
  return buffer == nullptr || buffer->IsReady();
}

void FakeBuffer::OnReady(DoneCallback done) {
  const FakeContentPtr content = this->content();
  if (content == nullptr) {
    done({absl::StatusCode::kInvalidArgument, ErrorKind::kRuntime,
          "the buffer has been deleted or donated"});
    return;
  }
  content->OnResolved([content, done = std::move(done)] {
    const DeviceBufferPtr buffer = content->buffer();
    if (buffer == nullptr) {
      done(content->error());
    } else {
      buffer->OnReady(done);
    }
  });
}

}  // namespace neurond::fake
