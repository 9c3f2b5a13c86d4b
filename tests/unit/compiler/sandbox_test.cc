// What is left to a process behind the sandbox. Each attempt runs in a forked child, since the
// sandbox cannot be undone.
#include "server/compiler/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <thread>

namespace neurond {
namespace {

// The child's exit status: 0 if `attempt` returned true.
int InSandbox(const std::function<bool()>& attempt) {
  const pid_t child = fork();
  if (child == 0) {
    if (!SandboxBeforePlugin().ok() || !SandboxAfterPlugin().ok()) _exit(9);
    _exit(attempt() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

bool Refused(long result) { return result < 0 && errno == EPERM; }

TEST(SandboxTest, NothingReachesOutside) {
  EXPECT_EQ(InSandbox([] { return Refused(socket(AF_INET, SOCK_STREAM, 0)); }), 0);
  EXPECT_EQ(InSandbox([] { return Refused(socket(AF_UNIX, SOCK_STREAM, 0)); }), 0);
  EXPECT_EQ(
      InSandbox([] { return Refused(open("/tmp/neurond-sandbox", O_WRONLY | O_CREAT, 0600)); }), 0);
  EXPECT_EQ(InSandbox([] { return Refused(open("/dev/null", O_RDWR)); }), 0);
  EXPECT_EQ(InSandbox([] { return Refused(unlink("/tmp/neurond-sandbox")); }), 0);
  EXPECT_EQ(InSandbox([] { return Refused(kill(getppid(), 0)); }), 0);
  EXPECT_EQ(InSandbox([] { return Refused(fork()); }), 0);
  EXPECT_EQ(InSandbox([] {
              char* argv[] = {nullptr};
              return Refused(execve("/bin/true", argv, argv));
            }),
            0);
}

TEST(SandboxTest, WhatACompilerNeedsStays) {
  EXPECT_EQ(InSandbox([] { return open("/proc/self/maps", O_RDONLY) >= 0; }), 0);
  EXPECT_EQ(InSandbox([] {
              bool ran = false;
              std::thread([&ran] { ran = true; }).join();
              return ran;
            }),
            0);
  EXPECT_EQ(InSandbox([] {
              return mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
            }),
            0);
  EXPECT_EQ(InSandbox([] {
              std::abort();
              return true;
            }),
            100 + SIGABRT);  // and it can still die loudly
}

}  // namespace
}  // namespace neurond
