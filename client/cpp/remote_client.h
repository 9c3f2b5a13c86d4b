// RemoteClient: compile and execute Programs on a daemon through gRPC, from C++.
//
//   auto client = RemoteClient::Connect("");
//   auto program = (*client)->CompileModule("matmul", stablehlo_text);
//   auto results = (*client)->Execute(*program, {a, b});
//
// Small tensors travel in one message, larger ones in chunks; the caller does not see which.
//
// Thread-safety: all methods, from any thread.
// Errors: the daemon's Status (see program_service.proto), UNAVAILABLE if it does not answer.

#ifndef NEUROND_CLIENT_CPP_REMOTE_CLIENT_H_
#define NEUROND_CLIENT_CPP_REMOTE_CLIENT_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neurond/v1/device_service.grpc.pb.h"
#include "neurond/v1/program_service.grpc.pb.h"

namespace neurond::client {

struct ExecuteOptions {
  int device = 0;                        // of the daemon
  std::vector<int64_t> words;            // run-time words of a neurond.v1.Program
  std::chrono::milliseconds timeout{0};  // 0: none
};

class RemoteClient {
 public:
  // `address` as for ResolveGrpcAddress. Asks the daemon once, so that a wrong address fails here.
  static absl::StatusOr<std::unique_ptr<RemoteClient>> Connect(const std::string& address);
  explicit RemoteClient(std::shared_ptr<grpc::Channel> channel);

  absl::StatusOr<std::vector<v1::Device>> Devices();
  absl::StatusOr<v1::CompileResponse> CompileModule(const std::string& name,
                                                    const std::string& stablehlo_text);
  absl::StatusOr<v1::CompileResponse> Compile(const v1::CompileRequest& request);
  // `inputs` must have the types of the program's signature; results in its order.
  absl::StatusOr<std::vector<v1::Tensor>> Execute(const v1::CompileResponse& program,
                                                  const std::vector<v1::Tensor>& inputs,
                                                  const ExecuteOptions& options = {});

 private:
  absl::StatusOr<std::vector<v1::Tensor>> ExecuteUnary(const v1::CompileResponse& program,
                                                       const std::vector<v1::Tensor>& inputs,
                                                       const ExecuteOptions& options);
  absl::StatusOr<std::vector<v1::Tensor>> ExecuteStream(const v1::CompileResponse& program,
                                                        const std::vector<v1::Tensor>& inputs,
                                                        const ExecuteOptions& options);

  std::unique_ptr<v1::DeviceService::Stub> devices_;
  std::unique_ptr<v1::ProgramService::Stub> programs_;
};

// grpc::Status as absl::Status: the codes are the same numbers.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_CPP_REMOTE_CLIENT_H_
