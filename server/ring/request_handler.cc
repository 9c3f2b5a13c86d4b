#include "server/ring/request_handler.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/text.h"
#include "server/daemon/stats.h"
#include "server/wire/frame_parser.h"

namespace neurond::ring {
namespace {

template <class T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

template <size_t N>
void PutText(char (&field)[N], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

}  // namespace

RequestHandler::RequestHandler(const DaemonState& state, Session& session, std::vector<int> devices,
                               const AliasOwner& owner)
    : state_(state),
      session_(session),
      devices_(std::move(devices)),
      alias_prefix_(Cat(owner.uid, "\n", owner.client_build, "\n")) {}

bool RequestHandler::IsRequest(FrameType type) {
  switch (type) {
    case FrameType::kLookup:
    case FrameType::kDefine:
    case FrameType::kGrant:
    case FrameType::kTakeError:
    case FrameType::kEventTime:
    case FrameType::kDevices:
    case FrameType::kStats:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<std::string> RequestHandler::Handle(FrameType type, std::string_view payload) {
  switch (type) {
    case FrameType::kLookup:
      return Lookup(payload);
    case FrameType::kDefine:
      return Define(payload);
    case FrameType::kGrant:
      return Grant(payload);
    case FrameType::kTakeError:
      return TakeError(payload);
    case FrameType::kEventTime:
      return EventTime(payload);
    case FrameType::kDevices:
      return Devices();
    case FrameType::kStats:
      return StatsJson(state_);
    default:
      return absl::InternalError("not a request");
  }
}

absl::StatusOr<std::string> RequestHandler::Lookup(std::string_view payload) {
  absl::StatusOr<std::string_view> key = wire::DecodeLookup(payload);
  if (!key.ok()) return key.status();
  absl::StatusOr<ProgramStore::Known> known = state_.programs->Lookup(AliasKey(*key));
  if (!known.ok()) return known.status();
  if (known->program != nullptr) told_.insert(known->program);
  const uint64_t program = known->program == nullptr ? 0 : known->program->id;
  const LookupReplyFrame reply{program, static_cast<uint32_t>(known->meta.size()), 0};
  return Bytes(reply) + known->meta;
}

absl::StatusOr<std::string> RequestHandler::Define(std::string_view payload) {
  absl::StatusOr<wire::Define> define = wire::DecodeDefine(payload);
  if (!define.ok()) return define.status();
  if (define->program.empty() && !define->key.empty()) {
    state_.programs->Remember(AliasKey(define->key), define->meta, nullptr);
    return Bytes(DefineReplyFrame{0});
  }
  absl::StatusOr<StoredProgramPtr> program =
      state_.programs->Define(define->program, state_.decode_program);
  if (!program.ok()) return program.status();
  if (!define->key.empty()) {
    state_.programs->Remember(AliasKey(define->key), define->meta, *program);
  }
  told_.insert(*program);
  return Bytes(DefineReplyFrame{(*program)->id});
}

absl::StatusOr<std::string> RequestHandler::Grant(std::string_view payload) {
  absl::StatusOr<GrantFrame> request = wire::DecodeGrant(payload);
  if (!request.ok()) return request.status();
  if (request->device >= devices_.size()) {
    return absl::InvalidArgumentError("no such device: " + std::to_string(request->device));
  }
  absl::StatusOr<Session::Grant> grant =
      session_.ChangeGrant(static_cast<int>(request->device), request->delta_bytes);
  if (!grant.ok()) return grant.status();
  return Bytes(GrantReplyFrame{grant->granted_bytes, grant->free_bytes, grant->total_bytes});
}

absl::StatusOr<std::string> RequestHandler::TakeError(std::string_view payload) {
  absl::StatusOr<TakeErrorFrame> request = wire::DecodeTakeError(payload);
  if (!request.ok()) return request.status();
  const DeferredErrorPtr root =
      request->buffer != 0
          ? session_.TakeBufferError(request->buffer)
          : session_.TakeError(request->scope_stream, request->device, request->upto_seq);
  TakeErrorReplyFrame reply{};
  reply.remaining = session_.unreported();
  if (root == nullptr) return Bytes(reply);
  reply.found = 1;
  reply.code = static_cast<uint32_t>(root->error.code);
  reply.kind = static_cast<uint32_t>(root->error.kind);
  reply.device = root->device;
  reply.seq = root->seq;
  reply.origin = root->origin;
  reply.op_bytes = static_cast<uint32_t>(root->op.size());
  reply.detail_bytes = static_cast<uint32_t>(root->detail.size());
  reply.stack_bytes = static_cast<uint32_t>(root->stack.size());
  reply.message_bytes = static_cast<uint32_t>(root->error.message.size());
  return Bytes(reply) + root->op + root->detail + root->stack + root->error.message;
}

absl::StatusOr<std::string> RequestHandler::EventTime(std::string_view payload) {
  absl::StatusOr<EventTimeFrame> request = wire::DecodeEventTime(payload);
  if (!request.ok()) return request.status();
  absl::StatusOr<int64_t> time_ns = session_.EventTime(request->event);
  if (!time_ns.ok()) return time_ns.status();
  return Bytes(EventTimeReplyFrame{*time_ns});
}

std::string RequestHandler::Devices() {
  std::string reply = Bytes(DevicesReplyFrame{static_cast<uint32_t>(devices_.size()), 0});
  for (int index : devices_) {
    Device& device = state_.devices->at(index);
    DeviceFrame frame{};
    PutText(frame.name, device.traits().name);
    PutText(frame.platform, device.traits().platform);
    frame.total_bytes = device.memory_bytes();
    frame.free_bytes = std::max<int64_t>(0, device.memory_bytes() - device.granted_bytes());
    reply += Bytes(frame);
  }
  return reply;
}

}  // namespace neurond::ring
