#include "client/cli/json.h"

#include <map>
#include <nlohmann/json.hpp>

namespace neurond::cli {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const v1::Device& device) {
  const v1::DeviceCounters& c = device.counters();
  return {{"index", device.index()},
          {"name", device.name()},
          {"platform", device.platform()},
          {"memory_bytes", device.memory_bytes()},
          {"host_memory", device.host_memory()},
          {"granted_bytes", c.granted_bytes()},
          {"physical_bytes", c.physical_bytes()},
          {"executes", c.executes()},
          {"inflight", c.inflight()},
          {"gate_waits", c.gate_waits()}};
}

Json ToJson(const v1::Session& s) {
  return {{"id", s.id()},
          {"uid", s.uid()},
          {"pid", s.pid()},
          {"tag", s.tag()},
          {"buffers", s.buffers()},
          {"buffer_bytes", s.buffer_bytes()},
          {"granted_bytes", s.granted_bytes()},
          {"executes", s.executes()},
          {"writes", s.writes()},
          {"reads", s.reads()},
          {"copies", s.copies()},
          {"bytes_written", s.bytes_written()},
          {"bytes_read", s.bytes_read()},
          {"errors", s.errors()},
          {"unreported", s.unreported()},
          {"backlog", s.backlog()}};
}

Json ToJson(const v1::Executable& e) {
  return {{"key", e.key()},
          {"name", e.name()},
          {"serialized_bytes", e.serialized_bytes()},
          {"compile_seconds", e.compile_seconds()},
          {"uses", e.uses()}};
}

Json ToJson(const v1::ProgramCounters& c) {
  return {{"programs", c.programs()},       {"lowerings", c.lowerings()},
          {"memory_hits", c.memory_hits()}, {"disk_hits", c.disk_hits()},
          {"alias_hits", c.alias_hits()},   {"alias_misses", c.alias_misses()},
          {"refused", c.refused()}};
}

Json ToJson(const v1::ExecutableCounters& c) {
  return {{"memory_hits", c.memory_hits()},
          {"disk_hits", c.disk_hits()},
          {"compiles", c.compiles()},
          {"compile_failures", c.compile_failures()},
          {"corrupt_entries", c.corrupt_entries()},
          {"evictions", c.evictions()},
          {"entries", c.entries()},
          {"disk_bytes", c.disk_bytes()},
          {"disk_entries", c.disk_entries()},
          {"compile_seconds", c.compile_seconds()}};
}

Json ToJson(const v1::WorkerCounters& c) {
  return {{"workers", c.workers()}, {"busy", c.busy()},       {"queued", c.queued()},
          {"started", c.started()}, {"crashed", c.crashed()}, {"killed", c.killed()}};
}

Json ToJson(const v1::RemoteCounters& c) {
  return {{"compiles", c.compiles()},
          {"executes", c.executes()},
          {"refused", c.refused()},
          {"active", c.active()},
          {"bytes_received", c.bytes_received()},
          {"bytes_sent", c.bytes_sent()}};
}

template <typename Messages>
Json ListJson(const Messages& messages) {
  Json list = Json::array();
  for (const auto& message : messages) list.push_back(ToJson(message));
  return list;
}

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string DevicesJson(const google::protobuf::RepeatedPtrField<v1::Device>& devices) {
  return Text({{"devices", ListJson(devices)}});
}

std::string SessionsJson(const google::protobuf::RepeatedPtrField<v1::Session>& sessions) {
  return Text({{"sessions", ListJson(sessions)}});
}

std::string ExecutablesJson(const google::protobuf::RepeatedPtrField<v1::Executable>& executables) {
  return Text({{"executables", ListJson(executables)}});
}

std::string CountersJson(const v1::GetCountersResponse& counters) {
  return Text({{"programs", ToJson(counters.programs())},
               {"executables", ToJson(counters.executables())},
               {"workers", ToJson(counters.workers())},
               {"remote", ToJson(counters.remote())},
               {"devices", ListJson(counters.devices())},
               {"sessions", ListJson(counters.sessions())}});
}

std::string InfoJson(const v1::GetServerInfoResponse& info) {
  const double started = static_cast<double>(info.start_time().seconds()) +
                         static_cast<double>(info.start_time().nanos()) * 1e-9;
  return Text(
      {{"version", info.version()},
       {"build_id", info.build_id()},
       {"pid", info.pid()},
       {"start_time_s", started},
       {"plugin_name", info.plugin_name()},
       {"plugin_fingerprint", info.plugin_fingerprint()},
       {"config", std::map<std::string, std::string>(info.config().begin(), info.config().end())}});
}

}  // namespace neurond::cli
