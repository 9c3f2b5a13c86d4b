#include "server/ring/shared_areas.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "server/ring/progress_publisher.h"

namespace neurond::ring {
namespace {

TEST(SharedAreasTest, TheClientCannotShrinkWhatTheDaemonReads) {
  auto areas = SharedAreas::Make();
  ASSERT_TRUE(areas.ok()) << areas.status();
  for (int fd : {(*areas)->ring_fd(), (*areas)->staging_fd(), (*areas)->progress_fd()}) {
    EXPECT_NE(ftruncate(fd, 0), 0);
    EXPECT_EQ(errno, EPERM);
    EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);  // nor seal it against the daemon
  }
}

TEST(SharedAreasTest, TheProgressPageIsReadOnlyForTheClient) {
  auto areas = SharedAreas::Make();
  ASSERT_TRUE(areas.ok());
  const int fd = (*areas)->progress_fd();
  EXPECT_EQ(mmap(nullptr, kProgressBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  const int again = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR);
  EXPECT_EQ(mmap(nullptr, kProgressBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0),
            MAP_FAILED);
  EXPECT_NE(pwrite(fd, "x", 1, 0), 1);
  void* page = mmap(nullptr, kProgressBytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_NE(mprotect(page, kProgressBytes, PROT_READ | PROT_WRITE), 0);
  (*areas)->progress().completed_seq[3].store(17);
  EXPECT_EQ(static_cast<ProgressPage*>(page)->completed_seq[3].load(), 17u);
  munmap(page, kProgressBytes);
  close(again);
}

TEST(ProgressPublisherTest, CompletionsAreMonotonicAndForeignStreamsIgnored) {
  auto areas = SharedAreas::Make();
  ASSERT_TRUE(areas.ok());
  ProgressPublisher publisher(**areas);
  publisher.Completed(2, 10);
  publisher.Completed(2, 9);  // two threads may report out of order
  publisher.Completed(-1, 5);
  publisher.Completed(kStreamsMax, 5);
  EXPECT_EQ((*areas)->progress().completed_seq[2].load(), 10u);
}

TEST(ProgressPublisherTest, OnlyAReachedTargetCostsAWakeUp) {
  auto areas = SharedAreas::Make();
  ASSERT_TRUE(areas.ok());
  ProgressPublisher publisher(**areas);
  std::atomic<uint32_t>& waiting = (*areas)->ring().client_waiting_stream[0];
  waiting = WaitTarget(5);
  publisher.Completed(0, 4);
  EXPECT_FALSE(publisher.TakeWoke());
  EXPECT_EQ(waiting.load(), 5u);
  publisher.Completed(0, 5);
  EXPECT_TRUE(publisher.TakeWoke());
  EXPECT_EQ(waiting.load(), 0u);
}

}  // namespace
}  // namespace neurond::ring
