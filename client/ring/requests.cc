// Requests over the socket.
#include <cstring>

#include "client/ring/client_impl.h"

namespace neurond::client {
namespace {

template <class T>
std::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

Status Malformed(const char* what) {
  return {Code::kInternal, std::string("the daemon's ") + what + " reply is malformed"};
}

// Cuts the next `bytes` off `text`; false if there are not so many.
bool Cut(std::string_view& text, uint64_t bytes, std::string* part) {
  if (bytes > text.size()) return false;
  *part = text.substr(0, bytes);
  text.remove_prefix(bytes);
  return true;
}

std::string FixedText(const char* text, size_t size) { return {text, strnlen(text, size)}; }

}  // namespace

Status ClientImpl::RawRequest(ring::FrameType type, std::initializer_list<std::string_view> parts,
                              std::string* reply, GiveUp give_up) {
  if (Status status = Usable(); !status.ok()) return status;
  WaitScope wait(hooks_);
  wait.Enter();
  const uint64_t after_seq = FlushForRequest(wait);
  return connection_->Request(type, after_seq, parts, give_up == GiveUp::kNever ? nullptr : &wait,
                              reply);
}

// The reply's fixed part, and what follows it in *tail (nullptr: nothing may follow).
template <class Reply, class Request>
Status ClientImpl::FixedRequest(ring::FrameType type, const Request& request, Reply* reply,
                                std::string* tail) {
  std::string bytes;
  // An error that nobody took in would be lost: the daemon reports it once.
  const GiveUp give_up =
      type == ring::FrameType::kTakeError ? GiveUp::kNever : GiveUp::kIfInterrupted;
  Status status = RawRequest(type, {Bytes(request)}, &bytes, give_up);
  if (!status.ok()) return status;
  if (bytes.size() < sizeof(Reply) || (tail == nullptr && bytes.size() != sizeof(Reply))) {
    return Malformed("fixed");
  }
  std::memcpy(reply, bytes.data(), sizeof(Reply));
  if (tail != nullptr) *tail = bytes.substr(sizeof(Reply));
  return {};
}

Status ClientImpl::TakeError(int stream, int device, uint64_t upto_seq, uint64_t buffer,
                             bool* found, DeviceError* error) {
  ring::TakeErrorReplyFrame reply{};
  std::string tail;
  Status status =
      FixedRequest(ring::FrameType::kTakeError,
                   ring::TakeErrorFrame{stream, device, upto_seq, buffer}, &reply, &tail);
  if (!status.ok()) return status;
  *found = reply.found != 0;
  if (!*found) return {};
  error->code = reply.code;
  error->kind = static_cast<ring::ErrorKind>(reply.kind);
  error->device = reply.device;
  error->seq = reply.seq;
  error->origin = reply.origin;
  error->remaining = reply.remaining;
  std::string_view rest = tail;
  if (!Cut(rest, reply.op_bytes, &error->op) || !Cut(rest, reply.detail_bytes, &error->detail) ||
      !Cut(rest, reply.stack_bytes, &error->stack) ||
      !Cut(rest, reply.message_bytes, &error->message) || !rest.empty()) {
    return Malformed("TakeError");
  }
  return {};
}

Status ClientImpl::Lookup(std::string_view key, uint64_t* program, std::string* meta) {
  const ring::LookupFrame request{static_cast<uint32_t>(key.size()), 0};
  std::string bytes;
  Status status = RawRequest(ring::FrameType::kLookup, {Bytes(request), key}, &bytes);
  if (!status.ok()) return status;
  ring::LookupReplyFrame reply;
  if (bytes.size() < sizeof(reply)) return Malformed("Lookup");
  std::memcpy(&reply, bytes.data(), sizeof(reply));
  if (bytes.size() != sizeof(reply) + reply.meta_bytes) return Malformed("Lookup");
  *program = reply.program;
  *meta = bytes.substr(sizeof(reply));
  return {};
}

Status ClientImpl::Define(std::string_view key, std::string_view meta,
                          std::string_view program_bytes, uint64_t* program) {
  const ring::DefineFrame request{static_cast<uint32_t>(key.size()),
                                  static_cast<uint32_t>(meta.size()), program_bytes.size()};
  std::string bytes;
  Status status =
      RawRequest(ring::FrameType::kDefine, {Bytes(request), key, meta, program_bytes}, &bytes);
  if (!status.ok()) return status;
  ring::DefineReplyFrame reply;
  if (bytes.size() != sizeof(reply)) return Malformed("Define");
  std::memcpy(&reply, bytes.data(), sizeof(reply));
  *program = reply.program;
  return {};
}

Status ClientImpl::ChangeGrant(int device, int64_t delta_bytes, int64_t* granted,
                               int64_t* free_bytes, int64_t* total) {
  ring::GrantReplyFrame reply{};
  Status status = FixedRequest(ring::FrameType::kGrant,
                               ring::GrantFrame{static_cast<uint32_t>(device), 0, delta_bytes},
                               &reply, nullptr);
  if (!status.ok()) return status;
  if (granted != nullptr) *granted = reply.granted_bytes;
  if (free_bytes != nullptr) *free_bytes = reply.free_bytes;
  if (total != nullptr) *total = reply.total_bytes;
  return {};
}

Status ClientImpl::EventTime(uint64_t event, int64_t* time_ns) {
  ring::EventTimeReplyFrame reply{};
  Status status =
      FixedRequest(ring::FrameType::kEventTime, ring::EventTimeFrame{event}, &reply, nullptr);
  if (status.ok()) *time_ns = reply.time_ns;
  return status;
}

Status ClientImpl::Devices(std::vector<DeviceInfo>* devices) {
  std::string bytes;
  if (Status status = RawRequest(ring::FrameType::kDevices, {}, &bytes); !status.ok())
    return status;
  ring::DevicesReplyFrame reply;
  if (bytes.size() < sizeof(reply)) return Malformed("Devices");
  std::memcpy(&reply, bytes.data(), sizeof(reply));
  if (bytes.size() != sizeof(reply) + uint64_t{reply.count} * sizeof(ring::DeviceFrame)) {
    return Malformed("Devices");
  }
  devices->clear();
  for (uint32_t i = 0; i < reply.count; ++i) {
    ring::DeviceFrame frame;
    std::memcpy(&frame, bytes.data() + sizeof(reply) + i * sizeof(frame), sizeof(frame));
    devices->push_back({FixedText(frame.name, sizeof(frame.name)),
                        FixedText(frame.platform, sizeof(frame.platform)), frame.total_bytes,
                        frame.free_bytes});
  }
  return {};
}

Status ClientImpl::Stats(std::string* json) {
  return RawRequest(ring::FrameType::kStats, {}, json);
}

}  // namespace neurond::client
