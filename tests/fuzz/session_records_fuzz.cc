// Records and requests of a client that keeps the frame and breaks everything within it: sequence
// numbers and lengths are put right, so that what the fuzzer changes reaches the Session. Input: a
// row of ring records; a type of 256 and more is a request frame whose payload follows the header.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "server/ring/record_applier.h"
#include "server/ring/request_handler.h"
#include "tests/unit/ring/ring_host.h"

namespace {

using namespace neurond;  // NOLINT: the target is this namespace

constexpr size_t kInputBytesMax = 16 << 10;
constexpr size_t kSequencesMax = 256;

void Check(bool condition) {
  if (!condition) std::abort();
}

struct NoObserver final : SessionObserver {
  void OnCompleted(int, uint64_t) override {}
  void OnUnreported(uint64_t) override {}
  void Wake() override { woken = true; }
  bool woken = false;
};

// One record at the front of `rest`, its header put right; empty if there is none.
std::span<const std::byte> Take(std::span<const uint8_t>& rest, uint64_t seq,
                                std::vector<uint64_t>& copy, ring::RecordHeader* header) {
  if (rest.size() < sizeof(*header)) return {};
  std::memcpy(header, rest.data(), sizeof(*header));
  const size_t most = rest.size() / 8 * 8;
  header->bytes =
      static_cast<uint32_t>(std::clamp<size_t>(header->bytes / 8 * 8, sizeof(*header), most));
  header->seq = seq;
  copy.resize(header->bytes / 8);
  std::memcpy(copy.data(), rest.data(), header->bytes);
  std::memcpy(copy.data(), header, sizeof(*header));
  rest = rest.subspan(header->bytes);
  return {reinterpret_cast<const std::byte*>(copy.data()), header->bytes};
}

ring::RingHost* MakeHost() {
  spdlog::set_level(spdlog::level::off);
  return new ring::RingHost(256 << 10);  // devices so small that no Write takes long
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& host = *MakeHost();
  // Only their first bytes are ever touched.
  static auto* ring_data = static_cast<std::byte*>(std::calloc(ring::kRingBytes, 1));
  static auto* staging = static_cast<std::byte*>(std::calloc(ring::kStagingBytes, 1));
  size = std::min(size, kInputBytesMax);
  std::memcpy(staging, data, size);
  NoObserver observer;
  SessionOptions options;
  options.devices = {0, 1};
  options.streams_max = 8;  // each costs memory, and the fuzzer time
  auto session = MakeSession(host.host.devices, *host.host.programs, observer, options);
  wire::RingReader reader(ring_data);
  ring::RecordApplier applier(*session, reader, staging);
  ring::RequestHandler requests(host.state, *session, options.devices, {0, ""});
  std::span<const uint8_t> rest(data, size);
  std::vector<uint64_t> copy;
  for (uint64_t seq = 1; seq <= kSequencesMax; ++seq) {
    ring::RecordHeader header;
    const auto bytes = Take(rest, seq, copy, &header);
    if (bytes.empty()) break;
    if (header.type >= 256) {
      const auto payload = bytes.subspan(sizeof(header));
      (void)requests.Handle(static_cast<ring::FrameType>(header.type - 256),
                            {reinterpret_cast<const char*>(payload.data()), payload.size()});
    } else if (!applier.Apply(bytes).ok()) {
      break;
    }
    if (observer.woken) session->Pump();
    observer.woken = false;
  }
  session.reset();
  Check(host.host.plugin.live_buffers == 0);
  for (int i = 0; i < host.host.devices.size(); ++i) {
    Check(host.host.devices.at(i).granted_bytes() == 0);
    Check(host.host.devices.at(i).counters().physical_bytes == 0);
    Check(host.host.devices.at(i).counters().inflight == 0);
  }
  std::memset(staging, 0, size);
  return 0;
}
