// Hashes, the work queue, the disk store and the host block pool.

#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "runtime/base/disk_store.h"
#include "runtime/base/hash.h"
#include "runtime/base/host_block_pool.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"
#include "runtime/base/work_queue.h"

namespace neurond {
namespace {

namespace fs = std::filesystem;

TEST(TextTest, ALongTextIsShortenedBetweenCharacters) {
  EXPECT_EQ(Shortened("12345678", 8), "12345678");
  EXPECT_EQ(Shortened("123456789", 8), "12345678 ... (1 bytes more)");
  EXPECT_EQ(Shortened("1234567\xc3\xa4", 8), "1234567 ... (2 bytes more)");
  EXPECT_EQ(Shortened("12345\xf0\x9f\x98\x80", 8), "12345 ... (4 bytes more)");
  EXPECT_EQ(Shortened(std::string(9, '\x80'), 8).substr(0, 5), std::string(5, '\x80'));
}

TEST(HashTest, PartsAreToldApart) {
  const std::string_view one[] = {"ab", "c"}, other[] = {"a", "bc"}, same[] = {"ab", "c"};
  EXPECT_NE(HashParts(one), HashParts(other));
  EXPECT_EQ(HashParts(one), HashParts(same));
  EXPECT_NE(HashBytes("abc"), HashBytes("abd"));
  EXPECT_EQ((Hash128{0x0123456789abcdefu, 0xfu}.Hex()), "0123456789abcdef000000000000000f");
}

TEST(WorkQueueTest, TheDestructorRunsWhatWasPosted) {
  std::atomic<int> ran = 0;
  {
    WorkQueue queue(2);
    for (int i = 0; i < 100; ++i) queue.Post([&] { ++ran; });
    queue.Drain();
    EXPECT_EQ(ran, 100);
    queue.Post([&] { queue.Post([&] { ++ran; }); });
    queue.Drain();
    EXPECT_EQ(ran, 101);
    for (int i = 0; i < 100; ++i) queue.Post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 201);
}

TEST(HostBlockPoolTest, BlocksAreAlignedAndRecycled) {
  auto pool = std::make_shared<HostBlockPool>(int64_t{64} << 20);
  for (int64_t bytes : {int64_t{1}, int64_t{4097}, int64_t{100'000}, int64_t{5} << 20}) {
    HostBlock block = pool->Take(bytes);
    ASSERT_TRUE(block);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % 64, 0u);
    std::memset(block.data(), 1, static_cast<size_t>(bytes));
    char* const data = block.data();
    block.Reset();
    EXPECT_EQ(pool->Take(bytes).data(), data);
  }
}

TEST(HostBlockPoolTest, IdleMemoryIsBounded) {
  auto pool = std::make_shared<HostBlockPool>(100'000);
  { HostBlock big = pool->Take(1 << 20); }
  EXPECT_EQ(pool->idle_bytes(), 0);
  { HostBlock a = pool->Take(60'000), b = pool->Take(60'000); }
  EXPECT_GT(pool->idle_bytes(), 0);
  EXPECT_LE(pool->idle_bytes(), 100'000);
}

TEST(HostBlockPoolTest, AReleasedBlockComesBackAfterItsPoolIsGone) {
  auto pool = std::make_shared<HostBlockPool>(1 << 20);
  HostBlock block = pool->Take(100);
  std::function<void()> release = block.Release();
  EXPECT_FALSE(block);
  pool.reset();
  std::thread elsewhere(std::move(release));
  elsewhere.join();
}

class DiskStoreTest : public testing::Test {
 protected:
  DiskStoreTest() {
    char name[] = "/tmp/neurond-store-XXXXXX";
    directory = mkdtemp(name);
  }
  ~DiskStoreTest() override { fs::remove_all(directory); }
  std::string PathOf(const std::string& key) const {
    const std::string hex = HashBytes(key).Hex();
    return directory + "/" + hex.substr(0, 2) + "/" + hex + ".x";
  }
  std::string directory;
};

TEST_F(DiskStoreTest, BlobsComeBack) {
  DiskStore store(directory, ".x", 1, 1 << 20);
  const std::string blob(100'000, 'z');
  EXPECT_FALSE(store.Read(HashBytes("a")));
  store.Write(HashBytes("a"), blob);
  store.Write(HashBytes("empty"), "");
  EXPECT_EQ(store.Read(HashBytes("a")), blob);
  EXPECT_EQ(store.Read(HashBytes("empty")), "");
  EXPECT_FALSE(store.Read(HashBytes("b")));
  EXPECT_EQ(store.counters().entries, 2);
  EXPECT_LT(store.counters().bytes, 10'000);
  EXPECT_EQ(store.Clear(), 2);
  EXPECT_FALSE(store.Read(HashBytes("a")));
}

TEST_F(DiskStoreTest, AFileOfAnotherVersionIsAMissAndStays) {
  DiskStore store(directory, ".x", 1, 1 << 20);
  store.Write(HashBytes("a"), "a");
  {
    std::fstream file(PathOf("a"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offsetof(DiskHeader, version));
    file.put(static_cast<char>(kDiskVersion + 1));
  }
  EXPECT_FALSE(store.Read(HashBytes("a")));
  EXPECT_EQ(store.counters().corrupt, 0);
  EXPECT_TRUE(fs::exists(PathOf("a")));
  store.Write(HashBytes("a"), "b");
  EXPECT_EQ(store.Read(HashBytes("a")), "b");
}

TEST_F(DiskStoreTest, CountsFollowWhatLiesThere) {
  DiskStore store(directory, ".x", 1, 1 << 20);
  for (int i = 0; i < 5; ++i) store.Write(HashBytes("a"), "a");
  EXPECT_EQ(store.counters().entries, 1);
  EXPECT_EQ(store.counters().bytes, static_cast<int64_t>(fs::file_size(PathOf("a"))));
  store.Write(HashBytes("b"), "b");
  EXPECT_EQ(store.counters().entries, 2);
  fs::remove_all(directory);
  store.Write(HashBytes("c"), "c");
  EXPECT_EQ(store.counters().entries, 1);
  EXPECT_EQ(store.counters().bytes, static_cast<int64_t>(fs::file_size(PathOf("c"))));
}

TEST_F(DiskStoreTest, WhatIsNoFileIsAMiss) {
  DiskStore store(directory, ".x", 1, 1 << 20);
  const auto put = [&](const char* key) {
    const fs::path path = PathOf(key);
    fs::create_directories(path.parent_path());
    return path;
  };
  fs::create_directory(put("directory"));
  fs::create_directories(put("full directory") / "somebody's");
  ASSERT_EQ(mkfifo(put("pipe").c_str(), 0600), 0);
  fs::create_symlink("/nowhere", put("link"));
  fs::create_symlink(put("loop"), put("loop"));
  fs::create_symlink("/dev/zero", put("device"));
  for (const char* key : {"directory", "full directory", "pipe", "link", "loop", "device"}) {
    EXPECT_FALSE(store.Read(HashBytes(key))) << key;
    store.Write(HashBytes(key), key);
    const bool gone = key != std::string("full directory");  // not ours to empty
    EXPECT_EQ(store.Read(HashBytes(key)).has_value(), gone) << key;
  }
}

// A writer that was killed, and whose pid somebody has again.
TEST_F(DiskStoreTest, ALeftTemporaryFileIsNoObstacle) {
  DiskStore store(directory, ".x", 1, 1 << 20);
  store.Write(HashBytes("a"), "old");
  for (int i = 0; i < 9; ++i) {
    std::ofstream(PathOf("a") + "." + std::to_string(getpid()) + "." + std::to_string(i) + ".tmp");
  }
  store.Write(HashBytes("a"), "new");
  EXPECT_EQ(store.Read(HashBytes("a")), "new");
}

TEST_F(DiskStoreTest, TemporaryFilesOfDeadWritersGo) {
  DiskStore store(directory, ".x", 1, 1 << 20);
  store.Write(HashBytes("a"), "a");
  const auto now = fs::file_time_type::clock::now();
  const auto leave = [&](const std::string& name, fs::file_time_type touched) {
    const std::string path = PathOf("a") + name + ".tmp";
    std::ofstream(path) << "half";
    fs::last_write_time(path, touched);
    return path;
  };
  const std::string old = leave("old", now - std::chrono::hours(2));
  const std::string future = leave("future", now + std::chrono::hours(2));
  const std::string fresh = leave("fresh", now);
  store.Scan();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_FALSE(fs::exists(future)) << "written before the clock was set back";
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(DiskStoreTest, WhatWasTouchedInTheFutureGoesFirst) {
  DiskStore theirs(directory, ".x", 1, 1 << 20), mine(directory, ".x", 1, 1600);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 20; ++i) {
    theirs.Write(HashBytes(std::to_string(i)), "theirs");
    const auto hours = std::chrono::hours(i < 2 ? 100 - i : i - 30);
    fs::last_write_time(PathOf(std::to_string(i)), now + hours);
  }
  mine.Write(HashBytes("new"), "new");
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(fs::exists(PathOf(std::to_string(i)))) << i;
  EXPECT_TRUE(fs::exists(PathOf("19")));
}

TEST_F(DiskStoreTest, WhatCannotBeRemovedStillCounts) {
  DiskStore theirs(directory, ".x", 1, 1 << 20), mine(directory, ".x", 1, 2000);
  for (int i = 0; i < 40; ++i) theirs.Write(HashBytes(std::to_string(i)), "theirs");
  for (const auto& folder : fs::directory_iterator(directory)) chmod(folder.path().c_str(), 0555);
  chmod(directory.c_str(), 0777);
  // Root may do everything, so one thread stops being root where files are concerned.
  std::thread([&] {
    setfsuid(65534);
    mine.Write(HashBytes("new"), "new");
  }).join();
  EXPECT_EQ(mine.counters().entries, 40);
  EXPECT_EQ(mine.counters().bytes, theirs.counters().bytes);
  EXPECT_LE(mine.counters().evictions, 1);  // the new one: it would not fit
  for (const auto& folder : fs::directory_iterator(directory)) chmod(folder.path().c_str(), 0755);
}

// A full disk fails every write of a long run.
TEST_F(DiskStoreTest, TheLogDoesNotGrowWithTheTrouble) {
  testing::internal::CaptureStdout();
  std::ofstream(directory + "/file") << "where a folder should be";
  DiskStore store(directory + "/file", ".x", 1, 1 << 20);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(store.Read(HashBytes(std::to_string(i))));
    store.Write(HashBytes(std::to_string(i)), "a");
  }
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 * kCacheWarningsMax);
  EXPECT_NE(text.find("cannot read"), std::string::npos);
  EXPECT_NE(text.find("cannot write"), std::string::npos);
}

// The kernel refuses to let a file grow, as on a full disk.
TEST_F(DiskStoreTest, AFullDiskIsNoError) {
  DiskStore store(directory, ".x", 1, 1 << 20);
  std::string noise(4096, '\0');
  std::mt19937 random(1);
  for (char& c : noise) c = static_cast<char>(random());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1024, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  store.Write(HashBytes("large"), noise);
  store.Write(HashBytes("small"), "small");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(store.Read(HashBytes("large")));
  EXPECT_EQ(store.Read(HashBytes("small")), "small");
  EXPECT_EQ(store.counters().corrupt, 0);
  for (const auto& file : fs::recursive_directory_iterator(directory)) {
    EXPECT_FALSE(file.path().string().ends_with(".tmp")) << file.path();
  }
  store.Write(HashBytes("large"), noise);  // there is room again
  EXPECT_EQ(store.Read(HashBytes("large")), noise);
}

TEST_F(DiskStoreTest, ADirectoryThatMayNotBeReadIsAMiss) {
  DiskStore(directory, ".x", 1, 1 << 20).Write(HashBytes("a"), "a");
  // A file where the folder should be: even root cannot enter it.
  const fs::path folder = fs::path(PathOf("a")).parent_path();
  fs::remove_all(folder);
  std::ofstream(folder) << "in the way";
  DiskStore store(directory, ".x", 1, 1 << 20);
  EXPECT_FALSE(store.Read(HashBytes("a")));
  store.Write(HashBytes("a"), "a");
  EXPECT_FALSE(store.Read(HashBytes("a")));
  EXPECT_EQ(store.counters().corrupt, 0);
}

TEST_F(DiskStoreTest, WhatThisProcessUsesGoesLast) {
  DiskStore(directory, ".x", 1, 1 << 20).Write(HashBytes("mine"), "mine");
  DiskStore mine(directory, ".x", 1, 2000), theirs(directory, ".x", 1, 1 << 20);
  EXPECT_EQ(mine.Read(HashBytes("mine")), "mine");
  for (int i = 0; i < 40; ++i) theirs.Write(HashBytes(std::to_string(i)), "theirs");
  // Used, but read long before the others were written.
  fs::last_write_time(PathOf("mine"), fs::file_time_type::clock::now() - std::chrono::hours(1));
  mine.Write(HashBytes("new"), "new");
  EXPECT_GT(mine.counters().evictions, 0);
  EXPECT_EQ(mine.Read(HashBytes("mine")), "mine");
  EXPECT_EQ(mine.Read(HashBytes("new")), "new");
}

TEST_F(DiskStoreTest, AnotherTagOrKeyIsAMiss) {
  DiskStore mine(directory, ".x", 1, 1 << 20), theirs(directory, ".x", 2, 1 << 20);
  mine.Write(HashBytes("a"), "mine");
  EXPECT_FALSE(theirs.Read(HashBytes("a")));
  EXPECT_EQ(theirs.counters().corrupt, 0);
  EXPECT_EQ(mine.Read(HashBytes("a")), "mine");
  // A file under another's name.
  fs::create_directories(fs::path(PathOf("b")).parent_path());
  fs::copy_file(PathOf("a"), PathOf("b"));
  EXPECT_FALSE(mine.Read(HashBytes("b")));
  EXPECT_EQ(mine.counters().corrupt, 1);
}

TEST_F(DiskStoreTest, WhatWasReadLastStaysLongest) {
  DiskStore store(directory, ".x", 1, 2000);
  for (int i = 0; i < 15; ++i) store.Write(HashBytes(std::to_string(i)), std::to_string(i));
  // Make their order of use plain, then use the first.
  int age = 1000;
  for (int i = 0; i < 15; ++i) {
    fs::last_write_time(PathOf(std::to_string(i)),
                        fs::file_time_type::clock::now() - std::chrono::seconds(age--));
  }
  EXPECT_EQ(store.Read(HashBytes("0")), "0");
  for (int i = 15; i < 30; ++i) store.Write(HashBytes(std::to_string(i)), std::to_string(i));
  EXPECT_EQ(store.Read(HashBytes("0")), "0");
  EXPECT_FALSE(store.Read(HashBytes("1")));
  EXPECT_EQ(store.Read(HashBytes("29")), "29");
  EXPECT_GT(store.counters().evictions, 0);
  EXPECT_LE(store.counters().bytes, 2000);
}

TEST_F(DiskStoreTest, ADirectoryThatCannotBeWrittenIsNoError) {
  DiskStore store("/proc/nowhere", ".x", 1, 1 << 20);
  store.Write(HashBytes("a"), "a");
  EXPECT_FALSE(store.Read(HashBytes("a")));
  DiskStore none("", ".x", 1, 1 << 20);
  none.Write(HashBytes("a"), "a");
  EXPECT_FALSE(none.Read(HashBytes("a")));
}

TEST_F(DiskStoreTest, ReadersNeverSeeHalfAFile) {
  DiskStore store(directory, ".x", 1, 1 << 30);
  const std::string one(50'000, '1'), two(60'000, '2');
  store.Write(HashBytes("a"), one);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    DiskStore other(directory, ".x", 1, 1 << 30);
    for (int i = 0; i < 200; ++i) other.Write(HashBytes("a"), i % 2 == 0 ? two : one);
    stop = true;
  });
  while (!stop) {
    const std::optional<std::string> blob = store.Read(HashBytes("a"));
    ASSERT_TRUE(blob.has_value());
    ASSERT_TRUE(*blob == one || *blob == two);
  }
  writer.join();
  EXPECT_EQ(store.counters().corrupt, 0);
}

}  // namespace
}  // namespace neurond
