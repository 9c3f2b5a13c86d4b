// SocketName: the name in the file system under which clients find gRPC's Unix socket.
//
// gRPC removes whatever socket lies under the name that it listens on, when it begins and when it
// ends: another daemon's, if the folder was made anew meanwhile (a logout does that to
// $XDG_RUNTIME_DIR). So gRPC listens on a name of this process's own, and the socket is then
// renamed to the one that clients know; at the end that one goes only if it still is ours.
//
// Thread-safety: none.

#ifndef NEUROND_SERVER_GRPC_SOCKET_NAME_H_
#define NEUROND_SERVER_GRPC_SOCKET_NAME_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace neurond {

class SocketName {
 public:
  // Empty: there is no Unix socket, and every method does nothing.
  explicit SocketName(std::string path);

  // FAILED_PRECONDITION if a name is too long, or what lies under `path` is no socket or one that
  // somebody listens on.
  absl::Status Check() const;
  // Where gRPC is to listen.
  const std::string& own() const { return own_; }
  // Call once gRPC listens.
  absl::Status Publish();
  void Remove();

 private:
  const std::string path_, own_;
  dev_t device_ = 0;
  ino_t inode_ = 0;  // 0: not published
};

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_SOCKET_NAME_H_
