// RequestHandler: a client's request frames -> calls of the Session and the daemon's parts -> reply
// payloads.
//
// Thread-safety: the session thread. A returned Status becomes the reply's status; it never ends
// the session.

#ifndef NEUROND_SERVER_RING_REQUEST_HANDLER_H_
#define NEUROND_SERVER_RING_REQUEST_HANDLER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "proto/ring/ring_abi.h"
#include "runtime/session/session.h"
#include "server/daemon/daemon_state.h"

namespace neurond::ring {

class RequestHandler {
 public:
  // Whose keys a session asks for and makes: another user's, or those of another build of the
  // client, it never meets.
  struct AliasOwner {
    uint32_t uid = 0;
    std::string client_build;
  };
  // `devices`: those visible to the session, as indices into the DeviceSet.
  RequestHandler(const DaemonState& state, Session& session, std::vector<int> devices,
                 const AliasOwner& owner);

  // The reply's payload, for a request type that IsRequest.
  absl::StatusOr<std::string> Handle(FrameType type, std::string_view payload);
  static bool IsRequest(FrameType type);

 private:
  absl::StatusOr<std::string> Lookup(std::string_view payload);
  absl::StatusOr<std::string> Define(std::string_view payload);
  absl::StatusOr<std::string> Grant(std::string_view payload);
  absl::StatusOr<std::string> TakeError(std::string_view payload);
  absl::StatusOr<std::string> EventTime(std::string_view payload);
  std::string Devices();
  std::string AliasKey(std::string_view key) const { return alias_prefix_ + std::string(key); }

  const DaemonState& state_;
  Session& session_;
  const std::vector<int> devices_;
  const std::string alias_prefix_;
  // What the client may name by its id as long as it is connected.
  absl::flat_hash_set<StoredProgramPtr> told_;
};

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_REQUEST_HANDLER_H_
