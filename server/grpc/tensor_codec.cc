#include "server/grpc/tensor_codec.h"

#include <algorithm>
#include <string>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond {
namespace {

std::string Text(const TensorType& type) {
  return Cat(IsValid(type.dtype) ? TorchName(type.dtype) : "no dtype", "[", Join(type.sizes, ","),
             "]");
}

// For comparing and printing only: neither dtype nor sizes are checked.
template <typename Message>
TensorType Seen(const Message& message) {
  const int number = message.dtype();
  return {number > 0 && number < kDTypeCount ? static_cast<DType>(number) : DType::kInvalid,
          {message.sizes().begin(), message.sizes().end()}};
}

template <typename Messages>
absl::Status CheckTypes(const std::vector<TensorType>& expected, const Messages& seen) {
  if (static_cast<int>(expected.size()) != seen.size()) {
    return absl::InvalidArgumentError(
        Cat("inputs: expected ", expected.size(), ", saw ", seen.size()));
  }
  for (int i = 0; i < seen.size(); ++i) {
    const auto sizes = seen[i].sizes();
    if (seen[i].dtype() == static_cast<int>(expected[i].dtype) &&
        std::equal(sizes.begin(), sizes.end(), expected[i].sizes.begin(),
                   expected[i].sizes.end())) {
      continue;
    }
    const std::string text =
        sizes.size() > kRankMax ? Cat(sizes.size(), " sizes") : Text(Seen(seen[i]));
    return absl::InvalidArgumentError(
        Cat("input ", i, ": expected ", Text(expected[i]), ", saw ", text));
  }
  return absl::OkStatus();
}

absl::Status DecodeTypes(const char* what,
                         const google::protobuf::RepeatedPtrField<v1::TensorType>& messages,
                         std::vector<TensorType>& types) {
  for (int i = 0; i < messages.size(); ++i) {
    const v1::TensorType& message = messages[i];
    const TensorType type = Seen(message);
    const bool negative =
        std::any_of(type.sizes.begin(), type.sizes.end(), [](int64_t size) { return size < 0; });
    if (!IsValid(type.dtype) || negative || message.sizes_size() > kRankMax) {
      return absl::InvalidArgumentError(
          Cat("signature: ", what, " ", i, ": expected a dtype and at most ", kRankMax,
              " sizes >= 0, saw dtype ", static_cast<int>(message.dtype()), " and ",
              message.sizes_size(), " sizes", negative ? ", one of them negative" : ""));
    }
    types.push_back(type);
  }
  return absl::OkStatus();
}

}  // namespace

void EncodeType(const TensorType& type, v1::TensorType* out) {
  out->set_dtype(static_cast<v1::DType>(type.dtype));
  out->mutable_sizes()->Add(type.sizes.begin(), type.sizes.end());
}

void EncodeSignature(const RemoteSignature& signature, v1::Signature* out) {
  for (const TensorType& type : signature.inputs) EncodeType(type, out->add_inputs());
  for (const TensorType& type : signature.outputs) EncodeType(type, out->add_outputs());
  out->set_word_count(signature.word_count);
}

absl::StatusOr<DeclaredTypes> DecodeSignature(const v1::Signature& signature) {
  DeclaredTypes types;
  if (absl::Status s = DecodeTypes("input", signature.inputs(), types.inputs); !s.ok()) return s;
  if (absl::Status s = DecodeTypes("output", signature.outputs(), types.outputs); !s.ok()) return s;
  if (signature.word_count() != 0) {
    return absl::InvalidArgumentError(
        Cat("signature: word_count: a module takes no words, saw ", signature.word_count()));
  }
  return types;
}

absl::Status CheckInputs(const std::vector<TensorType>& expected,
                         const google::protobuf::RepeatedPtrField<v1::Tensor>& seen) {
  if (absl::Status s = CheckTypes(expected, seen); !s.ok()) return s;
  for (int i = 0; i < seen.size(); ++i) {
    const int64_t bytes = TensorBytes(expected[i]);
    if (static_cast<int64_t>(seen[i].data().size()) == bytes) continue;
    return absl::InvalidArgumentError(Cat("input ", i, ": expected ", bytes, " bytes for ",
                                          Text(expected[i]), ", saw ", seen[i].data().size()));
  }
  return absl::OkStatus();
}

absl::Status CheckInputTypes(const std::vector<TensorType>& expected,
                             const google::protobuf::RepeatedPtrField<v1::TensorType>& seen) {
  return CheckTypes(expected, seen);
}

}  // namespace neurond
