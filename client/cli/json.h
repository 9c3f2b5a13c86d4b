// neurond.v1 messages as JSON for programs. Keys are the proto field names and stay; numbers are
// numbers, never texts.
//
// Thread-safety: pure functions.

#ifndef NEUROND_CLIENT_CLI_JSON_H_
#define NEUROND_CLIENT_CLI_JSON_H_

#include <string>

#include "neurond/v1/device_service.pb.h"

namespace neurond::cli {

// {"devices": [...]}
std::string DevicesJson(const google::protobuf::RepeatedPtrField<v1::Device>& devices);
// {"sessions": [...]}
std::string SessionsJson(const google::protobuf::RepeatedPtrField<v1::Session>& sessions);
// {"executables": [...]}
std::string ExecutablesJson(const google::protobuf::RepeatedPtrField<v1::Executable>& executables);
// {"programs": {...}, "executables": {...}, "workers": {...}, "remote": {...}, "devices": [...],
// "sessions": [...]}
std::string CountersJson(const v1::GetCountersResponse& counters);
// {"version", "build_id", "pid", "start_time_s", "plugin_name", "plugin_fingerprint", "config":
// {...}}
std::string InfoJson(const v1::GetServerInfoResponse& info);

}  // namespace neurond::cli

#endif  // NEUROND_CLIENT_CLI_JSON_H_
