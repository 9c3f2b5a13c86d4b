#include "server/grpc/socket_name.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/ring/fd.h"

namespace neurond {
namespace {

namespace fs = std::filesystem;

class SocketNameTest : public testing::Test {
 protected:
  SocketNameTest() {
    char name[] = "/tmp/neurond-name-XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ + "/grpc.sock";
  }
  ~SocketNameTest() override { fs::remove_all(directory_); }
  static Fd Listen(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd.get(), 1), 0);
    return fd;
  }
  std::string directory_, path_;
};

TEST_F(SocketNameTest, IsThereFromPublishToRemove) {
  SocketName name(path_);
  ASSERT_TRUE(name.Check().ok());
  const Fd listener = Listen(name.own());
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(name.Publish().ok());
  EXPECT_TRUE(fs::is_socket(path_));
  EXPECT_FALSE(fs::exists(name.own()));
  name.Remove();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(SocketNameTest, ADeadProcessesSocketIsReplaced) {
  Listen(path_).Reset();
  SocketName name(path_);
  ASSERT_TRUE(name.Check().ok()) << name.Check();
  const Fd listener = Listen(name.own());
  ASSERT_TRUE(name.Publish().ok());
  EXPECT_EQ(SocketName(path_).Check().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SocketNameTest, WhatIsSomebodysIsNotTaken) {
  std::ofstream(path_) << "a file";
  absl::Status status = SocketName(path_).Check();
  EXPECT_NE(status.message().find("is not a socket"), absl::string_view::npos) << status;
  fs::remove(path_);
  const Fd listener = Listen(path_);
  status = SocketName(path_).Check();
  EXPECT_NE(status.message().find("somebody listens"), absl::string_view::npos) << status;
  EXPECT_FALSE(SocketName("/" + std::string(107, 'x')).Check().ok());
}

// The folder was made anew while the first daemon ran, and another one started there.
TEST_F(SocketNameTest, AnothersSocketIsNotRemoved) {
  SocketName first(path_);
  const Fd firsts = Listen(first.own());
  ASSERT_TRUE(first.Publish().ok());
  fs::remove(path_);
  SocketName second(path_);
  const Fd seconds = Listen(second.own());
  ASSERT_TRUE(second.Publish().ok());
  first.Remove();
  EXPECT_TRUE(fs::is_socket(path_));
  second.Remove();
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace neurond
