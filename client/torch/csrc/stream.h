// Streams and events. A torch stream id is 0 for a device's default stream, else the ring stream's
// number.
//
// Ring stream i < device_count is the default stream of device i; pool stream k of device d has
// number device_count + k * device_count + d, so that a number modulo device_count is its device.
//
// Thread-safety: the current stream is per thread and device; the rest is safe from any thread.

#ifndef NEUROND_CLIENT_TORCH_CSRC_STREAM_H_
#define NEUROND_CLIENT_TORCH_CSRC_STREAM_H_

#include <c10/core/Stream.h>

#include <cstdint>

#include "client/torch/csrc/runtime.h"

namespace neurond::shim {

// The ring stream that this thread submits to on `device`.
int CurrentRingStream(int device);
int RingStream(const c10::Stream& stream);

c10::Stream CurrentStream(int device);
c10::Stream ExchangeStream(const c10::Stream& stream);
// A stream of the pool, in turn.
c10::Stream NextPoolStream(int device);

bool StreamDone(const c10::Stream& stream);
// Waits, then raises the oldest unreported failure in scope.
void SynchronizeStream(const c10::Stream& stream);
// Waits for all that was submitted, at most kExitWait; raises nothing.
void SettleAtExit(const Link& link);
void SynchronizeDevice(int device);

// What torch's void* event points to.
struct Event {
  uint64_t id = 0;
  uint64_t seq = 0;  // 0: never recorded
  uint32_t epoch = 0;
  int stream = 0;
  int device = 0;
  bool timed = false;
};
void RecordEvent(void** event, const c10::Stream& stream, bool timed);
void BlockOnEvent(void* event, const c10::Stream& stream);
bool EventDone(void* event);
void SynchronizeEvent(void* event);
double ElapsedMs(void* start, void* end);
void DestroyEvent(void* event) noexcept;

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_STREAM_H_
