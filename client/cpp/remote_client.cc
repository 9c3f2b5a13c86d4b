#include "client/cpp/remote_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "client/cpp/limits.h"

namespace neurond::client {
namespace {

int64_t Bytes(const v1::TensorType& type) {
  static constexpr int kBytes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16};
  const int dtype = type.dtype();
  int64_t bytes = dtype > 0 && dtype < static_cast<int>(std::size(kBytes)) ? kBytes[dtype] : 0;
  for (const int64_t size : type.sizes()) bytes *= size;
  return bytes;
}

void SetDeadline(const ExecuteOptions& options, grpc::ClientContext& context) {
  if (options.timeout.count() > 0) {
    context.set_deadline(std::chrono::system_clock::now() + options.timeout);
  }
}

using Stream = grpc::ClientReaderWriter<v1::ExecuteStreamRequest, v1::ExecuteStreamResponse>;

// False once the call has ended; its status says why.
bool SendInputs(Stream& stream, const std::vector<v1::Tensor>& inputs) {
  v1::ExecuteStreamRequest request;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& data = inputs[i].data();
    for (size_t offset = 0; offset < data.size(); offset += kChunkBytes) {
      request.mutable_chunk()->set_tensor(static_cast<int>(i));
      request.mutable_chunk()->set_data(data.substr(offset, kChunkBytes));
      if (!stream.Write(request)) return false;
    }
  }
  return stream.WritesDone();
}

absl::Status ReceiveOutputs(Stream& stream, std::vector<v1::Tensor>& outputs) {
  v1::ExecuteStreamResponse response;
  while (stream.Read(&response)) {
    if (response.has_start()) {
      for (const v1::TensorType& type : response.start().outputs()) {
        v1::Tensor& tensor = outputs.emplace_back();
        tensor.set_dtype(type.dtype());
        *tensor.mutable_sizes() = type.sizes();
        tensor.mutable_data()->reserve(Bytes(type));
      }
      continue;
    }
    const int index = response.chunk().tensor();
    if (index < 0 || index >= static_cast<int>(outputs.size())) {
      return absl::InternalError(absl::StrCat("the daemon sent a chunk of output ", index));
    }
    outputs[index].mutable_data()->append(response.chunk().data());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

RemoteClient::RemoteClient(std::shared_ptr<grpc::Channel> channel)
    : devices_(v1::DeviceService::NewStub(channel)),
      programs_(v1::ProgramService::NewStub(channel)) {}

absl::StatusOr<std::unique_ptr<RemoteClient>> RemoteClient::Connect(const std::string& address) {
  const absl::StatusOr<std::string> resolved = ResolveGrpcAddress(address);
  if (!resolved.ok()) return resolved.status();
  auto client = std::make_unique<RemoteClient>(OpenChannel(*resolved));
  if (const auto devices = client->Devices(); !devices.ok()) return devices.status();
  return client;
}

absl::StatusOr<std::vector<v1::Device>> RemoteClient::Devices() {
  grpc::ClientContext context;
  v1::ListDevicesResponse response;
  const grpc::Status status = devices_->ListDevices(&context, {}, &response);
  if (!status.ok()) return FromGrpc(status);
  return std::vector<v1::Device>(response.devices().begin(), response.devices().end());
}

absl::StatusOr<v1::CompileResponse> RemoteClient::CompileModule(const std::string& name,
                                                                const std::string& stablehlo_text) {
  v1::CompileRequest request;
  request.set_name(name);
  request.set_stablehlo_text(stablehlo_text);
  return Compile(request);
}

absl::StatusOr<v1::CompileResponse> RemoteClient::Compile(const v1::CompileRequest& request) {
  grpc::ClientContext context;
  v1::CompileResponse response;
  const grpc::Status status = programs_->Compile(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

absl::StatusOr<std::vector<v1::Tensor>> RemoteClient::Execute(const v1::CompileResponse& program,
                                                              const std::vector<v1::Tensor>& inputs,
                                                              const ExecuteOptions& options) {
  int64_t sent = 0, received = 0;
  for (const v1::Tensor& tensor : inputs) sent += static_cast<int64_t>(tensor.data().size());
  for (const v1::TensorType& type : program.signature().outputs()) received += Bytes(type);
  const size_t tensors = inputs.size() + program.signature().outputs_size();
  const bool unary = std::max(sent, received) <= kUnaryBytesMax && tensors <= kUnaryTensorsMax;
  return unary ? ExecuteUnary(program, inputs, options) : ExecuteStream(program, inputs, options);
}

absl::StatusOr<std::vector<v1::Tensor>> RemoteClient::ExecuteUnary(
    const v1::CompileResponse& program, const std::vector<v1::Tensor>& inputs,
    const ExecuteOptions& options) {
  v1::ExecuteRequest request;
  request.set_program_id(program.program_id());
  request.set_device(options.device);
  for (const v1::Tensor& tensor : inputs) *request.add_inputs() = tensor;
  request.mutable_words()->Add(options.words.begin(), options.words.end());
  grpc::ClientContext context;
  SetDeadline(options, context);
  v1::ExecuteResponse response;
  const grpc::Status status = programs_->Execute(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return std::vector<v1::Tensor>(response.outputs().begin(), response.outputs().end());
}

absl::StatusOr<std::vector<v1::Tensor>> RemoteClient::ExecuteStream(
    const v1::CompileResponse& program, const std::vector<v1::Tensor>& inputs,
    const ExecuteOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  const std::unique_ptr<Stream> stream = programs_->ExecuteStream(&context);
  v1::ExecuteStreamRequest request;
  v1::ExecuteStart& start = *request.mutable_start();
  start.set_program_id(program.program_id());
  start.set_device(options.device);
  start.mutable_words()->Add(options.words.begin(), options.words.end());
  for (const v1::Tensor& tensor : inputs) {
    v1::TensorType* type = start.add_inputs();
    type->set_dtype(tensor.dtype());
    *type->mutable_sizes() = tensor.sizes();
  }
  std::vector<v1::Tensor> outputs;
  if (stream->Write(request) && SendInputs(*stream, inputs)) {
    if (absl::Status s = ReceiveOutputs(*stream, outputs); !s.ok()) {
      context.TryCancel();
      stream->Finish();
      return s;
    }
  }
  const grpc::Status status = stream->Finish();
  if (!status.ok()) return FromGrpc(status);
  for (int i = 0; i < program.signature().outputs_size(); ++i) {
    const int64_t expected = Bytes(program.signature().outputs(i));
    if (i < static_cast<int>(outputs.size()) &&
        static_cast<int64_t>(outputs[i].data().size()) == expected) {
      continue;
    }
    return absl::DataLossError(absl::StrCat("output ", i, ": expected ", expected,
                                            " bytes, the daemon sent fewer or more"));
  }
  return outputs;
}

}  // namespace neurond::client
