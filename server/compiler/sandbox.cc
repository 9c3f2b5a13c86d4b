#include "server/compiler/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "server/compiler/limits.h"

namespace neurond {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
#error "name this architecture for seccomp"
#endif

void Limit(int resource, uint64_t value) {
  const rlimit limit{value, value};
  setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

uint64_t AddressSpaceBytes() {
  const auto physical =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::max(physical, kWorkerAddressSpaceBytesMin);
}

// System calls with an effect outside the process, or that could take over another one.
constexpr int kDenied[] = {
    // network
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
    SYS_sendto, SYS_sendmsg, SYS_sendmmsg,
    // programs and other processes
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kill,
    SYS_tkill, SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo, SYS_kcmp,
    // the file system
    SYS_unlinkat, SYS_renameat2, SYS_mkdirat, SYS_mknodat, SYS_symlinkat, SYS_linkat, SYS_fchmodat,
    SYS_fchmod, SYS_fchownat, SYS_fchown, SYS_truncate, SYS_setxattr, SYS_fsetxattr, SYS_lsetxattr,
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_by_handle_at, SYS_utimensat,
#if defined(__x86_64__)
    SYS_unlink, SYS_rename, SYS_renameat, SYS_mkdir, SYS_rmdir, SYS_mknod, SYS_symlink, SYS_link,
    SYS_chmod, SYS_chown, SYS_lchown, SYS_creat, SYS_fork, SYS_vfork, SYS_utimes, SYS_ioperm,
    SYS_iopl,
#endif
    // the kernel
    SYS_bpf, SYS_perf_event_open, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
    SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_init_module, SYS_finit_module,
    SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_setns, SYS_unshare, SYS_memfd_create,
    SYS_setuid, SYS_setgid, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_capset, SYS_quotactl,
    SYS_swapon, SYS_swapoff, SYS_settimeofday, SYS_clock_settime, SYS_sethostname, SYS_acct};

class FilterBuilder {
 public:
  void Add(uint16_t code, uint32_t k, uint8_t yes = 0, uint8_t no = 0) {
    filter_.push_back(sock_filter{code, yes, no, k});
  }
  void Load(size_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void LoadNumber() { Load(offsetof(seccomp_data, nr)); }
  // The low half of an argument, little-endian.
  void LoadArgument(int i) { Load(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(i)); }
  void Return(uint32_t action) { Add(BPF_RET | BPF_K, action); }
  void Refuse(int error) { Return(SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)); }
  void RefuseCall(int number, int error) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    Refuse(error);
  }
  // Refuses `number` if argument i has any of `bits`; needs the number loaded, and loads it again.
  void RefuseIfBits(int number, int i, uint32_t bits, int error) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4);
    LoadArgument(i);
    Add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    Refuse(error);
    LoadNumber();
  }
  // Refuses `number` unless argument i has all of `bits` (one bit).
  void RefuseUnlessBit(int number, int i, uint32_t bit, int error) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4);
    LoadArgument(i);
    Add(BPF_JMP | BPF_JSET | BPF_K, bit, 1, 0);
    Refuse(error);
    LoadNumber();
  }
  std::vector<sock_filter>& filter() { return filter_; }

 private:
  std::vector<sock_filter> filter_;
};

std::vector<sock_filter> BuildFilter() {
  constexpr uint32_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  FilterBuilder f;
  f.Load(offsetof(seccomp_data, arch));
  f.Add(BPF_JMP | BPF_JEQ | BPF_K, kArch, 1, 0);
  f.Return(SECCOMP_RET_KILL_PROCESS);
  f.LoadNumber();
#if defined(__x86_64__)
  f.Add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);  // the x32 calls have their own numbers
  f.Refuse(ENOSYS);
  f.RefuseIfBits(SYS_open, 1, kWriting, EPERM);
#endif
  f.RefuseIfBits(SYS_openat, 2, kWriting, EPERM);
  f.RefuseUnlessBit(SYS_clone, 0, CLONE_THREAD, EPERM);
  // Their flags lie in memory, where a filter cannot look; the C library falls back to the older
  // calls.
  f.RefuseCall(SYS_clone3, ENOSYS);
#ifdef SYS_openat2
  f.RefuseCall(SYS_openat2, ENOSYS);
#endif
  for (int number : kDenied) f.RefuseCall(number, EPERM);
  f.Return(SECCOMP_RET_ALLOW);
  return std::move(f.filter());
}

}  // namespace

absl::Status SandboxBeforePlugin() {
  signal(SIGINT, SIG_IGN);  // a ^C for the daemon is the daemon's affair
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_DUMPABLE, 0) != 0) {
    return absl::ErrnoToStatus(errno, "cannot give up privileges");
  }
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_NOFILE, kWorkerFilesMax);
#if !defined(__SANITIZE_ADDRESS__)  // its shadow alone is larger than any limit
  Limit(RLIMIT_AS, AddressSpaceBytes());
#endif
  return absl::OkStatus();
}

absl::Status SandboxAfterPlugin() {
  Limit(RLIMIT_FSIZE, 0);
  std::vector<sock_filter> filter = BuildFilter();
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    return absl::ErrnoToStatus(errno, "cannot install the seccomp filter");
  }
  return absl::OkStatus();
}

void RenewCpuTime() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = static_cast<uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
  const rlimit limit{seconds + kCompileCpuSeconds, RLIM_INFINITY};
  setrlimit(RLIMIT_CPU, &limit);
}

}  // namespace neurond
