// PjrtApi: one loaded PJRT C-API library, and what every call to it needs: argument structs with
// their size set, and PJRT_Error turned into our errors and freed.
//
// The API grows by appending: a library older than our header lacks entries at the end
// (PJRT_Api.struct_size tells), a newer one has more. Open() checks the major version and that
// every entry in use is there, and names the one that is not.
//
// Lifetime: the library is never unloaded (its threads and statics may live on), so a PjrtApi may
// outlive its Plugin. Thread-safety: immutable after Open().

#ifndef NEUROND_PLUGINS_PJRT_PJRT_API_H_
#define NEUROND_PLUGINS_PJRT_PJRT_API_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pjrt_c_api.h"
#include "runtime/base/error.h"
#include "runtime/device/plugin.h"

// Declares a zeroed argument struct whose struct_size says which of its fields we know.
#define NEUROND_PJRT_ARGS(type, variable) \
  type variable{};                        \
  variable.struct_size = type##_STRUCT_SIZE

namespace neurond::pjrt {

class PjrtApi {
 public:
  // NOT_FOUND: no such library, or one without GetPjrtApi. FAILED_PRECONDITION: another major
  // version, or a missing entry.
  static absl::StatusOr<PjrtApi> Open(const std::string& path);

  const PJRT_Api* operator->() const { return api_; }
  // "0.115": of the library, not of our header.
  std::string version() const;

  bool can_serialize() const { return can_serialize_; }
  bool can_copy_raw() const { return can_copy_raw_; }
  bool has_memory_stats() const { return has_memory_stats_; }
  bool has_compiled_memory_stats() const { return has_compiled_memory_stats_; }

  // Consumes `error` (null: ok).
  absl::Status Take(PJRT_Error* error) const;
  Error TakeError(PJRT_Error* error) const;
  // True, and `event` consumed, if it is ready without an error (or null): the fast path before
  // Watch.
  bool ConsumeIfOk(PJRT_Event* event) const;
  // Consumes `event`: `done` runs once it is ready, inline if it is.
  void Watch(PJRT_Event* event, DoneCallback done) const;
  void Destroy(PJRT_Event* event) const;
  // Blocks until `event` is ready; does not consume it.
  Error Await(PJRT_Event* event) const;

 private:
  explicit PjrtApi(const PJRT_Api* api);

  const PJRT_Api* api_;
  bool can_serialize_ = false;
  bool can_copy_raw_ = false;
  bool has_memory_stats_ = false;
  bool has_compiled_memory_stats_ = false;
};

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_PJRT_API_H_
