// BufferTable: the Buffers of a Session by their client-made ids, and what they take of the memory
// grants.
//
// A Buffer is a name for a row of Versions; freeing it drops the name only. Logical bytes (live
// Buffers) are charged against the Session's grant on the device; a charge beyond the grant
// enlarges it if quota and device have room.
//
// Thread-safety: the Session's owner thread, except the totals, which any thread may read.

#ifndef NEUROND_RUNTIME_SESSION_BUFFER_TABLE_H_
#define NEUROND_RUNTIME_SESSION_BUFFER_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "runtime/base/dtype.h"
#include "runtime/base/tally.h"
#include "runtime/device/device.h"
#include "runtime/stream/version.h"

namespace neurond {

struct Buffer {
  DType dtype = DType::kInvalid;
  int device = 0;  // within the Session
  int64_t elements = 0;
  VersionPtr current;        // nullptr: never written
  uint64_t written_seq = 0;  // the newest Command that writes it
  int64_t bytes() const { return elements * DTypeBytes(dtype); }
};

class BufferTable {
 public:
  // `devices`: those visible to the Session. `quota_bytes`: per device; 0: none.
  BufferTable(std::vector<Device*> devices, int64_t quota_bytes);
  ~BufferTable();  // gives the grants back

  // nullptr if there is none. The pointer is good until the next Add or Erase.
  Buffer* Find(uint64_t id) {
    auto it = buffers_.find(id);
    return it == buffers_.end() ? nullptr : &it->second;
  }
  // ALREADY_EXISTS, or RESOURCE_EXHAUSTED if there are too many. The bytes were reserved before.
  absl::Status Add(uint64_t id, Buffer buffer);
  bool Erase(uint64_t id);

  // Charges bytes before Buffers are added. RESOURCE_EXHAUSTED names what was asked, what is free
  // and the device.
  absl::Status Reserve(int device, int64_t bytes);
  absl::Status ChangeGrant(int device, int64_t delta_bytes);
  int64_t granted(int device) const { return accounts_[device].granted; }
  int64_t free_bytes(int device) const;
  int64_t total_bytes(int device) const;

  int64_t count() const { return count_.value(); }
  int64_t logical_bytes() const { return logical_bytes_.value(); }
  int64_t granted_bytes() const { return granted_bytes_.value(); }

  // Calls visit(id, buffer) for every Buffer.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (auto& [id, buffer] : buffers_) visit(id, buffer);
  }
  void Clear();

 private:
  struct Account {
    int64_t granted = 0;
    int64_t used = 0;
  };
  absl::Status Enlarge(int device, int64_t bytes, int64_t asked);

  const std::vector<Device*> devices_;
  const int64_t quota_bytes_;
  std::vector<Account> accounts_;
  absl::flat_hash_map<uint64_t, Buffer> buffers_;
  Tally count_, logical_bytes_, granted_bytes_;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_SESSION_BUFFER_TABLE_H_
