// Every limit of the daemon, with its reason. Append only; a limit that is met gives
// RESOURCE_EXHAUSTED, INVALID_ARGUMENT or backpressure on that client alone.
//
// Thread-safety: constants.

#ifndef NEUROND_RUNTIME_BASE_LIMITS_H_
#define NEUROND_RUNTIME_BASE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace neurond {

// --- Programs -----------------------------------------------------------------------------------
// Bytes of one serialized Program: a compiled graph of 10,000 nodes has about 2 MiB.
inline constexpr int64_t kProgramBytesMax = int64_t{64} << 20;
// Lists in an argument: ATen's schemas nest at most two deep.
inline constexpr int kArgDepthMax = 4;
// Elements of any value. XLA CPU dies with SIGFPE at 2^37 elements; 2^34 float32 are 64 GiB.
inline constexpr int64_t kElementsMax = int64_t{1} << 34;
// Name of a Program that is kept: it stands in every list, log line and error.
inline constexpr size_t kProgramNameBytesMax = 200;
// Text of one error, where it is kept or sent or logged: a compiler quotes what it was given.
inline constexpr size_t kErrorTextBytesMax = 8 << 10;
// Dimensions of any value, as in PyTorch's TensorIterator.
inline constexpr int kRankMax = 64;
// Nodes, values, outputs and Buffers of one Program: a fused optimizer over a large model names
// some thousands.
inline constexpr int kProgramPartsMax = 1 << 18;
// Length of lists in one node's arguments (sizes, tensors of a cat, of a foreach op).
inline constexpr int kArgItemsMax = 1 << 16;

// --- Sessions -----------------------------------------------------------------------------------
// Commands submitted and not retired. At the first number the front end stops reading its ring; the
// Session calls Wake() once the second is reached again. A Command takes about 500 bytes while it
// waits.
inline constexpr int64_t kSessionBacklogMax = 8192;
inline constexpr int64_t kSessionBacklogLow = 4096;
// Live Buffers of one session; about 100 bytes each.
inline constexpr int64_t kSessionBuffersMax = int64_t{1} << 22;
// Writes that have begun and lack their last chunk. Each holds its whole block.
inline constexpr int kSessionTransfersMax = 64;
// Root errors not reported yet. Younger ones are counted and stay in the Versions behind them.
inline constexpr int kUnreportedErrorsMax = 1024;
// Events whose time is kept; the oldest goes first.
inline constexpr int kSessionEventsMax = 65536;
// Host memory that a session's block pool keeps for the next upload.
inline constexpr int64_t kHostPoolIdleBytesMax = int64_t{256} << 20;
// Uploads below this are copied by the plugin, which is cheaper than a block of our own.
inline constexpr int64_t kAdoptBytesMin = 16 << 10;
// Below this a Command's results are not checked against the device's physical memory before it
// runs.
inline constexpr int64_t kPhysicalCheckBytesMin = 1 << 20;
// Finished Commands that a session keeps for the next ones; more are under way only behind a slow
// device.
inline constexpr int kSpareCommandsMax = 16;
// Run-time words of one Program: scalars and offsets, a few per tensor of a fused optimizer.
inline constexpr int kProgramWordsMax = 1 << 16;

// --- Plugins ------------------------------------------------------------------------------------
// Devices of one plugin: torch's device index is an int8.
inline constexpr int kPluginDevicesMax = 127;
// Digits of a number in a convolution's dim_numbers: XLA's parser ends the process on 2^32; there
// are at most kRankMax dimensions.
inline constexpr int kConvolutionDimensionDigitsMax = 4;
// One scripted delay of the fake plugin: a typo must not hang a test run for days.
inline constexpr int64_t kScriptSlowMsMax = 600'000;

// --- Caches -------------------------------------------------------------------------------------
// One file of a disk store before compression: an executable of a large graph has some tens of MB.
inline constexpr int64_t kDiskEntryBytesMax = int64_t{1} << 30;
// Files of one store that cannot be read, and that cannot be written, told in the log: a full disk
// fails thousands.
inline constexpr int kCacheWarningsMax = 10;
// Lowered Programs and aliases on disk; an eager op takes about 2 KiB.
inline constexpr int64_t kProgramDiskBytesMax = int64_t{2} << 30;
// Key or client metadata of one alias: a fused optimizer over 10,000 tensors has some MB. A larger
// one is not remembered.
inline constexpr int64_t kAliasBytesMax = int64_t{16} << 20;
// Programs in memory; beyond it those go that nobody else holds, the longest unused first.
inline constexpr int64_t kProgramMemoryBytesMax = int64_t{2} << 30;
// What a Program takes beside its texts: XLA CPU's executable of one small op, and our parts of it,
// measured.
inline constexpr int64_t kProgramOverheadBytes = 92 << 10;
// Aliases in memory, and their bytes in all; beyond either all are dropped, and read from disk
// again.
inline constexpr int64_t kAliasesMax = 65536;
inline constexpr int64_t kAliasMemoryBytesMax = int64_t{256} << 20;
// Serialized bytes of the Executables in memory; beyond it those go that no Program holds.
inline constexpr int64_t kExecutableMemoryBytesMax = int64_t{2} << 30;
// Tries of a compile that failed for a reason that may not repeat, per key and process.
inline constexpr int kCompileTriesMax = 3;

// --- gRPC ---------------------------------------------------------------------------------------
// One message, either way: gRPC's default; larger ones are 3-4 times slower per byte and hold
// memory outside any quota.
inline constexpr int kGrpcMessageBytesMax = 4 << 20;
// Threads of the synchronous server. Each costs a stack; every call, watcher and poller holds one.
inline constexpr int kGrpcThreadsMax = 96;
// Calls of ProgramService at once: each may hold one message of each direction (256 MiB in all).
inline constexpr int kGrpcProgramCallsMax = 32;
// WatchDevices calls at once: each holds a thread as long as it lasts.
inline constexpr int kGrpcWatchersMax = 16;
// How often a waiting handler looks whether its call was cancelled: bounds the end of a drain;
// costs nothing when idle.
inline constexpr int kGrpcPollMs = 50;
// Chunk of a streamed result: fastest between 256 KiB and 1 MiB.
inline constexpr int64_t kGrpcChunkBytes = int64_t{512} << 10;
// Inputs or outputs of one module, rank excluded: as an ATen Program's parts, but each is a message
// field here.
inline constexpr int kGrpcTensorsMax = 4096;
// Least interval of WatchDevices.
inline constexpr int kGrpcWatchIntervalMsMin = 100;
// One page of ListExecutables: 10,000 entries are about 1.5 MiB, and 3 MiB with the longest names.
inline constexpr int kGrpcPageSizeMax = 10'000;

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_LIMITS_H_
