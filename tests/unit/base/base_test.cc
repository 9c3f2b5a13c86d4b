// Hashes, the work queue, the disk store and the host block pool.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gtest/gtest.h"
#include "runtime/base/disk_store.h"
#include "runtime/base/hash.h"
#include "runtime/base/host_block_pool.h"
#include "runtime/base/work_queue.h"

namespace neurond {
namespace {

namespace fs = std::filesystem;

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

TEST_F(DiskStoreTest, AnotherTagOrKeyIsAMiss) {
  DiskStore mine(directory, ".x", 1, 1 << 20), theirs(directory, ".x", 2, 1 << 20);
  mine.Write(HashBytes("a"), "mine");
  EXPECT_FALSE(theirs.Read(HashBytes("a")));
  EXPECT_EQ(theirs.counters().corrupt, 0);
  EXPECT_EQ(mine.Read(HashBytes("a")), "mine");
  // A file under another's name.
  const std::string hex = HashBytes("b").Hex();
  fs::create_directories(directory + "/" + hex.substr(0, 2));
  const std::string a = HashBytes("a").Hex();
  fs::copy_file(directory + "/" + a.substr(0, 2) + "/" + a + ".x",
                directory + "/" + hex.substr(0, 2) + "/" + hex + ".x");
  EXPECT_FALSE(mine.Read(HashBytes("b")));
  EXPECT_EQ(mine.counters().corrupt, 1);
}

TEST_F(DiskStoreTest, WhatWasReadLastStaysLongest) {
  DiskStore store(directory, ".x", 1, 2000);
  for (int i = 0; i < 15; ++i) store.Write(HashBytes(std::to_string(i)), std::to_string(i));
  // Make their order of use plain, then use the first.
  int age = 1000;
  for (int i = 0; i < 15; ++i) {
    const std::string hex = HashBytes(std::to_string(i)).Hex();
    fs::last_write_time(directory + "/" + hex.substr(0, 2) + "/" + hex + ".x",
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
