#include "plugins/pjrt/pjrt_buffer.h"

#include <utility>

namespace neurond::pjrt {

PjrtBuffer::~PjrtBuffer() {
  NEUROND_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = buffer_;
  api_.TakeError(api_->PJRT_Buffer_Destroy(&args));
}

PJRT_Event* PjrtBuffer::ReadyEvent(Error& error) const {
  NEUROND_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = buffer_;
  error = api_.TakeError(api_->PJRT_Buffer_ReadyEvent(&args));
  return error.ok() ? args.event : nullptr;
}

bool PjrtBuffer::HasContent() const {
  if (ready_.load(std::memory_order_acquire)) return true;
  Error error;
  PJRT_Event* event = ReadyEvent(error);
  if (!error.ok()) return false;
  if (api_.ConsumeIfOk(event)) {
    ready_.store(true, std::memory_order_release);
    return true;
  }
  api_.Destroy(event);
  return false;
}

bool PjrtBuffer::IsReady() const {
  if (ready_.load(std::memory_order_acquire)) return true;
  Error error;
  PJRT_Event* event = ReadyEvent(error);
  if (event == nullptr) return true;  // failed, or nothing to wait for
  NEUROND_PJRT_ARGS(PJRT_Event_IsReady_Args, args);
  args.event = event;
  const bool asked = api_.TakeError(api_->PJRT_Event_IsReady(&args)).ok();
  api_.Destroy(event);
  return !asked || args.is_ready;
}

void PjrtBuffer::OnReady(DoneCallback done) {
  if (ready_.load(std::memory_order_acquire)) {
    done(Error{});
    return;
  }
  Error error;
  PJRT_Event* event = ReadyEvent(error);
  if (!error.ok()) {
    done(std::move(error));
    return;
  }
  api_.Watch(event, std::move(done));
}

}  // namespace neurond::pjrt
