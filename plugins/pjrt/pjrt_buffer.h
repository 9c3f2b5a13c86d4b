// PjrtBuffer: owns one PJRT_Buffer, with its element type and count kept on our side (asking the
// plugin allocates).
//
// Lifetime: the PjrtPlugin that made it outlives it. A donated buffer's PJRT_Buffer is an empty
// shell; it is destroyed all the same. Thread-safety: all methods, from any thread.

#ifndef NEUROND_PLUGINS_PJRT_PJRT_BUFFER_H_
#define NEUROND_PLUGINS_PJRT_PJRT_BUFFER_H_

#include <atomic>
#include <cstdint>

#include "plugins/pjrt/pjrt_api.h"
#include "runtime/device/plugin.h"

namespace neurond::pjrt {

class PjrtBuffer final : public DeviceBuffer {
 public:
  // Takes `buffer`. `ready`: the content is known to be there.
  PjrtBuffer(const PjrtApi& api, PJRT_Buffer* buffer, DType dtype, int64_t elements, int device,
             bool ready)
      : api_(api),
        buffer_(buffer),
        elements_(elements),
        device_(device),
        dtype_(dtype),
        ready_(ready) {}
  ~PjrtBuffer() override;
  PjrtBuffer(const PjrtBuffer&) = delete;
  PjrtBuffer& operator=(const PjrtBuffer&) = delete;

  DType dtype() const override { return dtype_; }
  int64_t elements() const override { return elements_; }
  int device() const override { return device_; }
  bool IsReady() const override;
  void OnReady(DoneCallback done) override;

  PJRT_Buffer* pjrt() const { return buffer_; }
  int64_t bytes() const { return elements_ * DTypeBytes(dtype_); }
  // Ready and not an error. Once true, stays true (until the buffer is donated).
  bool HasContent() const;

 private:
  // Null if there is none (the error then says why).
  PJRT_Event* ReadyEvent(Error& error) const;

  const PjrtApi& api_;
  PJRT_Buffer* const buffer_;
  const int64_t elements_;
  const int device_;
  const DType dtype_;
  mutable std::atomic<bool> ready_;
};

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_PJRT_BUFFER_H_
