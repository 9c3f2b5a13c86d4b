// Where a user's daemon listens: part of the contract between client and daemon. Header-only, free
// of dependencies.
//
// Thread-safety: functions over the environment and the file system.

#ifndef NEUROND_PROTO_RING_SOCKET_PATH_H_
#define NEUROND_PROTO_RING_SOCKET_PATH_H_

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace neurond::ring {

// $XDG_RUNTIME_DIR/neurond, if that is a directory of ours, else /tmp/neurond-<uid>.
inline std::string DefaultSocketDirectory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat info;
  const bool ours = runtime != nullptr && runtime[0] == '/' && stat(runtime, &info) == 0 &&
                    S_ISDIR(info.st_mode) && info.st_uid == geteuid();
  return ours ? std::string(runtime) + "/neurond" : "/tmp/neurond-" + std::to_string(geteuid());
}

inline std::string DefaultSocketPath() { return DefaultSocketDirectory() + "/neurond.sock"; }

// Makes the directory if it is missing. What is wrong with it, or empty if it is ours and closed to
// others: whoever can write there could put his own daemon in the way.
inline std::string PrivateDirectoryProblem(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return "cannot make the directory " + directory + ": " + std::strerror(errno);
  }
  const std::string name = "the socket directory " + directory;
  struct stat info;
  if (lstat(directory.c_str(), &info) != 0) return name + ": " + std::strerror(errno);
  if (!S_ISDIR(info.st_mode)) return name + " is not a directory";
  if (info.st_uid != geteuid()) {
    return name + " belongs to user " + std::to_string(info.st_uid) + ", not to us (" +
           std::to_string(geteuid()) + ")";
  }
  if ((info.st_mode & 077) != 0) return name + " is open to other users; expected mode 0700";
  return "";
}

// Makes room for a socket: removes one that a dead process left. What lies there instead, or empty.
// Whoever mistypes an address must not lose a file.
inline std::string ClearSocketPath(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return "";  // bind says what else is wrong
  if (!S_ISSOCK(info.st_mode)) return path + " exists and is not a socket; it is left as it is";
  if (unlink(path.c_str()) != 0) return "cannot remove " + path + ": " + std::strerror(errno);
  return "";
}

// The lock that whoever binds, unlinks or replaces the socket holds meanwhile.
inline std::string StartLockPath(const std::string& socket) { return socket + ".start"; }
// The lock that a daemon holds as long as it lives; the file holds its pid.
inline std::string LifeLockPath(const std::string& socket) { return socket + ".lock"; }

}  // namespace neurond::ring

#endif  // NEUROND_PROTO_RING_SOCKET_PATH_H_
