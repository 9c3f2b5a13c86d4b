#include "runtime/session/buffer_table.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond {
namespace {

std::string Readable(int64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes);
  int unit = 0;
  while (amount >= 1024 && unit < 6) {
    amount /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", amount, kUnits[unit]);
  return text;
}

}  // namespace

BufferTable::BufferTable(std::vector<Device*> devices, int64_t quota_bytes)
    : devices_(std::move(devices)), quota_bytes_(quota_bytes), accounts_(devices_.size()) {}

BufferTable::~BufferTable() {
  for (size_t i = 0; i < devices_.size(); ++i) devices_[i]->Grant(-accounts_[i].granted);
}

absl::Status BufferTable::Add(uint64_t id, Buffer buffer) {
  if (static_cast<int64_t>(buffers_.size()) >= kSessionBuffersMax) {
    return absl::ResourceExhaustedError(
        Cat("a session may hold ", kSessionBuffersMax, " Buffers at once"));
  }
  const int64_t bytes = buffer.bytes();
  if (!buffers_.try_emplace(id, std::move(buffer)).second) {
    return absl::AlreadyExistsError(Cat("Buffer ", id, " exists already"));
  }
  count_.Add(1);
  logical_bytes_.Add(bytes);
  return absl::OkStatus();
}

bool BufferTable::Erase(uint64_t id) {
  auto it = buffers_.find(id);
  if (it == buffers_.end()) return false;
  const int64_t bytes = it->second.bytes();
  accounts_[it->second.device].used -= bytes;
  const VersionPtr last = std::move(it->second.current);  // dies when the table is whole again
  buffers_.erase(it);
  count_.Add(-1);
  logical_bytes_.Add(-bytes);
  return true;
}

void BufferTable::Clear() {
  absl::flat_hash_map<uint64_t, Buffer> dropped = std::move(buffers_);
  buffers_.clear();
  for (Account& account : accounts_) account.used = 0;
  count_.Add(-count());
  logical_bytes_.Add(-logical_bytes());
}

absl::Status BufferTable::Reserve(int device, int64_t bytes) {
  Account& account = accounts_[device];
  if (bytes > account.granted - account.used) {
    const int64_t missing = bytes - (account.granted - account.used);
    if (absl::Status status = Enlarge(device, missing, bytes); !status.ok()) return status;
  }
  account.used += bytes;
  return absl::OkStatus();
}

absl::Status BufferTable::ChangeGrant(int device, int64_t delta_bytes) {
  if (delta_bytes >= 0) return Enlarge(device, delta_bytes, delta_bytes);
  Account& account = accounts_[device];
  // What Buffers use stays granted. Compared as negative numbers: the smallest one has no negation.
  const int64_t returned = -std::max(delta_bytes, account.used - account.granted);
  devices_[device]->Grant(-returned);
  account.granted -= returned;
  granted_bytes_.Add(-returned);
  return absl::OkStatus();
}

absl::Status BufferTable::Enlarge(int device, int64_t bytes, int64_t asked) {
  Account& account = accounts_[device];
  if (bytes > free_bytes(device) || !devices_[device]->Grant(bytes)) {
    return absl::ResourceExhaustedError(
        Cat("neuron out of memory. Tried to allocate ", Readable(asked), ". Device neuron:", device,
            " has a total capacity of ", Readable(total_bytes(device)), " of which ",
            Readable(free_bytes(device)), " is free. This session holds ", Readable(account.used),
            " in Buffers."));
  }
  account.granted += bytes;
  granted_bytes_.Add(bytes);
  return absl::OkStatus();
}

int64_t BufferTable::total_bytes(int device) const {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const int64_t bound =
      devices_[device]->memory_bytes() > 0 ? devices_[device]->memory_bytes() : kNone;
  return quota_bytes_ > 0 ? std::min(quota_bytes_, bound) : bound;
}

int64_t BufferTable::free_bytes(int device) const {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const int64_t bound =
      devices_[device]->memory_bytes() > 0 ? devices_[device]->memory_bytes() : kNone;
  int64_t free = std::max<int64_t>(bound - devices_[device]->granted_bytes(), 0);
  if (quota_bytes_ > 0) {
    free = std::min(free, std::max<int64_t>(quota_bytes_ - accounts_[device].granted, 0));
  }
  return free;
}

}  // namespace neurond
