// Tensors, types and signatures between neurond.v1 messages and runtime structs, with the checks on
// what a client sent.
//
// Thread-safety: pure functions. Errors: INVALID_ARGUMENT names the field, what was expected and
// what was seen.

#ifndef NEUROND_SERVER_GRPC_TENSOR_CODEC_H_
#define NEUROND_SERVER_GRPC_TENSOR_CODEC_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neurond/v1/program_service.pb.h"
#include "runtime/program/program.h"
#include "server/grpc/remote_execution.h"

namespace neurond {

void EncodeType(const TensorType& type, v1::TensorType* out);
void EncodeSignature(const RemoteSignature& signature, v1::Signature* out);
absl::StatusOr<DeclaredTypes> DecodeSignature(const v1::Signature& signature);

// Whether `seen` are exactly the inputs that `expected` says, with all their bytes.
absl::Status CheckInputs(const std::vector<TensorType>& expected,
                         const google::protobuf::RepeatedPtrField<v1::Tensor>& seen);
absl::Status CheckInputTypes(const std::vector<TensorType>& expected,
                             const google::protobuf::RepeatedPtrField<v1::TensorType>& seen);

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_TENSOR_CODEC_H_
