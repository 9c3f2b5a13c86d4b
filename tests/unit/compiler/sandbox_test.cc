// What is left to a process behind the sandbox. Each attempt runs in a forked child, since the
// sandbox cannot be undone.
#include "server/compiler/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "server/compiler/limits.h"

namespace neurond {
namespace {

// The child's exit status: 0 if `attempt` returned true.
int InChild(const std::function<bool()>& attempt) {
  const pid_t child = fork();
  if (child == 0) _exit(attempt() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

int InSandbox(const std::function<bool()>& attempt) {
  return InChild([&attempt] {
    if (!SandboxBeforePlugin().ok() || !SandboxAfterPlugin().ok()) _exit(9);
    return attempt();
  });
}

bool Missing(long result) { return result < 0 && errno == ENOSYS; }
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

// The C library has more than one way to most of these; arguments that the kernel would refuse, but
// not with EPERM.
TEST(SandboxTest, NoOtherNameOfACallReachesOutside) {
  for (const long number : {SYS_connect,
                            SYS_bind,
                            SYS_listen,
                            SYS_sendto,
                            SYS_sendmsg,
                            SYS_execveat,
                            SYS_ptrace,
                            SYS_process_vm_writev,
                            SYS_tkill,
                            SYS_pidfd_open,
                            SYS_pidfd_send_signal,
                            SYS_unlinkat,
                            SYS_renameat2,
                            SYS_mkdirat,
                            SYS_symlinkat,
                            SYS_linkat,
                            SYS_fchmodat,
                            SYS_fchownat,
                            SYS_truncate,
                            SYS_mount,
                            SYS_chroot,
                            SYS_io_uring_setup,
                            SYS_keyctl,
                            SYS_unshare,
                            SYS_setns,
                            SYS_memfd_create,
                            SYS_setresuid}) {
    EXPECT_EQ(InSandbox([number] { return Refused(syscall(number, -1, -1, -1, -1, -1, -1)); }), 0)
        << "system call " << number;
  }
#if defined(__x86_64__)
  EXPECT_EQ(InSandbox([] { return Refused(syscall(SYS_open, "/dev/null", O_WRONLY)); }), 0);
  for (const long number : {SYS_creat, SYS_rename, SYS_mkdir, SYS_symlink, SYS_link, SYS_chmod}) {
    EXPECT_EQ(InSandbox([number] { return Refused(syscall(number, -1, -1, -1)); }), 0) << number;
  }
#endif
  EXPECT_EQ(InSandbox([] { return Missing(syscall(SYS_clone3, nullptr, 0)); }), 0);
#ifdef SYS_openat2
  EXPECT_EQ(InSandbox([] { return Missing(syscall(SYS_openat2, AT_FDCWD, "/", nullptr, 0)); }), 0);
#endif
}

TEST(SandboxTest, ThreadsThatThePluginStartedAreInside) {
  std::promise<void> closed;
  const auto attempt = [&closed] {
    bool refused = false;
    std::thread early([&] {
      closed.get_future().wait();
      refused = Refused(socket(AF_UNIX, SOCK_STREAM, 0));
    });
    const bool ok = SandboxBeforePlugin().ok() && SandboxAfterPlugin().ok();
    closed.set_value();
    early.join();
    return ok && refused;
  };
  EXPECT_EQ(InChild(attempt), 0);
}

TEST(SandboxTest, WhatItMayUseIsBounded) {
  EXPECT_EQ(InSandbox([] {
              for (uint64_t i = 0; i < kWorkerFilesMax; ++i) {
                if (open("/dev/null", O_RDONLY) < 0) return errno == EMFILE;
              }
              return false;
            }),
            0);
  EXPECT_EQ(InSandbox([] {
              const size_t more = size_t{1} << 46;  // than any machine has
              return mmap(nullptr, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                          0) == MAP_FAILED &&
                     errno == ENOMEM;
            }),
            0);
  FILE* file = tmpfile();  // whatever the worker inherited
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(InSandbox([file] {
              signal(SIGXFSZ, SIG_IGN);
              return write(fileno(file), "x", 1) < 0 && errno == EFBIG;
            }),
            0);
  fclose(file);
  EXPECT_EQ(InSandbox([] {
              rlimit core, cpu;
              RenewCpuTime();
              return getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0 &&
                     getrlimit(RLIMIT_CPU, &cpu) == 0 && cpu.rlim_cur >= kCompileCpuSeconds &&
                     cpu.rlim_cur < 2 * kCompileCpuSeconds;
            }),
            0);
}

TEST(SandboxTest, ItDiesWithTheDaemonAndCannotBeLookedInto) {
  EXPECT_EQ(InSandbox([] {
              int signal = 0;
              return prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal == SIGKILL &&
                     prctl(PR_GET_DUMPABLE) == 0;
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
