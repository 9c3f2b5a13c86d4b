#include "runtime/session/error_book.h"

#include <algorithm>

#include "runtime/base/limits.h"

namespace neurond {
namespace {

void Touch(Root& root, int stream, int device, uint64_t seq) {
  for (Root::Touched& touched : root.touched) {
    if (touched.stream == stream && touched.device == device) {
      touched.seq = std::min(touched.seq, seq);
      return;
    }
  }
  root.touched.push_back({stream, seq, device});
}

bool InScope(const Root& root, const ErrorScope& scope) {
  if (scope.stream < 0 && scope.device < 0) return true;
  return std::any_of(root.touched.begin(), root.touched.end(), [&](const Root::Touched& touched) {
    return scope.stream >= 0 ? touched.stream == scope.stream && touched.seq <= scope.upto_seq
                             : touched.device == scope.device;
  });
}

}  // namespace

bool ErrorBook::Note(const RootPtr& root, int stream, int device, uint64_t seq) {
  // A Command that was submitted before the report belongs to it. A later one was submitted by
  // somebody who believes that all is well: it must not fail in silence.
  if (root->reported && seq <= root->reported_after) return false;
  return Raise(root, stream, device, seq);
}

bool ErrorBook::Raise(const RootPtr& root, int stream, int device, uint64_t seq) {
  if (root->reported) root->touched.clear();
  root->reported = false;
  Touch(*root, stream, device, seq);
  return !root->queued && Queue(root);
}

bool ErrorBook::Queue(const RootPtr& root) {
  if (static_cast<int>(roots_.size()) >= kUnreportedErrorsMax) {
    ++dropped_;
    return false;
  }
  root->queued = true;
  const auto later = std::upper_bound(
      roots_.begin(), roots_.end(), root,
      [](const RootPtr& a, const RootPtr& b) { return a->error->seq < b->error->seq; });
  roots_.insert(later, root);
  return true;
}

RootPtr ErrorBook::Take(const ErrorScope& scope, uint64_t newest_seq) {
  for (const RootPtr& candidate : roots_) {
    if (!InScope(*candidate, scope)) continue;
    RootPtr root = candidate;
    Report(root, newest_seq);
    return root;
  }
  return nullptr;
}

void ErrorBook::Report(const RootPtr& root, uint64_t newest_seq) {
  root->reported = true;
  root->reported_after = newest_seq;
  if (!root->queued) return;
  root->queued = false;
  roots_.erase(std::find(roots_.begin(), roots_.end(), root));
}

}  // namespace neurond
