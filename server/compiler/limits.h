// Limits of compilation, with their reasons.

#ifndef NEUROND_SERVER_COMPILER_LIMITS_H_
#define NEUROND_SERVER_COMPILER_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace neurond {

// Memory that one worker is expected to need: admission is by count, and the count by this. A
// 12-layer transformer took 0.2 GiB.
inline constexpr int64_t kWorkerMemoryBytes = int64_t{2} << 30;
// Requests that wait; each holds its module's text. Beyond: RESOURCE_EXHAUSTED, and the program may
// be asked for again.
inline constexpr size_t kCompileQueueMax = 16384;
// Wall time of one compile, the worker's start included; large graphs take minutes on a busy
// machine.
inline constexpr uint64_t kCompileMs = 15 * 60 * 1000;
// CPU time of one compile: stops one that spins on many threads.
inline constexpr uint64_t kCompileCpuSeconds = 60 * 60;
// A worker without work ends after this: it holds 100-200 MiB.
inline constexpr uint64_t kWorkerIdleMs = 60 * 1000;
// What a worker may map at least, whatever the machine has: the plugin alone maps 0.3 GiB, each
// thread reserves some.
inline constexpr uint64_t kWorkerAddressSpaceBytesMin = uint64_t{8} << 30;
inline constexpr uint64_t kWorkerFilesMax = 64;
// A request's or reply's text. An executable of a large graph has some tens of MB.
inline constexpr uint64_t kModuleBytesMax = uint64_t{256} << 20;
inline constexpr uint64_t kSerializedBytesMax = uint64_t{1} << 30;
// The end of a worker's stderr that a crash report shows.
inline constexpr size_t kStderrTailBytes = 2048;

}  // namespace neurond

#endif  // NEUROND_SERVER_COMPILER_LIMITS_H_
