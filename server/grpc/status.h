// absl::Status as grpc::Status: the codes are the same numbers.
//
// Thread-safety: a pure function.

#ifndef NEUROND_SERVER_GRPC_STATUS_H_
#define NEUROND_SERVER_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace neurond {

// A message travels in a header: gRPC cuts the connection over 8 KiB of them, so long texts are cut
// here.
inline grpc::Status ToGrpc(const absl::Status& status) {
  constexpr size_t kTextMax = 4000;
  if (status.ok()) return grpc::Status::OK;
  std::string text(status.message().substr(0, kTextMax));
  if (status.message().size() > kTextMax) text += " ...";
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::move(text));
}

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_STATUS_H_
