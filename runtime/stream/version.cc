#include "runtime/stream/version.h"

namespace neurond {

Version::~Version() {
  if (charged_device_ != nullptr) charged_device_->AddPhysical(-charged_bytes_);
  // A long chain of Versions must not be torn down by recursion.
  VersionPtr next = std::move(previous);
  while (next != nullptr && next.use_count() == 1) {
    VersionPtr after = std::move(next->previous);
    next = std::move(after);
  }
}

void Version::Bind(DeviceBufferPtr buffer, bool good) {
  content = std::move(buffer);
  state = State::kDispatched;
  if (good) BecomeGood();
}

void Version::BecomeGood() {
  state = State::kGood;
  previous.reset();
}

void Version::Fail(RootPtr cause) {
  state = State::kError;
  root = std::move(cause);
  content.reset();
  if (charged_device_ != nullptr) charged_device_->AddPhysical(-charged_bytes_);
  charged_device_ = nullptr;
  charged_bytes_ = 0;
  // Failed Versions between this one and the last good one serve nobody.
  while (previous != nullptr && previous->failed()) {
    VersionPtr before = previous->previous;
    previous = std::move(before);
  }
}

void Version::Charge(Device& device, int64_t bytes) {
  charged_device_ = &device;
  charged_bytes_ = bytes;
  device.AddPhysical(bytes);
}

void Version::PassCharge(Version& heir) {
  heir.charged_device_ = std::exchange(charged_device_, nullptr);
  heir.charged_bytes_ = std::exchange(charged_bytes_, 0);
}

VersionPtr LastGood(const VersionPtr& version) {
  VersionPtr found = version;
  while (found != nullptr && found->failed()) {
    VersionPtr before = found->previous;
    found = std::move(before);
  }
  return found;
}

}  // namespace neurond
