// absl::Status as grpc::Status: the codes are the same numbers. Long texts are cut.
//
// Thread-safety: a pure function.

#ifndef NEUROND_SERVER_GRPC_STATUS_H_
#define NEUROND_SERVER_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string_view>

#include "absl/status/status.h"
#include "runtime/base/text.h"
#include "server/grpc/limits.h"

namespace neurond {

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string_view text(status.message().data(), status.message().size());
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Shortened(text, kGrpcErrorBytesMax));
}

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_STATUS_H_
