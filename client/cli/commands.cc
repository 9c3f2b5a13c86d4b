#include "client/cli/commands.h"

#include <grpcpp/client_context.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "client/cli/json.h"
#include "client/cli/table.h"
#include "client/cpp/channel.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace neurond::cli {
namespace {

// A call's context with the command's deadline.
struct Context : grpc::ClientContext {
  explicit Context(int timeout_s) {
    set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(timeout_s));
  }
};

double SecondsSince(const google::protobuf::Timestamp& time) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count() - static_cast<double>(time.seconds()) -
         static_cast<double>(time.nanos()) * 1e-9;
}

void Row(std::ostream& out, const std::string& name, const std::string& value) {
  out << name << std::string(name.size() < 20 ? 20 - name.size() : 1, ' ') << value << "\n";
}

// A descriptor that becomes readable when the process ends; -1 if there is none (another host's
// daemon, an old kernel).
int OpenPidfd(int pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

Commands::Commands(Options options)
    : options_(std::move(options)),
      channel_(client::OpenChannel(options_.address)),
      stub_(v1::DeviceService::NewStub(channel_)) {}

Commands::~Commands() = default;

int Commands::Fail(const grpc::Status& status) const {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    std::cerr << "neuronctl: no neurond answers at " << options_.address << " ("
              << status.error_message() << ")\n"
              << "A PyTorch process that uses the device \"neuron\" starts one; --address or "
                 "NEURON_RT_GRPC_ADDRESS names another.\n";
    return kExitNoDaemon;
  }
  std::cerr << "neuronctl: " << status.error_message() << "\n";
  return kExitRefused;
}

void Commands::PrintDevices(const google::protobuf::RepeatedPtrField<v1::Device>& devices) const {
  if (options_.json) {
    std::cout << DevicesJson(devices) << std::endl;
    return;
  }
  Table table({{"DEVICE"},
               {"NAME", Align::kLeft},
               {"PLATFORM", Align::kLeft},
               {"MEMORY"},
               {"GRANTED"},
               {"USED"},
               {"EXECUTES"},
               {"RUNNING"},
               {"WAITED"}});
  for (const v1::Device& device : devices) {
    const v1::DeviceCounters& c = device.counters();
    table.Add({std::to_string(device.index()), device.name(), device.platform(),
               device.memory_bytes() == 0 ? "-" : Bytes(device.memory_bytes()),
               Bytes(c.granted_bytes()), Bytes(c.physical_bytes()), Count(c.executes()),
               Count(c.inflight()), Count(c.gate_waits())});
  }
  table.Print(std::cout, options_.colour);
  std::cout.flush();
}

int Commands::Devices() {
  Context context(options_.timeout_s);
  v1::ListDevicesResponse response;
  const grpc::Status status = stub_->ListDevices(&context, {}, &response);
  if (!status.ok()) return Fail(status);
  PrintDevices(response.devices());
  return kExitOk;
}

int Commands::WatchDevices(int interval_ms) {
  grpc::ClientContext context;
  v1::WatchDevicesRequest request;
  request.set_interval_ms(interval_ms);
  const auto reader = stub_->WatchDevices(&context, request);
  v1::WatchDevicesResponse response;
  while (reader->Read(&response)) {
    if (options_.colour) std::cout << "\033[H\033[2J";
    PrintDevices(response.devices());
  }
  return Fail(reader->Finish());
}

void Commands::PrintSessions(
    const google::protobuf::RepeatedPtrField<v1::Session>& sessions) const {
  Table table({{"SESSION"},
               {"UID"},
               {"PID"},
               {"TAG", Align::kLeft},
               {"BUFFERS"},
               {"BYTES"},
               {"GRANTED"},
               {"EXECUTES"},
               {"WRITTEN"},
               {"READ"},
               {"ERRORS"},
               {"BACKLOG"}});
  for (const v1::Session& s : sessions) {
    table.Add({std::to_string(s.id()), std::to_string(s.uid()), std::to_string(s.pid()),
               s.tag().empty() ? "-" : s.tag(), Count(s.buffers()), Bytes(s.buffer_bytes()),
               Bytes(s.granted_bytes()), Count(s.executes()), Bytes(s.bytes_written()),
               Bytes(s.bytes_read()), Count(s.errors()), Count(s.backlog())});
  }
  table.Print(std::cout, options_.colour);
}

int Commands::Sessions() {
  Context context(options_.timeout_s);
  v1::ListSessionsResponse response;
  const grpc::Status status = stub_->ListSessions(&context, {}, &response);
  if (!status.ok()) return Fail(status);
  if (options_.json) {
    std::cout << SessionsJson(response.sessions()) << "\n";
  } else {
    PrintSessions(response.sessions());
  }
  return kExitOk;
}

int Commands::CloseSession(uint64_t id) {
  Context context(options_.timeout_s);
  v1::CloseSessionRequest request;
  request.set_session_id(id);
  v1::CloseSessionResponse response;
  const grpc::Status status = stub_->CloseSession(&context, request, &response);
  if (!status.ok()) return Fail(status);
  if (options_.json) {
    std::cout << "{\"closed\":" << id << "}\n";
  } else {
    std::cout << "session " << id << " closed\n";
  }
  return kExitOk;
}

int Commands::CacheList() {
  v1::ListExecutablesResponse all;
  v1::ListExecutablesRequest request;
  while (true) {
    Context context(options_.timeout_s);
    v1::ListExecutablesResponse page;
    const grpc::Status status = stub_->ListExecutables(&context, request, &page);
    if (!status.ok()) return Fail(status);
    all.mutable_executables()->MergeFrom(page.executables());
    if (page.next_page_token().empty()) break;
    request.set_page_token(page.next_page_token());
  }
  if (options_.json) {
    std::cout << ExecutablesJson(all.executables()) << "\n";
    return kExitOk;
  }
  Table table({{"KEY", Align::kLeft}, {"SIZE"}, {"COMPILED IN"}, {"USES"}, {"NAME", Align::kLeft}});
  for (const v1::Executable& e : all.executables()) {
    table.Add({e.key(), Bytes(e.serialized_bytes()), Duration(e.compile_seconds()), Count(e.uses()),
               e.name()});
  }
  table.Print(std::cout, options_.colour);
  return kExitOk;
}

int Commands::CacheClear() {
  Context context(options_.timeout_s);
  v1::ClearExecutablesResponse response;
  const grpc::Status status = stub_->ClearExecutables(&context, {}, &response);
  if (!status.ok()) return Fail(status);
  if (options_.json) {
    std::cout << "{\"dropped\":" << response.dropped() << "}\n";
  } else {
    std::cout << Count(response.dropped()) << " executables dropped\n";
  }
  return kExitOk;
}

void Commands::PrintCounters(const v1::GetCountersResponse& counters) const {
  const auto heading = [&](const char* text) {
    std::cout << (options_.colour ? "\033[1m" : "") << text << (options_.colour ? "\033[0m" : "")
              << "\n";
  };
  const v1::ProgramCounters& p = counters.programs();
  heading("programs");
  Row(std::cout, "  in memory", Count(p.programs()));
  Row(std::cout, "  lowered", Count(p.lowerings()));
  Row(std::cout, "  found",
      Count(p.memory_hits()) + " in memory, " + Count(p.disk_hits()) + " on disk");
  Row(std::cout, "  keys", Count(p.alias_hits()) + " known, " + Count(p.alias_misses()) + " new");
  Row(std::cout, "  refused", Count(p.refused()));
  const v1::ExecutableCounters& e = counters.executables();
  heading("executables");
  Row(std::cout, "  in memory", Count(e.entries()));
  Row(std::cout, "  on disk", Count(e.disk_entries()) + ", " + Bytes(e.disk_bytes()));
  Row(std::cout, "  compiled",
      Count(e.compiles()) + " in " + Duration(e.compile_seconds()) + ", " +
          Count(e.compile_failures()) + " failed");
  Row(std::cout, "  found",
      Count(e.memory_hits()) + " in memory, " + Count(e.disk_hits()) + " on disk");
  Row(std::cout, "  corrupt, evicted", Count(e.corrupt_entries()) + ", " + Count(e.evictions()));
  const v1::WorkerCounters& w = counters.workers();
  heading("compiler workers");
  Row(std::cout, "  now",
      Count(w.workers()) + ", " + Count(w.busy()) + " busy, " + Count(w.queued()) +
          " compiles queued");
  Row(std::cout, "  ever",
      Count(w.started()) + ", " + Count(w.crashed()) + " crashed, " + Count(w.killed()) +
          " killed");
  const v1::RemoteCounters& r = counters.remote();
  heading("remote calls");
  Row(std::cout, "  compile, execute",
      Count(r.compiles()) + ", " + Count(r.executes()) + ", " + Count(r.refused()) + " refused");
  Row(std::cout, "  tensors",
      Bytes(r.bytes_received()) + " received, " + Bytes(r.bytes_sent()) + " sent");
}

int Commands::Stats() {
  Context context(options_.timeout_s);
  v1::GetCountersResponse response;
  const grpc::Status status = stub_->GetCounters(&context, {}, &response);
  if (!status.ok()) return Fail(status);
  if (options_.json) {
    std::cout << CountersJson(response) << "\n";
    return kExitOk;
  }
  PrintCounters(response);
  std::cout << "\n";
  PrintDevices(response.devices());
  std::cout << "\n";
  PrintSessions(response.sessions());
  return kExitOk;
}

int Commands::Health() {
  namespace health = grpc::health::v1;
  Context context(options_.timeout_s);
  health::HealthCheckResponse response;
  const auto stub = health::Health::NewStub(channel_);
  const grpc::Status status = stub->Check(&context, {}, &response);
  if (!status.ok()) return Fail(status);
  const std::string name = health::HealthCheckResponse::ServingStatus_Name(response.status());
  if (options_.json) {
    std::cout << "{\"status\":\"" << name << "\"}\n";
  } else {
    std::cout << name << "\n";
  }
  return response.status() == health::HealthCheckResponse::SERVING ? kExitOk : kExitNotHealthy;
}

int Commands::Info() {
  Context context(options_.timeout_s);
  v1::GetServerInfoResponse info;
  const grpc::Status status = stub_->GetServerInfo(&context, {}, &info);
  if (!status.ok()) return Fail(status);
  if (options_.json) {
    std::cout << InfoJson(info) << "\n";
    return kExitOk;
  }
  Row(std::cout, "address", options_.address);
  Row(std::cout, "version", info.version());
  Row(std::cout, "build id", info.build_id());
  Row(std::cout, "pid", std::to_string(info.pid()));
  Row(std::cout, "running for", Duration(SecondsSince(info.start_time())));
  Row(std::cout, "plugin", info.plugin_name());
  Row(std::cout, "plugin fingerprint", info.plugin_fingerprint());
  const std::map<std::string, std::string> config(info.config().begin(), info.config().end());
  for (const auto& [name, value] : config) {
    Row(std::cout, name, value.empty() ? "-" : value);
  }
  return kExitOk;
}

int Commands::Stop() {
  Context info_context(options_.timeout_s);
  v1::GetServerInfoResponse info;
  grpc::Status status = stub_->GetServerInfo(&info_context, {}, &info);
  if (!status.ok()) return Fail(status);
  const int pidfd = OpenPidfd(info.pid());  // before it ends, so that its pid is still its own
  Context context(options_.timeout_s);
  v1::ShutdownResponse response;
  status = stub_->Shutdown(&context, {}, &response);
  if (!status.ok()) return Fail(status);
  pollfd ended{pidfd, POLLIN, 0};
  const bool stopped = pidfd >= 0 && poll(&ended, 1, options_.timeout_s * 1000) == 1;
  if (pidfd >= 0) close(pidfd);
  if (options_.json) {
    std::cout << "{\"pid\":" << info.pid() << ",\"stopped\":" << (stopped ? "true" : "false")
              << "}\n";
  } else if (stopped) {
    std::cout << "neurond (pid " << info.pid() << ") has stopped\n";
  } else {
    std::cerr << "neuronctl: neurond (pid " << info.pid() << ") is still ending after "
              << options_.timeout_s << " s\n";
  }
  return stopped ? kExitOk : kExitNotHealthy;
}

}  // namespace neurond::cli
