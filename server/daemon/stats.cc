#include "server/daemon/stats.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace neurond {
namespace {

using Json = nlohmann::ordered_json;

Json DeviceJson(Device& device) {
  const DeviceCounters c = device.counters();
  return {{"index", device.index()},
          {"name", device.traits().name},
          {"platform", device.traits().platform},
          {"memory_bytes", device.memory_bytes()},
          {"granted_bytes", c.granted_bytes},
          {"physical_bytes", c.physical_bytes},
          {"executes", c.executes},
          {"inflight", c.inflight},
          {"gate_waits", c.gate_waits}};
}

Json SessionJson(const SessionCounters& c) {
  return {{"id", c.id},
          {"uid", c.uid},
          {"pid", c.pid},
          {"tag", c.tag},
          {"buffers", c.buffers},
          {"buffer_bytes", c.buffer_bytes},
          {"granted_bytes", c.granted_bytes},
          {"executes", c.executes},
          {"writes", c.writes},
          {"reads", c.reads},
          {"copies", c.copies},
          {"bytes_written", c.bytes_written},
          {"bytes_read", c.bytes_read},
          {"errors", c.errors},
          {"unreported", c.unreported},
          {"backlog", c.backlog}};
}

Json ProgramsJson(const ProgramStoreCounters& c) {
  return {{"programs", c.programs},       {"lowerings", c.lowerings},
          {"memory_hits", c.memory_hits}, {"disk_hits", c.disk_hits},
          {"alias_hits", c.alias_hits},   {"alias_misses", c.alias_misses},
          {"refused", c.refused}};
}

Json CacheJson(const ExecutableCacheCounters& c) {
  return {{"memory_hits", c.memory_hits},
          {"disk_hits", c.disk_hits},
          {"compiles", c.compiles},
          {"compile_failures", c.compile_failures},
          {"corrupt_entries", c.corrupt_entries},
          {"evictions", c.evictions},
          {"entries", c.entries},
          {"disk_bytes", c.disk_bytes},
          {"disk_entries", c.disk_entries},
          {"compile_seconds", c.compile_seconds}};
}

}  // namespace

std::string StatsJson(const DaemonState& state) {
  const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - state.started;
  Json json;
  json["daemon"] = {{"pid", getpid()},
                    {"version", state.version},
                    {"build_id", state.build_id},
                    {"socket", state.socket},
                    {"grpc_address", state.grpc_address},
                    {"cache_dir", state.cache_dir},
                    {"plugin", state.plugin->name()},
                    {"uptime_seconds", uptime.count()}};
  json["devices"] = Json::array();
  for (int i = 0; i < state.devices->size(); ++i) {
    json["devices"].push_back(DeviceJson(state.devices->at(i)));
  }
  json["sessions"] = Json::array();
  for (const SessionCounters& c : state.sessions->List())
    json["sessions"].push_back(SessionJson(c));
  json["programs"] = ProgramsJson(state.programs->counters());
  json["executables"] = CacheJson(state.cache->counters());
  // Names and tags come from clients: bytes that are not UTF-8 are replaced, never an exception.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace neurond
