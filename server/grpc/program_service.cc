#include "server/grpc/program_service.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neurond/v1/program_service.grpc.pb.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "server/grpc/call_gate.h"
#include "server/grpc/remote_execution.h"
#include "server/grpc/stablehlo_module.h"
#include "server/grpc/status.h"
#include "server/grpc/tensor_codec.h"
#include "server/grpc/utf8.h"

namespace neurond {
namespace {

// Bytes of the fields around tensor data in an answer: type, sizes, lengths.
constexpr int64_t kTensorOverheadBytes = 16 + 11 * int64_t{kRankMax};

// Waits until the Executable is there, or the call is cancelled.
absl::Status WaitResolved(const ExecutablePtr& executable, const std::function<bool()>& cancelled) {
  struct Latch {  // shared with the callback, which may outlive this call
    std::mutex mutex;
    std::condition_variable changed;
    bool resolved = false;
  };
  auto latch = std::make_shared<Latch>();
  executable->OnResolved([latch] {
    std::lock_guard lock(latch->mutex);
    latch->resolved = true;
    latch->changed.notify_all();
  });
  std::unique_lock lock(latch->mutex);
  while (!latch->changed.wait_for(lock, std::chrono::milliseconds(kGrpcPollMs),
                                  [&] { return latch->resolved; })) {
    if (cancelled()) return absl::CancelledError("the call was cancelled while it compiled");
  }
  lock.unlock();
  return executable->error().ToStatus();
}

using Stream = grpc::ServerReaderWriter<v1::ExecuteStreamResponse, v1::ExecuteStreamRequest>;

class ProgramService final : public v1::ProgramService::Service {
 public:
  ProgramService(const DaemonState& state, RemoteCounts& counts, DrainSignal& drain)
      : state_(state), counts_(counts), drain_(drain) {}

  grpc::Status Compile(grpc::ServerContext* context, const v1::CompileRequest* request,
                       v1::CompileResponse* response) override {
    ++counts_.compiles;
    return Guarded([&] { return CompileChecked(*context, *request, *response); });
  }

  grpc::Status Execute(grpc::ServerContext* context, const v1::ExecuteRequest* request,
                       v1::ExecuteResponse* response) override {
    ++counts_.executes;
    return Guarded([&] { return ExecuteChecked(*context, *request, *response); });
  }

  grpc::Status ExecuteStream(grpc::ServerContext* context, Stream* stream) override {
    ++counts_.executes;
    return Guarded([&] { return ExecuteStreamChecked(*context, *stream); });
  }

 private:
  template <typename Call>
  grpc::Status Guarded(const Call& call) {
    const CallGate::Permit permit(calls_);
    const UseClock::Use use(*state_.use);
    absl::Status status;
    if (drain_.IsSet()) {
      status = absl::UnavailableError("the daemon is ending");
    } else if (!permit.held()) {
      status = absl::ResourceExhaustedError(
          Cat("ProgramService: ", calls_.calls_max(), " calls run already"));
    } else {
      counts_.active = calls_.active();
      status = call();
    }
    counts_.active = calls_.active() - (permit.held() ? 1 : 0);
    if (!status.ok()) ++counts_.refused;
    return ToGrpc(status);
  }

  absl::Status CompileChecked(const grpc::ServerContext& context, const v1::CompileRequest& request,
                              v1::CompileResponse& response) {
    if (request.name().size() > kProgramNameBytesMax) {
      return absl::InvalidArgumentError(Cat("name: expected at most ", kProgramNameBytesMax,
                                            " bytes, saw ", request.name().size()));
    }
    const absl::StatusOr<StoredProgramPtr> stored = Define(request);
    if (!stored.ok()) return stored.status();
    if ((*stored)->executable != nullptr) {
      const absl::Status s =
          WaitResolved((*stored)->executable, [&] { return context.IsCancelled(); });
      if (!s.ok()) {
        return absl::Status(s.code(),
                            Cat((*stored)->program->name, ": ", std::string(s.message())));
      }
      response.set_executable_key((*stored)->executable->key());
    }
    response.set_program_id((*stored)->id);
    EncodeSignature(SignatureOf(*(*stored)->program), response.mutable_signature());
    return absl::OkStatus();
  }

  absl::StatusOr<StoredProgramPtr> Define(const v1::CompileRequest& request) {
    if (request.source_case() == v1::CompileRequest::kProgram) {
      if (request.has_signature()) {
        return absl::InvalidArgumentError("signature: a Program carries its own");
      }
      return state_.programs->Define(request.program(), state_.decode_program);
    }
    if (request.source_case() == v1::CompileRequest::kStablehloBytecode) {
      return absl::UnimplementedError(
          "stablehlo_bytecode: not read by this daemon yet; send stablehlo_text");
    }
    if (request.source_case() != v1::CompileRequest::kStablehloText) {
      return absl::InvalidArgumentError("source: expected a module or a Program, saw none");
    }
    std::optional<DeclaredTypes> declared;
    if (request.has_signature()) {
      absl::StatusOr<DeclaredTypes> types = DecodeSignature(request.signature());
      if (!types.ok()) return types.status();
      declared = *std::move(types);
    }
    const std::string name = request.name().empty() ? "module" : request.name();
    absl::StatusOr<Program> program = ProgramFromModule(name, request.stablehlo_text(), declared);
    if (!program.ok()) return program.status();
    return state_.programs->DefineModule(*std::move(program));
  }

  absl::StatusOr<std::unique_ptr<RemoteExecution>> Open(grpc::ServerContext& context, uint64_t id,
                                                        int device) {
    const StoredProgramPtr stored = state_.programs->Find(id);
    if (stored == nullptr) return absl::NotFoundError(Cat("no program ", id));
    if (device < 0 || device >= state_.devices->size()) {
      return absl::NotFoundError(
          Cat("no device ", device, ": the daemon has ", state_.devices->size()));
    }
    return std::make_unique<RemoteExecution>(
        state_, stored, device, [&context] { return context.IsCancelled(); },
        [&context] { context.TryCancel(); });
  }

  absl::Status ExecuteChecked(grpc::ServerContext& context, const v1::ExecuteRequest& request,
                              v1::ExecuteResponse& response) {
    absl::StatusOr<std::unique_ptr<RemoteExecution>> opened =
        Open(context, request.program_id(), request.device());
    if (!opened.ok()) return opened.status();
    RemoteExecution& execution = **opened;
    const RemoteSignature& signature = execution.signature();
    if (absl::Status s = CheckInputs(signature.inputs, request.inputs()); !s.ok()) return s;
    int64_t bytes = 0;
    for (const TensorType& type : signature.outputs) {
      bytes += std::min<int64_t>(TensorBytes(type), kGrpcMessageBytesMax) + kTensorOverheadBytes;
    }
    if (bytes > kGrpcMessageBytesMax) {
      return absl::ResourceExhaustedError(Cat("outputs: more than fits one message of ",
                                              kGrpcMessageBytesMax, " bytes; use ExecuteStream"));
    }
    if (absl::Status s = execution.Begin(); !s.ok()) return s;
    for (int i = 0; i < request.inputs_size(); ++i) {
      if (absl::Status s = execution.WriteInput(i, request.inputs(i).data()); !s.ok()) return s;
      counts_.bytes_received += request.inputs(i).data().size();
    }
    const std::vector<int64_t> words(request.words().begin(), request.words().end());
    if (absl::Status s = execution.Run(words); !s.ok()) return s;
    for (int i = 0; i < static_cast<int>(signature.outputs.size()); ++i) {
      const TensorType& type = signature.outputs[i];
      v1::Tensor* tensor = response.add_outputs();
      tensor->set_dtype(static_cast<v1::DType>(type.dtype));
      tensor->mutable_sizes()->Add(type.sizes.begin(), type.sizes.end());
      std::string& data = *tensor->mutable_data();
      data.resize(TensorBytes(type));
      if (absl::Status s = execution.ReadOutput(i, 0, {data.data(), data.size()}); !s.ok()) {
        return s;
      }
      counts_.bytes_sent += data.size();
    }
    return absl::OkStatus();
  }

  absl::Status ExecuteStreamChecked(grpc::ServerContext& context, Stream& stream) {
    v1::ExecuteStreamRequest request;
    if (!stream.Read(&request) || !request.has_start()) {
      return absl::InvalidArgumentError("expected a start message first");
    }
    const v1::ExecuteStart start = request.start();
    absl::StatusOr<std::unique_ptr<RemoteExecution>> opened =
        Open(context, start.program_id(), start.device());
    if (!opened.ok()) return opened.status();
    RemoteExecution& execution = **opened;
    if (absl::Status s = CheckInputTypes(execution.signature().inputs, start.inputs()); !s.ok()) {
      return s;
    }
    if (absl::Status s = execution.Begin(); !s.ok()) return s;
    const auto read = [&] {
      const RemoteExecution::WaitForClient wait(execution);
      return stream.Read(&request);
    };
    while (read()) {
      if (!request.has_chunk()) {
        return absl::InvalidArgumentError("expected a chunk after the start message");
      }
      const v1::Chunk& chunk = request.chunk();
      if (absl::Status s = execution.WriteInput(chunk.tensor(), chunk.data()); !s.ok()) return s;
      counts_.bytes_received += chunk.data().size();
    }
    if (absl::Status s = execution.CheckOpen(); !s.ok()) return s;
    if (context.IsCancelled()) return absl::CancelledError("the call was cancelled");
    const std::vector<int64_t> words(start.words().begin(), start.words().end());
    if (absl::Status s = execution.Run(words); !s.ok()) return s;
    return SendOutputs(execution, stream);
  }

  absl::Status SendOutputs(RemoteExecution& execution, Stream& stream) {
    const absl::Status gone = absl::CancelledError("the client is gone");
    const std::vector<TensorType>& outputs = execution.signature().outputs;
    v1::ExecuteStreamResponse response;
    const auto write = [&] {
      const RemoteExecution::WaitForClient wait(execution);
      return stream.Write(response);
    };
    for (const TensorType& type : outputs) {
      EncodeType(type, response.mutable_start()->add_outputs());
    }
    if (!write()) return gone;
    for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
      const int64_t bytes = TensorBytes(outputs[i]);
      for (int64_t offset = 0; offset < bytes; offset += kGrpcChunkBytes) {
        v1::Chunk& chunk = *response.mutable_chunk();
        chunk.set_tensor(i);
        std::string& data = *chunk.mutable_data();
        data.resize(std::min(kGrpcChunkBytes, bytes - offset));
        const absl::Status s = execution.ReadOutput(i, offset, {data.data(), data.size()});
        if (!s.ok()) return s;
        if (!write()) return gone;
        counts_.bytes_sent += data.size();
      }
    }
    return absl::OkStatus();
  }

  const DaemonState& state_;
  RemoteCounts& counts_;
  DrainSignal& drain_;
  CallGate calls_{kGrpcProgramCallsMax};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeProgramService(const DaemonState& state, RemoteCounts& counts,
                                                  DrainSignal& drain) {
  return std::make_unique<ProgramService>(state, counts, drain);
}

}  // namespace neurond
