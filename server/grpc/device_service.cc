#include "server/grpc/device_service.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "neurond/v1/device_service.grpc.pb.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "server/grpc/call_gate.h"
#include "server/grpc/status.h"
#include "server/grpc/utf8.h"

namespace neurond {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

template <typename Repeated>
void AddDevices(DeviceSet& devices, Repeated* list) {
  for (int i = 0; i < devices.size(); ++i) {
    Device& device = devices.at(i);
    const DeviceCounters counters = device.counters();
    v1::Device* out = list->Add();
    out->set_index(i);
    out->set_name(device.traits().name);
    out->set_platform(device.traits().platform);
    out->set_memory_bytes(device.memory_bytes());
    out->set_host_memory(device.traits().host_memory);
    out->mutable_counters()->set_executes(counters.executes);
    out->mutable_counters()->set_inflight(counters.inflight);
    out->mutable_counters()->set_gate_waits(counters.gate_waits);
    out->mutable_counters()->set_physical_bytes(counters.physical_bytes);
    out->mutable_counters()->set_granted_bytes(counters.granted_bytes);
  }
}

void SetSession(const SessionCounters& c, v1::Session* out) {
  out->set_id(c.id);
  out->set_uid(c.uid);
  out->set_pid(c.pid);
  out->set_tag(ValidUtf8(c.tag));
  out->set_buffers(c.buffers);
  out->set_buffer_bytes(c.buffer_bytes);
  out->set_granted_bytes(c.granted_bytes);
  out->set_executes(c.executes);
  out->set_writes(c.writes);
  out->set_reads(c.reads);
  out->set_copies(c.copies);
  out->set_bytes_written(c.bytes_written);
  out->set_bytes_read(c.bytes_read);
  out->set_errors(c.errors);
  out->set_unreported(c.unreported);
  out->set_backlog(c.backlog);
}

void SetPrograms(const ProgramStoreCounters& c, v1::ProgramCounters* out) {
  out->set_lowerings(c.lowerings);
  out->set_memory_hits(c.memory_hits);
  out->set_disk_hits(c.disk_hits);
  out->set_alias_hits(c.alias_hits);
  out->set_alias_misses(c.alias_misses);
  out->set_programs(c.programs);
  out->set_refused(c.refused);
}

void SetExecutables(const ExecutableCacheCounters& c, v1::ExecutableCounters* out) {
  out->set_memory_hits(c.memory_hits);
  out->set_disk_hits(c.disk_hits);
  out->set_compiles(c.compiles);
  out->set_compile_failures(c.compile_failures);
  out->set_corrupt_entries(c.corrupt_entries);
  out->set_evictions(c.evictions);
  out->set_entries(c.entries);
  out->set_disk_bytes(c.disk_bytes);
  out->set_disk_entries(c.disk_entries);
  out->set_compile_seconds(c.compile_seconds);
}

void SetWorkers(const WorkerCounters& c, v1::WorkerCounters* out) {
  out->set_workers(c.workers);
  out->set_busy(c.busy);
  out->set_queued(c.queued);
  out->set_started(c.started);
  out->set_crashed(c.crashed);
  out->set_killed(c.killed);
}

void SetRemote(const RemoteCounts& c, v1::RemoteCounters* out) {
  out->set_compiles(c.compiles);
  out->set_executes(c.executes);
  out->set_refused(c.refused);
  out->set_active(c.active);
  out->set_bytes_received(c.bytes_received);
  out->set_bytes_sent(c.bytes_sent);
}

class DeviceService final : public v1::DeviceService::Service {
 public:
  DeviceService(const DaemonState& state, std::function<WorkerCounters()> workers,
                const RemoteCounts& remote, DrainSignal& drain)
      : state_(state), workers_(std::move(workers)), remote_(remote), drain_(drain) {}

  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    const auto age = steady_clock::now() - state_.started;
    const auto started = std::chrono::duration_cast<milliseconds>(
        (std::chrono::system_clock::now() - age).time_since_epoch());
    response->set_version(state_.version);
    response->set_build_id(state_.build_id);
    response->set_pid(getpid());
    response->mutable_start_time()->set_seconds(started.count() / 1000);
    response->mutable_start_time()->set_nanos(started.count() % 1000 * 1'000'000);
    response->set_plugin_name(state_.plugin->name());
    response->set_plugin_fingerprint(state_.plugin->fingerprint());
    auto& config = *response->mutable_config();
    config["socket"] = ValidUtf8(state_.socket);
    config["grpc_address"] = ValidUtf8(state_.grpc_address);
    config["cache_dir"] = ValidUtf8(state_.cache_dir);
    config["log_file"] = ValidUtf8(state_.log_file);
    return grpc::Status::OK;
  }

  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse* response) override {
    AddDevices(*state_.devices, response->mutable_devices());
    return grpc::Status::OK;
  }

  grpc::Status WatchDevices(grpc::ServerContext* context, const v1::WatchDevicesRequest* request,
                            grpc::ServerWriter<v1::WatchDevicesResponse>* writer) override {
    const int asked = request->interval_ms() == 0 ? 1000 : request->interval_ms();
    if (asked < kGrpcWatchIntervalMsMin) {
      return ToGrpc(absl::InvalidArgumentError(
          Cat("interval_ms: expected at least ", kGrpcWatchIntervalMsMin, ", saw ", asked)));
    }
    const CallGate::Permit permit(watchers_);
    if (!permit.held()) {
      return ToGrpc(absl::ResourceExhaustedError(
          Cat("WatchDevices: ", watchers_.calls_max(), " watchers already")));
    }
    std::string sent;
    while (true) {
      v1::WatchDevicesResponse response;
      AddDevices(*state_.devices, response.mutable_devices());
      std::string now = response.SerializeAsString();
      if (now != sent && !writer->Write(response)) return grpc::Status::CANCELLED;
      sent = std::move(now);
      const auto next = steady_clock::now() + milliseconds(asked);
      while (steady_clock::now() < next) {
        if (context->IsCancelled()) return grpc::Status::CANCELLED;
        if (drain_.WaitFor(milliseconds(kGrpcPollMs))) {
          return ToGrpc(absl::UnavailableError("the daemon is ending"));
        }
      }
    }
  }

  grpc::Status ListSessions(grpc::ServerContext*, const v1::ListSessionsRequest*,
                            v1::ListSessionsResponse* response) override {
    for (const SessionCounters& c : state_.sessions->List()) {
      SetSession(c, response->add_sessions());
    }
    return grpc::Status::OK;
  }

  grpc::Status CloseSession(grpc::ServerContext* context, const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse*) override {
    if (absl::Status s = MayChange(*context); !s.ok()) return ToGrpc(s);
    if (!state_.sessions->Close(request->session_id(), "closed by an operator")) {
      return ToGrpc(absl::NotFoundError(Cat("no session ", request->session_id())));
    }
    return grpc::Status::OK;
  }

  grpc::Status ListExecutables(grpc::ServerContext*, const v1::ListExecutablesRequest* request,
                               v1::ListExecutablesResponse* response) override {
    const int asked = request->page_size() == 0 ? 1000 : request->page_size();
    if (asked < 1 || asked > kGrpcPageSizeMax) {
      return ToGrpc(absl::InvalidArgumentError(
          Cat("page_size: expected 0 to ", kGrpcPageSizeMax, ", saw ", request->page_size())));
    }
    std::vector<ExecutableInfo> list = state_.cache->List();
    std::sort(list.begin(), list.end(),
              [](const ExecutableInfo& a, const ExecutableInfo& b) { return a.key < b.key; });
    for (const ExecutableInfo& info : list) {
      if (!request->page_token().empty() && info.key <= request->page_token()) continue;
      if (response->executables_size() == asked) {
        response->set_next_page_token(response->executables(asked - 1).key());
        break;
      }
      v1::Executable* out = response->add_executables();
      out->set_key(info.key);
      out->set_name(ValidUtf8(info.name));
      out->set_serialized_bytes(info.serialized_bytes);
      out->set_compile_seconds(info.compile_seconds);
      out->set_uses(info.uses);
    }
    return grpc::Status::OK;
  }

  grpc::Status ClearExecutables(grpc::ServerContext* context, const v1::ClearExecutablesRequest*,
                                v1::ClearExecutablesResponse* response) override {
    if (absl::Status s = MayChange(*context); !s.ok()) return ToGrpc(s);
    response->set_dropped(state_.cache->Clear());
    return grpc::Status::OK;
  }

  grpc::Status GetCounters(grpc::ServerContext*, const v1::GetCountersRequest*,
                           v1::GetCountersResponse* response) override {
    SetPrograms(state_.programs->counters(), response->mutable_programs());
    SetExecutables(state_.cache->counters(), response->mutable_executables());
    if (workers_) SetWorkers(workers_(), response->mutable_workers());
    SetRemote(remote_, response->mutable_remote());
    AddDevices(*state_.devices, response->mutable_devices());
    for (const SessionCounters& c : state_.sessions->List()) {
      SetSession(c, response->add_sessions());
    }
    return grpc::Status::OK;
  }

  grpc::Status Shutdown(grpc::ServerContext* context, const v1::ShutdownRequest*,
                        v1::ShutdownResponse* response) override {
    if (absl::Status s = MayChange(*context); !s.ok()) return ToGrpc(s);
    response->set_pid(getpid());
    state_.request_stop("asked through gRPC");
    return grpc::Status::OK;
  }

 private:
  // The Unix socket has mode 0600: who comes through it is the daemon's own user, or root.
  static absl::Status MayChange(const grpc::ServerContext& context) {
    if (absl::string_view(context.peer()).substr(0, 5) == "unix:") return absl::OkStatus();
    return absl::PermissionDeniedError(
        Cat("only through the daemon's Unix socket, not from ", context.peer()));
  }

  const DaemonState& state_;
  const std::function<WorkerCounters()> workers_;
  const RemoteCounts& remote_;
  DrainSignal& drain_;
  CallGate watchers_{kGrpcWatchersMax};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeDeviceService(const DaemonState& state,
                                                 std::function<WorkerCounters()> workers,
                                                 const RemoteCounts& remote, DrainSignal& drain) {
  return std::make_unique<DeviceService>(state, std::move(workers), remote, drain);
}

}  // namespace neurond
