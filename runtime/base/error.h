// Errors that cross threads.
//
// absl::Status is not shared between threads in runtime/ (its reference count lives in an
// uninstrumented library, so ThreadSanitizer would be blind); an Error is a plain value, and a
// DeferredError is shared const.

#ifndef NEUROND_RUNTIME_BASE_ERROR_H_
#define NEUROND_RUNTIME_BASE_ERROR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace neurond {

// Which exception a client raises. The numbers are those of ring::ErrorKind.
enum class ErrorKind : uint32_t {
  kRuntime = 0,
  kIndex = 1,
  kOutOfMemory = 2,
  kValue = 3,
  kZeroDivision = 4,
  kLinalg = 5,
};

struct Error {
  absl::StatusCode code = absl::StatusCode::kOk;
  ErrorKind kind = ErrorKind::kRuntime;
  std::string message;

  bool ok() const { return code == absl::StatusCode::kOk; }
  static Error From(const absl::Status& status) {
    return Error{status.code(),
                 status.code() == absl::StatusCode::kResourceExhausted ? ErrorKind::kOutOfMemory
                                                                       : ErrorKind::kRuntime,
                 std::string(status.message())};
  }
  absl::Status ToStatus() const { return absl::Status(code, message); }
};

// The root failure of a Command. Every Version that could not be made because of it points to the
// same object.
struct DeferredError {
  Error error;
  uint64_t seq = 0;     // of the failed Command in its Session
  uint64_t origin = 0;  // the client's id of the submitting line; 0: unknown
  int stream = 0;
  int device = 0;      // index within the Session
  std::string op;      // the Program's name
  std::string detail;  // shapes and dtypes of its inputs
  std::string stack;   // the user's lines, where the Program carries them
};
using DeferredErrorPtr = std::shared_ptr<const DeferredError>;

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_ERROR_H_
