// Where the daemon's socket is, and whether its directory can be trusted.
//
// A socket directory must be ours and closed to others (0700): whoever can write there could put
// his own daemon in our way.
//
// Thread-safety: functions over the file system and the environment.

#ifndef NEUROND_CLIENT_RING_ADDRESS_H_
#define NEUROND_CLIENT_RING_ADDRESS_H_

#include <sys/un.h>

#include <string>

#include "client/ring/client.h"

namespace neurond::client {

// The socket path that `address` ("", "/path", "unix:/path", "unix:///path") stands for, absolute.
// Empty: NEURON_RT_ADDRESS, else DefaultAddress.
Status ResolveAddress(const std::string& address, std::string* path);

// Makes the directory if it is missing. kFailedPrecondition says what is wrong with it.
Status CheckPrivateDirectory(const std::string& directory);

// kInvalidArgument if the path is too long for a socket.
Status SocketAddress(const std::string& path, sockaddr_un* address);

std::string DirectoryOf(const std::string& path);

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_ADDRESS_H_
