#include <spdlog/spdlog.h>

#include <ctime>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/session/session_impl.h"

namespace neurond {
namespace {

int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

SessionImpl::SessionImpl(std::vector<Device*> devices, ProgramStore& programs,
                         SessionObserver& observer, SessionOptions options)
    : options_(std::move(options)),
      devices_(std::move(devices)),
      programs_(programs),
      observer_(observer),
      progress_(std::make_shared<Progress>(observer, options_.streams_max, MonotonicNs)),
      blocks_(std::make_shared<HostBlockPool>(kHostPoolIdleBytesMax)),
      buffers_(devices_, options_.memory_bytes_max),
      queues_(options_.streams_max) {}

SessionImpl::~SessionImpl() {
  // Nothing below is touched by completion threads after this; Commands under way delete
  // themselves.
  progress_->Close();
  for (Device* device : devices_) device->Forget(progress_.get());
  for (Command* command : progress_->TakePosted()) delete command;
  for (Command* command : undetermined_) delete command;
  LogUnreported();
}

void SessionImpl::LogUnreported() const {
  if (errors_.unreported() == 0) return;
  const DeferredError& oldest = *errors_.roots().front()->error;
  spdlog::warn("session {} ended with {} unreported errors, the oldest: {} on neuron:{}: {}",
               options_.id, static_cast<int64_t>(errors_.unreported()) + errors_.dropped(),
               oldest.op, oldest.device, oldest.error.message);
}

absl::Status SessionImpl::Alloc(uint64_t id, DType dtype, int64_t elements, int device) {
  if (!IsValid(dtype)) {
    return absl::InvalidArgumentError(Cat("Buffer ", id, ": no dtype ", static_cast<int>(dtype)));
  }
  if (elements <= 0 || elements > kElementsMax) {
    return absl::InvalidArgumentError(
        Cat("Buffer ", id, ": expected 1 to ", kElementsMax, " elements, got ", elements));
  }
  if (device < 0 || device >= static_cast<int>(devices_.size())) {
    return absl::InvalidArgumentError(
        Cat("Buffer ", id, ": the session has ", devices_.size(), " devices, not device ", device));
  }
  if (buffers_.Find(id) != nullptr) {
    return absl::AlreadyExistsError(Cat("Buffer ", id, " exists already"));
  }
  Buffer buffer;
  buffer.dtype = dtype;
  buffer.device = device;
  buffer.elements = elements;
  if (absl::Status status = buffers_.Reserve(device, buffer.bytes()); !status.ok()) return status;
  return buffers_.Add(id, std::move(buffer));
}

absl::Status SessionImpl::Free(uint64_t id) {
  if (!buffers_.Erase(id)) return absl::NotFoundError(Cat("no Buffer ", id));
  return absl::OkStatus();
}

absl::Status SessionImpl::RecordEvent(uint64_t seq, int stream, uint64_t event) {
  if (absl::Status status = CheckStream(stream, seq); !status.ok()) return status;
  progress_->RetireEvent(stream, seq, event);
  return absl::OkStatus();
}

void SessionImpl::Retire(uint64_t seq, int stream) {
  if (CheckStream(stream, seq).ok()) progress_->RetireNow(stream, seq);
}

absl::StatusOr<int64_t> SessionImpl::EventTime(uint64_t event) const {
  if (std::optional<int64_t> time = progress_->EventTime(event)) return *time;
  return absl::NotFoundError(Cat("event ", event, " has not completed"));
}

DeferredErrorPtr SessionImpl::TakeError(int stream, int device, uint64_t upto_seq) {
  const RootPtr root = errors_.Take({stream, device, upto_seq}, newest_seq_);
  if (root == nullptr) return nullptr;
  Revert(*root);
  TellUnreported();
  return root->error;
}

DeferredErrorPtr SessionImpl::TakeBufferError(uint64_t id) {
  const Buffer* buffer = buffers_.Find(id);
  if (buffer == nullptr || buffer->current == nullptr || !buffer->current->failed()) return nullptr;
  const RootPtr root = buffer->current->root;
  errors_.Report(root, newest_seq_);
  Revert(*root);
  TellUnreported();
  return root->error;
}

void SessionImpl::Revert(const Root& root) {
  buffers_.ForEach([&root](uint64_t, Buffer& buffer) {
    if (buffer.current == nullptr || buffer.current->root.get() != &root) return;
    if (VersionPtr good = LastGood(buffer.current)) buffer.current = std::move(good);
  });
}

void SessionImpl::RevertBuffer(Version& failed) {
  Buffer* buffer = buffers_.Find(failed.buffer_id);
  if (buffer == nullptr || buffer->current.get() != &failed) return;
  if (VersionPtr good = LastGood(buffer->current)) buffer->current = std::move(good);
}

void SessionImpl::TellUnreported() {
  unreported_.store(errors_.unreported(), std::memory_order_relaxed);
  observer_.OnUnreported(errors_.unreported());
}

absl::StatusOr<Session::Grant> SessionImpl::ChangeGrant(int device, int64_t delta_bytes) {
  if (device < 0 || device >= static_cast<int>(devices_.size())) {
    return absl::InvalidArgumentError(
        Cat("the session has ", devices_.size(), " devices, not device ", device));
  }
  if (absl::Status status = buffers_.ChangeGrant(device, delta_bytes); !status.ok()) return status;
  return Grant{buffers_.granted(device), buffers_.free_bytes(device), buffers_.total_bytes(device)};
}

SessionCounters SessionImpl::Counters() const {
  SessionCounters counters;
  counters.id = options_.id;
  counters.uid = options_.uid;
  counters.pid = options_.pid;
  counters.tag = options_.tag;
  counters.buffers = buffers_.count();
  counters.buffer_bytes = buffers_.logical_bytes();
  counters.granted_bytes = buffers_.granted_bytes();
  counters.executes = executes_.value();
  counters.writes = writes_.value();
  counters.reads = reads_.value();
  counters.copies = copies_.value();
  counters.bytes_written = bytes_written_.value();
  counters.bytes_read = bytes_read_.value();
  counters.errors = errors_total_.value();
  counters.unreported = static_cast<int64_t>(unreported_.load(std::memory_order_relaxed));
  counters.backlog = progress_->backlog();
  return counters;
}

std::unique_ptr<Session> MakeSession(DeviceSet& devices, ProgramStore& programs,
                                     SessionObserver& observer, SessionOptions options) {
  std::vector<Device*> visible;
  for (int index : options.devices) {
    if (index >= 0 && index < devices.size()) visible.push_back(&devices.at(index));
  }
  return std::make_unique<SessionImpl>(std::move(visible), programs, observer, std::move(options));
}

}  // namespace neurond
