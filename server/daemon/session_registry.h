// SessionRegistry: every live session of the daemon, whichever way its client came (ring, later
// gRPC Attach).
//
// The front end that runs a session registers it once its client said Hello and removes it before
// the session is destroyed; others list and close sessions here. Closing only asks: the session's
// own thread ends it.
//
// Thread-safety: all methods, from any thread. LiveSession::Counters and Close run under the
// registry's lock, so they must be short and may not call back.

#ifndef NEUROND_SERVER_DAEMON_SESSION_REGISTRY_H_
#define NEUROND_SERVER_DAEMON_SESSION_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/session/session.h"

namespace neurond {

class LiveSession {
 public:
  virtual ~LiveSession() = default;
  virtual SessionCounters Counters() const = 0;
  // Asks the session to end; its client sees `reason`.
  virtual void Close(const std::string& reason) = 0;
};

class SessionRegistry {
 public:
  // `on_change` runs after every Add and Remove, outside the lock, on the caller's thread, with the
  // number of sessions.
  explicit SessionRegistry(std::function<void(int)> on_change = nullptr)
      : on_change_(std::move(on_change)) {}

  // Ids start at 1 and are never reused.
  uint64_t NewId();
  // False, and nothing registered, once Freeze() was called: the daemon is about to end.
  bool Add(uint64_t id, LiveSession* session);
  void Remove(uint64_t id);

  std::vector<SessionCounters> List() const;
  int size() const;
  // False if there is no such session.
  bool Close(uint64_t id, const std::string& reason);
  void CloseAll(const std::string& reason);

  // Admits nobody any more if no session lives, and says whether that is so.
  bool FreezeIfEmpty();
  void Freeze();
  void Unfreeze();

 private:
  const std::function<void(int)> on_change_;
  mutable std::mutex mutex_;
  std::map<uint64_t, LiveSession*> sessions_;
  uint64_t next_id_ = 1;
  bool frozen_ = false;
};

}  // namespace neurond

#endif  // NEUROND_SERVER_DAEMON_SESSION_REGISTRY_H_
