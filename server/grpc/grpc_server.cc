#include "server/grpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <sys/stat.h>

#include <mutex>
#include <utility>

#include "grpc/health/v1/health.pb.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "server/grpc/device_service.h"
#include "server/grpc/drain_signal.h"
#include "server/grpc/limits.h"
#include "server/grpc/program_service.h"
#include "server/grpc/socket_name.h"

namespace neurond {
namespace {

class GrpcServerImpl final : public GrpcServer {
 public:
  GrpcServerImpl(const DaemonState& state, GrpcServerOptions options)
      : options_(std::move(options)),
        unix_name_(options_.unix_path),
        device_service_(MakeDeviceService(state, options_.workers, counts_, drain_)),
        program_service_(MakeProgramService(state, counts_, drain_)) {}

  ~GrpcServerImpl() override { Shutdown(std::chrono::milliseconds(0)); }

  absl::Status Start() {
    if (absl::Status s = unix_name_.Check(); !s.ok()) return s;
    // gRPC's own health service has no descriptor; linking this one lets reflection describe it.
    grpc::health::v1::HealthCheckRequest::descriptor();
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    Configure(builder);
    const mode_t before = umask(0177);  // the socket is born with mode 0600
    server_ = builder.BuildAndStart();
    umask(before);
    const bool tcp_failed = !options_.tcp_address.empty() && tcp_port_ == 0;
    const bool unix_failed = !options_.unix_path.empty() && unix_port_ == 0;
    if (server_ == nullptr || tcp_failed || unix_failed) {
      return absl::UnavailableError(
          Cat("gRPC cannot listen on ", options_.unix_path,
              options_.unix_path.empty() || options_.tcp_address.empty() ? "" : " and ",
              options_.tcp_address));
    }
    return unix_name_.Publish();
  }

  void Shutdown(std::chrono::milliseconds deadline) override {
    std::lock_guard lock(shutdown_mutex_);
    if (server_ == nullptr) return;
    server_->GetHealthCheckService()->SetServingStatus(false);
    drain_.Set();
    unix_name_.Remove();
    server_->Shutdown(std::chrono::system_clock::now() + deadline);
    server_.reset();
  }

  int tcp_port() const override { return tcp_port_; }

 private:
  void Configure(grpc::ServerBuilder& builder) {
    // Else a second daemon shares the port without a word.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // A remote client whose machine is gone must not hold its session for hours.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kGrpcKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kGrpcKeepaliveTimeoutMs);
    builder.SetMaxReceiveMessageSize(kGrpcMessageBytesMax);
    builder.SetMaxSendMessageSize(kGrpcMessageBytesMax);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
    grpc::ResourceQuota quota("neurond");
    quota.SetMaxThreads(kGrpcThreadsMax);
    builder.SetResourceQuota(quota);
    const auto credentials = grpc::InsecureServerCredentials();
    if (!options_.unix_path.empty()) {
      builder.AddListeningPort("unix:" + unix_name_.own(), credentials, &unix_port_);
    }
    if (!options_.tcp_address.empty()) {
      builder.AddListeningPort(options_.tcp_address, credentials, &tcp_port_);
    }
    builder.RegisterService(device_service_.get());
    builder.RegisterService(program_service_.get());
  }

  const GrpcServerOptions options_;
  SocketName unix_name_;
  RemoteCounts counts_;
  DrainSignal drain_;
  const std::unique_ptr<grpc::Service> device_service_, program_service_;
  int tcp_port_ = 0, unix_port_ = 0;
  std::mutex shutdown_mutex_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(const DaemonState& state,
                                                            GrpcServerOptions options) {
  auto server = std::make_unique<GrpcServerImpl>(state, std::move(options));
  if (absl::Status s = server->Start(); !s.ok()) return s;
  return server;
}

}  // namespace neurond
