#include "server/daemon/lock_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/base/text.h"

namespace neurond {
namespace {

using ::testing::HasSubstr;

class LockFileTest : public ::testing::Test {
 protected:
  LockFileTest() {
    char name[] = "/tmp/neurond-lock-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~LockFileTest() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

TEST_F(LockFileTest, OneHoldsItAndTheOthersHearWho) {
  const std::string path = directory_ + "/lock";
  std::optional<LockFile> held;
  {
    absl::StatusOr<LockFile> first = LockFile::Take(path, 0);
    ASSERT_TRUE(first.ok()) << first.status();
    held = *std::move(first);
  }
  held->WritePid();
  const absl::Status refused = LockFile::Take(path, 0).status();
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(Cat("pid ", getpid())));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(path));
  held.reset();
  EXPECT_TRUE(LockFile::Take(path, 0).ok());
}

TEST_F(LockFileTest, ALinkInItsPlaceIsNotFollowed) {
  const std::string path = directory_ + "/lock";
  std::filesystem::create_symlink(directory_ + "/elsewhere", path);
  EXPECT_FALSE(LockFile::Take(path, 0).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/elsewhere"));
}

}  // namespace
}  // namespace neurond
