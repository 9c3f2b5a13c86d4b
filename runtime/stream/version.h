// Version: the immutable contents of a Buffer between two writes: a future of a device buffer, or
// an error. Root: the failure behind error Versions.
//
//            +--> kGood        the buffer exists and its producer cannot fail any more
//   kPending-+--> kDispatched  the buffer exists; its producer may still fail (plugins that may
//   fail after dispatch)
//            |       |--> kGood
//            |       +--> kError
//            +--> kError       the producer failed or did not run
//
// Last good content. A Version that is not known good holds on to its predecessor (`previous`), so
// that a Buffer can go back to it. The link is cut when the Version becomes good. The last good
// Version of a Buffer is the first one from its current Version backwards that is no error; there
// is none if the Buffer was made or first written by a Command that failed.
//
// The donation rule. A Command gives the device buffer of a slot that it writes to its Execute
// (which then works in place) if and only if
//   * the Command and the Version that replaces it hold the only references to that Version, and
//   the Version the only one to its device buffer;
//   * the Program has no check, since a failed check must leave the old content; and
//   * the plugin cannot fail after dispatch (DeviceTraits::may_fail_after_dispatch).
// The third is stricter than "inputs are ready": a program may fail by itself, and would then have
// destroyed the content that the Buffer must revert to. A device that may fail late pays with a
// second copy of what it writes; a returned error of Execute donates nothing.
//
// Thread-safety: a Version belongs to its Session's owner thread; a completion thread may only drop
// a reference to it. Lifetime: shared_ptr; the Device outlives it.

#ifndef NEUROND_RUNTIME_STREAM_VERSION_H_
#define NEUROND_RUNTIME_STREAM_VERSION_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/device/device.h"

namespace neurond {

// The first failure that a set of Commands suffers from, and whether the client was told.
struct Root {
  struct Touched {
    int stream = 0;
    uint64_t seq = 0;  // the first Command of that stream which failed because of this root
    int device = 0;
  };
  DeferredErrorPtr error;
  std::vector<Touched> touched;
  bool reported = false;
  bool queued = false;          // in the ErrorBook
  uint64_t reported_after = 0;  // the Session's newest Command when it was last reported
};
using RootPtr = std::shared_ptr<Root>;

struct Version;
using VersionPtr = std::shared_ptr<Version>;

struct Version {
  enum class State : uint8_t { kPending, kDispatched, kGood, kError };

  Version(uint64_t buffer_id, VersionPtr predecessor)
      : buffer_id(buffer_id), previous(std::move(predecessor)) {}
  ~Version();
  Version(const Version&) = delete;
  Version& operator=(const Version&) = delete;

  bool pending() const { return state == State::kPending; }
  bool failed() const { return state == State::kError; }

  // Takes the content. `good`: the producer cannot fail any more.
  void Bind(DeviceBufferPtr content, bool good);
  void BecomeGood();
  void Fail(RootPtr cause);
  // Counts `bytes` of physical memory as this Version's until it dies.
  void Charge(Device& device, int64_t bytes);
  // This Version's memory is `heir`'s from now on (donation).
  void PassCharge(Version& heir);
  int64_t charged_bytes() const { return charged_bytes_; }

  State state = State::kPending;
  const uint64_t buffer_id;
  DeviceBufferPtr content;  // nullptr also for a good Version without elements
  RootPtr root;
  VersionPtr previous;

 private:
  Device* charged_device_ = nullptr;
  int64_t charged_bytes_ = 0;
};

// The first Version from `version` backwards that is no error; nullptr if there is none.
VersionPtr LastGood(const VersionPtr& version);

}  // namespace neurond

#endif  // NEUROND_RUNTIME_STREAM_VERSION_H_
