#include "client/ring/address.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace neurond::client {
namespace {

class AddressTest : public ::testing::Test {
 protected:
  AddressTest() {
    char name[] = "/tmp/neurond-address-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~AddressTest() override {
    std::filesystem::remove_all(directory_);
    unsetenv("NEURON_RT_ADDRESS");
    unsetenv("XDG_RUNTIME_DIR");
  }
  std::string directory_;
};

TEST_F(AddressTest, ADirectoryOpenToOthersIsRefused) {
  const std::string ours = directory_ + "/ours";
  EXPECT_TRUE(CheckPrivateDirectory(ours).ok());  // made here
  chmod(ours.c_str(), 0750);
  const Status open = CheckPrivateDirectory(ours);
  EXPECT_EQ(open.code, Code::kFailedPrecondition);
  EXPECT_NE(open.message.find(ours), std::string::npos) << open.message;
  const std::string link = directory_ + "/link";
  ASSERT_EQ(symlink("/tmp", link.c_str()), 0);
  EXPECT_FALSE(CheckPrivateDirectory(link).ok());
}

TEST_F(AddressTest, TheRuntimeDirectoryComesBeforeTmp) {
  setenv("XDG_RUNTIME_DIR", directory_.c_str(), 1);
  std::string path;
  ASSERT_TRUE(DefaultAddress(&path).ok());
  EXPECT_EQ(path, directory_ + "/neurond/neurond.sock");
}

TEST_F(AddressTest, TheEnvironmentNamesAnotherDaemon) {
  std::string path;
  setenv("NEURON_RT_ADDRESS", "unix:///run/other.sock", 1);
  ASSERT_TRUE(ResolveAddress("", &path).ok());
  EXPECT_EQ(path, "/run/other.sock");
  ASSERT_TRUE(ResolveAddress("/run/mine.sock", &path).ok());
  EXPECT_EQ(path, "/run/mine.sock");
  ASSERT_TRUE(ResolveAddress("relative.sock", &path).ok());
  EXPECT_EQ(path.front(), '/');
}

TEST_F(AddressTest, AnotherKindOfAddressIsRefused) {
  std::string path;
  for (const char* address :
       {"localhost:50051", "tcp://host:50051", "grpc://host", "unix:host:1", "[::1]:50051"}) {
    const Status status = ResolveAddress(address, &path);
    EXPECT_EQ(status.code, Code::kInvalidArgument) << address;
    EXPECT_NE(status.message.find("expected the path"), std::string::npos) << status.message;
  }
  EXPECT_TRUE(ResolveAddress("./localhost:50051", &path).ok());
}

TEST_F(AddressTest, APathTooLongForASocketIsNamed) {
  sockaddr_un address;
  EXPECT_EQ(SocketAddress("/" + std::string(200, 'x'), &address).code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace neurond::client
