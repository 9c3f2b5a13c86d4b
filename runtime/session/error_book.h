// ErrorBook: the root errors of a Session that its client was not told yet, oldest first.
//
// Bounded: a root that finds it full is counted and not queued; the Versions behind it stay errors,
// so that reading one still raises it.
//
// Thread-safety: the Session's owner thread.

#ifndef NEUROND_RUNTIME_SESSION_ERROR_BOOK_H_
#define NEUROND_RUNTIME_SESSION_ERROR_BOOK_H_

#include <cstdint>
#include <vector>

#include "runtime/stream/version.h"

namespace neurond {

// What a synchronizing call covers.
struct ErrorScope {
  int stream = -1;  // >= 0: that Stream up to `upto_seq`
  int device = -1;  // else, >= 0: that device; else everything
  uint64_t upto_seq = 0;
};

class ErrorBook {
 public:
  // The Command `seq` failed because of `root`. Queues the root unless it was reported already to a
  // client that could know of this Command. True if the number of unreported roots changed.
  bool Note(const RootPtr& root, int stream, int device, uint64_t seq);
  // Queues a root that a reader must see, whether reported or not. True if the number of unreported
  // roots changed.
  bool Raise(const RootPtr& root, int stream, int device, uint64_t seq);
  // The oldest root in scope, now reported; nullptr if there is none. `newest_seq`: the Session's
  // newest Command.
  RootPtr Take(const ErrorScope& scope, uint64_t newest_seq);
  // Marks one root reported.
  void Report(const RootPtr& root, uint64_t newest_seq);

  uint64_t unreported() const { return roots_.size(); }
  int64_t dropped() const { return dropped_; }
  const std::vector<RootPtr>& roots() const { return roots_; }

 private:
  bool Queue(const RootPtr& root);

  std::vector<RootPtr> roots_;  // by the failed Command's sequence number
  int64_t dropped_ = 0;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_SESSION_ERROR_BOOK_H_
