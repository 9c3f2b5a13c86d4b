#include "client/torch/csrc/memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>

#include "client/torch/csrc/limits.h"

namespace neurond::shim {
namespace {

std::string Size(int64_t bytes) {
  char text[64];
  const double value = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) {
    std::snprintf(text, sizeof text, "%.2f GiB", value / (1 << 30));
  } else if (bytes >= 1 << 20) {
    std::snprintf(text, sizeof text, "%.2f MiB", value / (1 << 20));
  } else if (bytes >= 1 << 10) {
    std::snprintf(text, sizeof text, "%.2f KiB", value / (1 << 10));
  } else {
    std::snprintf(text, sizeof text, "%lld bytes", static_cast<long long>(bytes));
  }
  return text;
}

}  // namespace

Ledger& Ledger::Get() {
  static Ledger* ledger = new Ledger();
  return *ledger;
}

void Ledger::Grow(const Link& link, int device, int64_t bytes) {
  DeviceMemory& memory = devices_[static_cast<size_t>(device)];
  uint32_t seen = memory.epoch.load();
  if (seen != link.epoch && memory.epoch.compare_exchange_strong(seen, link.epoch)) {
    // Grant and storages of an ended epoch are gone with its daemon.
    memory.reserved.Sub(memory.reserved.current.load());
    memory.bytes.Sub(memory.bytes.current.load());
    memory.count.Sub(memory.count.current.load());
  }
  const int64_t need = memory.bytes.current.load() + bytes - memory.reserved.current.load();
  if (need <= 0) {
    return;
  }
  const int64_t step = (need + kGrantStepBytes - 1) / kGrantStepBytes * kGrantStepBytes;
  int64_t granted = 0, free_bytes = 0, total = 0;
  client::Status status = link.client->ChangeGrant(device, step, &granted, &free_bytes, &total);
  int64_t got = step;
  if (status.code == client::Code::kResourceExhausted) {
    memory.retries.fetch_add(1);
    got = need;
    status = link.client->ChangeGrant(device, need, &granted, &free_bytes, &total);
  }
  if (status.ok()) {
    memory.reserved.Add(got);
    return;
  }
  if (status.code != client::Code::kResourceExhausted) {
    Runtime::Get().Fail(link, status, "the memory grant");
  }
  memory.ooms.fetch_add(1);
  const auto [free_now, total_now] = Info(link, device);
  TORCH_CHECK_WITH(OutOfMemoryError, false, "neuron out of memory. Tried to allocate ", Size(bytes),
                   ". neuron:", device, " has a total capacity of ", Size(total_now), " of which ",
                   Size(free_now), " is free. Of the allocated memory ",
                   Size(memory.bytes.current.load()), " is held by this process. (", status.message,
                   ")");
}

void Ledger::EmptyCache(const Link& link, int device) {
  DeviceMemory& memory = devices_[static_cast<size_t>(device)];
  if (memory.epoch.load() != link.epoch) {
    return;
  }
  const int64_t spare = memory.reserved.current.load() - memory.bytes.current.load();
  if (spare <= 0) {
    return;
  }
  int64_t granted = 0, free_bytes = 0, total = 0;
  memory.reserved.Sub(spare);
  const client::Status status =
      link.client->ChangeGrant(device, -spare, &granted, &free_bytes, &total);
  if (!status.ok()) {
    memory.reserved.Add(spare);
    Runtime::Get().Fail(link, status, "returning a memory grant");
  }
}

std::pair<int64_t, int64_t> Ledger::Info(const Link& link, int device) {
  int64_t granted = 0, free_bytes = 0, total = 0;
  Runtime::Get().Check(link, link.client->ChangeGrant(device, 0, &granted, &free_bytes, &total),
                       "memory info");
  DeviceMemory& memory = devices_[static_cast<size_t>(device)];
  if (memory.epoch.load() == link.epoch) {
    free_bytes +=
        std::max<int64_t>(0, memory.reserved.current.load() - memory.bytes.current.load());
  }
  return {std::min(free_bytes, total), total};
}

}  // namespace neurond::shim
