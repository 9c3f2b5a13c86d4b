#include "client/torch/csrc/stream.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/errors.h"
#include "client/torch/csrc/limits.h"

namespace neurond::shim {
namespace {

thread_local std::array<int16_t, ring::kDevicesMax> current_streams{};  // 0: the default one
std::array<std::atomic<uint32_t>, ring::kDevicesMax> next_pool_stream{};
std::atomic<uint64_t> next_event{1};

c10::Stream MakeStream(int device, int64_t id) {
  return c10::Stream(
      c10::Stream::UNSAFE,
      c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device)), id);
}

int PoolSize(const Link& link) {
  const int room = static_cast<int>(ring::kStreamsMax) / std::max(1, link.device_count) - 1;
  return std::clamp(room, 0, kPoolStreamsMax);
}

Event* Checked(void* event) {
  auto* checked = static_cast<Event*>(event);
  if (checked->seq != 0 && !Runtime::Get().IsLive(checked->epoch)) {
    Runtime::Get().FailEpoch(checked->epoch);
  }
  return checked;
}

}  // namespace

int CurrentRingStream(int device) {
  const int stream = current_streams[static_cast<size_t>(device)];
  return stream == 0 ? device : stream;
}

int RingStream(const c10::Stream& stream) {
  return stream.id() == 0 ? stream.device_index() : static_cast<int>(stream.id());
}

c10::Stream CurrentStream(int device) {
  return MakeStream(device, current_streams[static_cast<size_t>(device)]);
}

c10::Stream ExchangeStream(const c10::Stream& stream) {
  int16_t& current = current_streams[static_cast<size_t>(stream.device_index())];
  const c10::Stream before = MakeStream(stream.device_index(), current);
  current = static_cast<int16_t>(stream.id());
  return before;
}

c10::Stream NextPoolStream(int device) {
  const Link& link = Runtime::Get().Connected();
  CheckDeviceIndex(device);
  const int size = PoolSize(link);
  if (size == 0) {
    return MakeStream(device, 0);
  }
  const auto turn =
      next_pool_stream[static_cast<size_t>(device)].fetch_add(1) % static_cast<uint32_t>(size);
  return MakeStream(device,
                    link.device_count + static_cast<int>(turn) * link.device_count + device);
}

bool StreamDone(const c10::Stream& stream) {
  const Link* link = Runtime::Get().link();
  if (link == nullptr) {
    return true;
  }
  const int ring_stream = RingStream(stream);
  return link->client->completed_seq(ring_stream) >= link->client->last_seq(ring_stream);
}

void SynchronizeStream(const c10::Stream& stream) {
  const Link* link = Runtime::Get().link();
  if (link == nullptr) {
    return;
  }
  const int ring_stream = RingStream(stream);
  const uint64_t last = link->client->last_seq(ring_stream);
  Runtime::Get().Check(*link, link->client->WaitCompleted(ring_stream, last), "synchronize");
  RaiseStreamError(*link, ring_stream, last);
}

void SynchronizeDevice(int device) {
  const Link* link = Runtime::Get().link();
  if (link == nullptr) {
    return;
  }
  CheckDeviceIndex(device);
  for (int stream = device; stream < static_cast<int>(ring::kStreamsMax);
       stream += link->device_count) {
    const uint64_t last = link->client->last_seq(stream);
    if (last != 0) {
      Runtime::Get().Check(*link, link->client->WaitCompleted(stream, last), "synchronize");
    }
  }
  RaiseDeviceError(*link, device);
}

void SettleAtExit(const Link& link) {
  const auto end = std::chrono::steady_clock::now() + kExitWait;
  for (int stream = 0; stream < static_cast<int>(ring::kStreamsMax); ++stream) {
    const uint64_t last = link.client->last_seq(stream);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (last != 0 && !link.client->WaitCompletedFor(stream, last, left)) {
      return;
    }
  }
}

void RecordEvent(void** event, const c10::Stream& stream, bool timed) {
  const Link& link = Runtime::Get().Ready();
  auto* made = static_cast<Event*>(*event);
  if (made == nullptr) {
    made = new Event();
    *event = made;
  }
  uint64_t seq = 0;
  const uint64_t id = next_event.fetch_add(1);
  const int ring_stream = RingStream(stream);
  Runtime::Get().Check(link, link.client->RecordEvent(ring_stream, id, &seq), "recording an event");
  *made = Event{id, seq, link.epoch, ring_stream, stream.device_index(), timed};
}

void BlockOnEvent(void* event, const c10::Stream& stream) {
  if (event == nullptr) {
    return;
  }
  const Event* checked = Checked(event);
  const int ring_stream = RingStream(stream);
  if (checked->seq == 0 || checked->stream == ring_stream) {
    return;  // never recorded, or order is kept anyway
  }
  const Link& link = Runtime::Get().Ready();
  Runtime::Get().Check(link, link.client->WaitStream(ring_stream, checked->stream, checked->seq),
                       "waiting for an event");
}

bool EventDone(void* event) {
  if (event == nullptr) {
    return true;
  }
  const Event* checked = Checked(event);
  return checked->seq == 0 ||
         Runtime::Get().Connected().client->completed_seq(checked->stream) >= checked->seq;
}

void SynchronizeEvent(void* event) {
  if (event == nullptr) {
    return;
  }
  const Event* checked = Checked(event);
  if (checked->seq == 0) {
    return;
  }
  const Link& link = Runtime::Get().Connected();
  Runtime::Get().Check(link, link.client->WaitCompleted(checked->stream, checked->seq),
                       "synchronize");
  RaiseStreamError(link, checked->stream, checked->seq);
}

double ElapsedMs(void* start, void* end) {
  TORCH_CHECK(start != nullptr && end != nullptr && static_cast<Event*>(start)->seq != 0 &&
                  static_cast<Event*>(end)->seq != 0,
              "Both events must be recorded before calculating elapsed time.");
  const Event* first = Checked(start);
  const Event* second = Checked(end);
  TORCH_CHECK(first->timed && second->timed,
              "Both events must be created with argument 'enable_timing=True'.");
  TORCH_CHECK(EventDone(start) && EventDone(end),
              "Both events must be completed before calculating elapsed time.");
  const Link& link = Runtime::Get().Connected();
  int64_t start_ns = 0, end_ns = 0;
  Runtime::Get().Check(link, link.client->EventTime(first->id, &start_ns),
                       "reading an event's time");
  Runtime::Get().Check(link, link.client->EventTime(second->id, &end_ns),
                       "reading an event's time");
  return static_cast<double>(end_ns - start_ns) / 1e6;
}

void DestroyEvent(void* event) noexcept { delete static_cast<Event*>(event); }

}  // namespace neurond::shim
