// RingSession's first part: Hello and Retire, before a session exists.
#include <poll.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "runtime/base/text.h"
#include "server/ring/limits.h"
#include "server/ring/ring_session.h"
#include "server/ring/session_settings.h"

namespace neurond::ring {
namespace {

using Clock = std::chrono::steady_clock;

std::string SessionsText(const SessionRegistry& registry) {
  std::vector<int> pids;
  for (const SessionCounters& c : registry.List()) pids.push_back(c.pid);
  return Cat(pids.size(), " session", pids.size() == 1 ? "" : "s", " (pid ", Join(pids, ", "), ")");
}

}  // namespace

bool RingSession::Handshake() {
  const auto deadline = Clock::now() + std::chrono::milliseconds(kHelloTimeoutMs);
  while (!socket_.in().HasFrame()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || closing_.load()) return false;
    Look(static_cast<int>(left.count()), false);
    // A frame may lie before the end of the stream; a Hello without a living peer is nobody's.
    if (over_ || socket_.in().Wanted() > kHelloBytesMax) return false;
  }
  const wire::FrameParser::Frame frame = socket_.in().Front();
  bool made = false;
  if (frame.header.type == static_cast<uint16_t>(FrameType::kHello)) {
    made = OnHello(frame);
  } else if (frame.header.type == static_cast<uint16_t>(FrameType::kRetire)) {
    OnRetire();
  } else {
    socket_.SendError(nullptr, FrameType::kHelloReply,
                      absl::InvalidArgumentError("expected Hello as the first frame"));
  }
  if (made) socket_.in().Pop();
  return made;
}

absl::Status RingSession::CheckVersions(const wire::Hello& hello) const {
  const std::string who = Cat("neurond (pid ", getpid(), ", build ", state_.build_id, ")");
  if (hello.fixed.abi_max < kAbiMin || hello.fixed.abi_min > kAbiMax) {
    return absl::FailedPreconditionError(Cat(who, " speaks ring ABI ", kAbiMin, " to ", kAbiMax,
                                             ", this client ", hello.fixed.abi_min, " to ",
                                             hello.fixed.abi_max));
  }
  if (!hello.build_id.empty() && hello.build_id != state_.build_id) {
    return absl::FailedPreconditionError(
        Cat(who, " is of another build than this client's (", std::string(hello.build_id), ")"));
  }
  return absl::OkStatus();
}

bool RingSession::OnHello(const wire::FrameParser::Frame& frame) {
  absl::StatusOr<wire::Hello> hello = wire::DecodeHello(frame.payload);
  absl::Status status = hello.status();
  if (status.ok()) status = CheckVersions(*hello);
  absl::StatusOr<SessionSettings> settings;
  if (status.ok()) {
    settings = ParseSettings(hello->settings, state_.devices->size());
    status = settings.status();
  }
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<SharedAreas>> areas = SharedAreas::Make();
    status = areas.status();
    if (areas.ok()) areas_ = *std::move(areas);
  }
  if (!status.ok()) {
    spdlog::warn("refused pid {}: {}", peer_.pid, std::string(status.message()));
    socket_.SendError(&frame.header, FrameType::kHelloReply, status);
    return false;
  }
  id_ = state_.sessions->NewId();
  device_count_ = static_cast<int>(settings->devices.size());
  SessionOptions options;
  options.id = id_;
  options.uid = peer_.uid;
  options.pid = peer_.pid;
  options.tag = settings->tag;
  options.devices = settings->devices;
  options.streams_max = kStreamsMax;
  progress_ = std::make_unique<ProgressPublisher>(*areas_);
  session_ = MakeSession(*state_.devices, *state_.programs, *this, std::move(options));
  reader_ = std::make_unique<wire::RingReader>(areas_->ring_data());
  applier_ = std::make_unique<RecordApplier>(*session_, *reader_, areas_->staging());
  requests_ = std::make_unique<RequestHandler>(
      state_, *session_, settings->devices,
      RequestHandler::AliasOwner{peer_.uid, settings->client_build});
  return Greet();
}

bool RingSession::Greet() {
  // A frozen registry: the daemon is ending. The client sees the connection close and looks for
  // another daemon.
  if (!state_.sessions->Add(id_, this)) return false;
  HelloReplyFrame reply{};
  reply.abi = kAbiMax;
  reply.device_count = static_cast<uint16_t>(device_count_);
  reply.daemon_pid = static_cast<uint32_t>(getpid());
  reply.session = id_;
  reply.build_id_bytes = static_cast<uint32_t>(state_.build_id.size());
  const std::string payload =
      std::string(reinterpret_cast<const char*>(&reply), sizeof(reply)) + state_.build_id;
  const int fds[] = {areas_->ring_fd(), areas_->staging_fd(), areas_->progress_fd(),
                     ring_event_.get()};
  if (!socket_.SendWithFds(FrameType::kHelloReply, payload, fds)) {
    state_.sessions->Remove(id_);
    return false;
  }
  areas_->CloseFds();
  spdlog::info("session {} opened by pid {} (uid {})", id_, peer_.pid, peer_.uid);
  return true;
}

void RingSession::OnRetire() {
  if (!state_.sessions->FreezeIfEmpty()) {
    socket_.SendError(
        nullptr, FrameType::kRetireReply,
        absl::FailedPreconditionError(Cat("it still serves ", SessionsText(*state_.sessions),
                                          "; end those, or run `neuronctl stop`")));
    return;
  }
  socket_.SendReply(nullptr, FrameType::kRetireReply, "");
  spdlog::info("replaced: pid {} asks this daemon to end", peer_.pid);
  state_.request_stop("replaced by another build");
  // The open connection tells the client that this daemon has not ended yet.
  pollfd fds[] = {{socket_.fd(), POLLRDHUP, 0}, {own_event_.get(), POLLIN, 0}};
  poll(fds, 2, -1);
}

}  // namespace neurond::ring
