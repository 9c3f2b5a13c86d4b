// The contract between a local client (client/ring) and the daemon (server/ring).
//
// A client connects to an AF_UNIX stream socket and says Hello. The daemon answers with HelloReply
// and passes four descriptors (SCM_RIGHTS, in this order): the submission ring, the staging arena,
// the progress page, and an eventfd that wakes the daemon's session thread. All three memory areas
// are memfds that the daemon created, sized and sealed (F_SEAL_SHRINK | F_SEAL_GROW).
//
//   client process                                                     neurond, one session thread
//   --------------                                                     ---------------------------
//   push lock (gives the sequence number)
//     record -> +----------------- submission ring -----------------+
//               | RingHeader | data, 2^n bytes, records never wrap   | -> copy, validate, use
//               +----------------------------------------------------+
//   tensor bytes -> +------------- staging arena --------------+
//                   | client-managed blocks; the daemon copies  | -> device buffers
//                   +------------------------------------------+
//               <- +------------- progress page (read-only for the client) --------------+
//                  | consumed_seq, unreported errors, one completion word per stream     |
//                  +---------------------------------------------------------------------+
//   control frames <-> socket (request and reply, one outstanding request per client thread)
//
// State machine of a record:
//   free -> written    the client, under its push lock, fills the bytes behind `head`
//   written -> pushed  the client stores `head` (release); the record has its sequence number now
//   pushed -> consumed the session thread copies and validates it, then stores `tail` and
//   `consumed_seq` (release) consumed -> retired the Command completed or failed; the session
//   stores the stream's `completed_seq` (release)
// Nothing moves a record back.
//
// Sleeping and waking. The session thread sets RingHeader::daemon_waiting = 1 (seq_cst), looks at
// `head` once more, and polls {eventfd, socket}. A pusher stores `head` (seq_cst), exchanges
// daemon_waiting to 0 and writes the eventfd only if it was 1. A client that waits for `tail`,
// `consumed_seq` or a stream's `completed_seq` to reach a value puts that value's low 32 bits
// (WaitTarget) into the matching RingHeader::client_waiting_* word, unless an earlier value waits
// there already; looks at the progress word again; and sleeps with FUTEX_WAIT on the
// *client_waiting word* as long as it holds what was seen there, in slices of at most 100 ms,
// looking at the socket between slices so that a dead daemon is seen. Once its value has reached
// the target, the daemon sets the word to 0 and issues FUTEX_WAKE (shared, all waiters): a thousand
// Commands that retire one by one wake a waiter once, and a second waiter that leaned on an earlier
// target sees the word change and registers anew.
//
// Shared memory is hostile: each side copies a field once, validates the copy and uses only the
// copy; the daemon never reads back what it wrote. All integers are little-endian.

#ifndef NEUROND_PROTO_RING_RING_ABI_H_
#define NEUROND_PROTO_RING_RING_ABI_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace neurond::ring {

inline constexpr uint32_t kMagic = 0x4e524e47;  // "GNRN"
inline constexpr uint16_t kAbiMin = 1;          // oldest ABI this header can talk to
inline constexpr uint16_t kAbiMax = 1;

inline constexpr uint32_t kStreamsMax =
    256;  // per session; stream s is on device s % device_count, 0..device_count-1 are the default
          // streams
inline constexpr uint64_t kRingBytes = 4u << 20;  // data area; a power of two
inline constexpr uint64_t kRecordBytesMax = 256u
                                            << 10;  // a larger record travels by reference (kLarge)
inline constexpr uint64_t kLargeRecordBytesMax =
    16u << 20;  // two million ids: far beyond any fused optimizer
inline constexpr uint64_t kStagingBytes = 256u << 20;   // sparse; pages appear on first touch
inline constexpr uint64_t kFrameBytesMax = 256u << 20;  // one socket frame, header included
inline constexpr uint32_t kDevicesMax = 127;            // torch's device index is an int8

// ---------------------------------------------------------------------------------------------
// Element types: the same numbers in records, in Program bytes (neurond.v1.DType) and in
// runtime::DType.
enum class DType : uint8_t {
  kInvalid = 0,
  kBool = 1,
  kU8 = 2,
  kI8 = 3,
  kI16 = 4,
  kU16 = 5,
  kI32 = 6,
  kU32 = 7,
  kI64 = 8,
  kU64 = 9,
  kF16 = 10,
  kBF16 = 11,
  kF32 = 12,
  kF64 = 13,
  kC64 = 14,
  kC128 = 15,
};

// ---------------------------------------------------------------------------------------------
// Submission ring.

struct RingHeader {  // at offset 0 of the ring memfd; data starts at kRingDataOffset
  uint32_t magic;    // daemon, once
  uint16_t abi;      // daemon, once
  uint16_t reserved0;
  uint64_t data_bytes;  // daemon, once; == kRingBytes in ABI 1
  alignas(64)
      std::atomic<uint64_t> head;  // client: bytes pushed since the start, never wraps in practice
  alignas(64) std::atomic<uint64_t> tail;  // daemon: bytes consumed
  alignas(64) std::atomic<uint32_t> daemon_waiting;
  alignas(64) std::atomic<uint32_t> client_waiting_tail;  // WaitTarget values; 0: nobody waits
  std::atomic<uint32_t> client_waiting_consumed;
  std::atomic<uint32_t> client_waiting_stream[kStreamsMax];
};
inline constexpr uint64_t kRingDataOffset = 4096;
static_assert(sizeof(RingHeader) <= kRingDataOffset);
static_assert(offsetof(RingHeader, head) == 64 && offsetof(RingHeader, tail) == 128);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// What a waiter for `value` leaves in a client_waiting word: the low 32 bits; where they are 0,
// which means nobody, the value before (a wake too early is harmless).
inline constexpr uint32_t WaitTarget(uint64_t value) {
  const uint32_t low = static_cast<uint32_t>(value);
  return low != 0 ? low : 0xffffffffu;
}
// Whether `value` has reached a target that lies less than 2^31 away.
inline constexpr bool ReachedTarget(uint64_t value, uint32_t target) {
  return static_cast<int32_t>(static_cast<uint32_t>(value) - target) >= 0;
}

struct ProgressPage {                            // daemon writes, client reads
  std::atomic<uint64_t> consumed_seq;            // every record with seq <= this was consumed
  alignas(64) std::atomic<uint64_t> unreported;  // DeferredErrors of this session not yet reported
  std::atomic<uint64_t> epoch_ended;             // 1 once the session is over
  alignas(64) std::atomic<uint64_t> completed_seq[kStreamsMax];  // every record of the stream with
                                                                 // seq <= this retired
};
inline constexpr uint64_t kProgressBytes = 4096;
static_assert(sizeof(ProgressPage) <= kProgressBytes);

// Every record starts so. `bytes` counts the header and the padding to a multiple of 8. A record
// whose end would pass the end of the data area is preceded by a kPad record that fills the rest (a
// rest under sizeof(RecordHeader) is skipped by both sides without a record).
enum class RecordType : uint16_t {
  kPad = 1,
  kAlloc = 2,  // names a Buffer; no memory yet
  kFree = 3,   // drops the name
  kExecute = 4,
  kWrite = 5,   // staging -> Buffer
  kRead = 6,    // Buffer -> staging
  kCopy = 7,    // whole Buffer -> whole Buffer, also between devices
  kRecord = 8,  // an event: its completion time is kept
  kWait = 9,    // this stream goes on after another stream's sequence
  kLarge = 10,  // the record's bytes lie in staging
  kFreeMany = 11,
  kCollective = 12,  // reserved
};

struct RecordHeader {
  uint32_t bytes;
  uint16_t type;    // RecordType
  uint16_t stream;  // < kStreamsMax; 0 for records that belong to no stream
  uint64_t seq;     // the session's next sequence number; starts at 1, without gaps (kPad has 0)
};
static_assert(sizeof(RecordHeader) == 16);

struct AllocRecord {
  RecordHeader h;
  uint64_t buffer;    // client-made id, never reused
  uint64_t elements;  // > 0
  uint8_t dtype;      // DType; kU8 for untyped bytes
  uint8_t device;     // index within the session's visible devices
  uint8_t reserved[6];
};
static_assert(sizeof(AllocRecord) == 40);

struct FreeRecord {
  RecordHeader h;
  uint64_t buffer;
};
static_assert(sizeof(FreeRecord) == 24);

struct FreeManyRecord {  // followed by count x u64 buffer ids
  RecordHeader h;
  uint32_t count;
  uint32_t reserved;
};
static_assert(sizeof(FreeManyRecord) == 24);

// Runs a Program. Followed by u64 inputs[input_count] (one Buffer id per buffer slot of the
// Program, in slot order), u64 outputs[output_count] (new Buffer ids; the Program fixes their dtype
// and element count) and i64 words[word_count] (the packed run-time scalars: offsets, numbers, seed
// and offset, as the Program lays them out; a floating-point scalar is the bit pattern of a
// double). Buffers that the Program writes get their next Version.
struct ExecuteRecord {
  RecordHeader h;
  uint64_t program;  // from LookupReply or DefineReply
  uint64_t origin;   // client-made id of the submitting line, given back in errors; 0: unknown
  uint32_t input_count;
  uint32_t output_count;
  uint32_t word_count;
  uint32_t reserved;
};
static_assert(sizeof(ExecuteRecord) == 48);

// Copies staging[staging_offset, +bytes) to byte `buffer_offset` of the Buffer. Large writes come
// in chunks with the same `transfer`; the chunks of one transfer are in order, gapless and start at
// `buffer_offset` of the first. The Version appears with the chunk that has kLastChunk. The staging
// bytes may be reused once consumed_seq >= seq.
struct WriteRecord {
  RecordHeader h;
  uint64_t buffer;
  uint64_t transfer;
  uint64_t staging_offset;
  uint64_t bytes;
  uint64_t buffer_offset;
  uint64_t total_bytes;  // of the whole transfer
  uint32_t flags;
  uint32_t reserved;
  uint64_t origin;
};
inline constexpr uint32_t kLastChunk = 1;
static_assert(sizeof(WriteRecord) == 80);

// Copies bytes [buffer_offset, +bytes) of the Buffer to staging. The data is there once the
// stream's completed_seq >= seq, unless the Read failed: then the u64 at staging[staging_offset +
// bytes rounded up to 8] is kReadFailed (the daemon stores 0 there when it takes the record) and
// the staging bytes are undefined. The root error may be unreported, or another thread has just
// taken it.
struct ReadRecord {
  RecordHeader h;
  uint64_t buffer;
  uint64_t staging_offset;
  uint64_t bytes;
  uint64_t buffer_offset;
  uint64_t origin;
};
static_assert(sizeof(ReadRecord) == 56);
inline constexpr uint64_t kReadFailed = 1;
inline constexpr uint64_t ReadStatusOffset(uint64_t bytes) { return (bytes + 7) & ~uint64_t{7}; }

struct CopyRecord {
  RecordHeader h;
  uint64_t source;
  uint64_t destination;  // same dtype and element count, any device
  uint64_t origin;
};
static_assert(sizeof(CopyRecord) == 40);

struct EventRecord {
  RecordHeader h;
  uint64_t event;  // client-made id
};
static_assert(sizeof(EventRecord) == 24);

struct WaitRecord {
  RecordHeader h;
  uint64_t seq;  // of the other stream
  uint16_t other_stream;
  uint8_t reserved[6];
};
static_assert(sizeof(WaitRecord) == 32);

struct LargeRecord {  // staging[staging_offset, +record_bytes) holds a whole record whose header
                      // has this seq
  RecordHeader h;
  uint64_t staging_offset;
  uint64_t record_bytes;
};
static_assert(sizeof(LargeRecord) == 32);

// ---------------------------------------------------------------------------------------------
// Socket frames. A request names the sequence number it follows: the session consumes the ring up
// to `after_seq` first.

enum class FrameType : uint16_t {
  kHello = 1,
  kHelloReply = 2,  // the only frames before a session exists
  kLookup = 3,
  kLookupReply = 4,  // key -> program
  kDefine = 5,
  kDefineReply = 6,  // program bytes -> program
  kGrant = 7,
  kGrantReply = 8,  // enlarge or return a memory grant
  kTakeError = 9,
  kTakeErrorReply = 10,  // report the oldest DeferredError of a stream or device
  kEventTime = 11,
  kEventTimeReply = 12,
  kDevices = 13,
  kDevicesReply = 14,
  kStats = 15,
  kStatsReply = 16,  // counters, as one JSON text
  kRetire = 17,
  kRetireReply = 18,  // a daemon without sessions drains and exits; instead of kHello
  kBye = 19,  // the client ends its session, no reply; from the daemon: the session is over, status
              // and text say why
};

struct FrameHeader {
  uint32_t magic;    // kMagic
  uint16_t type;     // FrameType
  uint16_t status;   // replies: absl::StatusCode; a status other than 0 is followed by the message
                     // text alone
  uint32_t bytes;    // of the payload
  uint32_t request;  // echoed
  uint64_t after_seq;
};
static_assert(sizeof(FrameHeader) == 24);

// Variable parts follow their fixed part in the order of their *_bytes fields, without padding.
struct HelloFrame {
  uint16_t abi_min, abi_max;
  uint32_t pid;
  uint32_t build_id_bytes;  // the daemon build the client was built with; empty: any
  uint32_t settings_bytes;  // lines "NAME=value": NEURON_RT_VISIBLE_CORES, NEURON_RT_NUM_CORES,
                            // NEURON_PROCESS_TAG, NEURON_FLOAT64, client_build (keys of another
                            // client_build, or of another user, are never met)
};
struct HelloReplyFrame {
  uint16_t abi;
  uint16_t device_count;
  uint32_t daemon_pid;
  uint64_t session;
  uint32_t build_id_bytes;
  uint32_t reserved;
};
struct LookupFrame {
  uint32_t key_bytes;
  uint32_t reserved;
};
struct LookupReplyFrame {  // status NOT_FOUND when unknown
  uint64_t program;        // 0: the key was remembered without one
  uint32_t meta_bytes;     // the client's own bytes, as it gave them in kDefine
  uint32_t reserved;
};
struct DefineFrame {  // key_bytes == 0: not remembered under a key; program_bytes == 0: the key is
                      // remembered without a Program (the client knows that there is none)
  uint32_t key_bytes;
  uint32_t meta_bytes;
  uint64_t program_bytes;  // neurond.v1.Program
};
struct DefineReplyFrame {
  uint64_t program;
};  // status UNIMPLEMENTED: an op has no lowering; the message names it
struct GrantFrame {
  uint32_t device;
  uint32_t reserved;
  int64_t delta_bytes;
};
struct GrantReplyFrame {
  int64_t granted_bytes;
  int64_t free_bytes;
  int64_t total_bytes;
};                       // RESOURCE_EXHAUSTED: refused
struct TakeErrorFrame {  // scope_stream >= 0: that stream up to upto_seq; else the device `device`;
                         // device < 0: all; buffer != 0: that Buffer's error Version
  int32_t scope_stream;
  int32_t device;
  uint64_t upto_seq;
  uint64_t buffer;
};
struct TakeErrorReplyFrame {  // found == 0: nothing unreported in that scope
  uint32_t found;
  uint32_t code;  // absl::StatusCode
  uint32_t kind;  // ErrorKind
  int32_t device;
  uint64_t seq;
  uint64_t origin;
  uint64_t remaining;     // roots still unreported
  uint32_t op_bytes;      // name of the op or graph
  uint32_t detail_bytes;  // "shapes, dtypes" of its inputs
  uint32_t stack_bytes;   // user stack recorded in the Program (graphs); else empty
  uint32_t message_bytes;
};
// Which Python exception an error becomes.
enum class ErrorKind : uint32_t {
  kRuntime = 0,
  kIndex = 1,
  kOutOfMemory = 2,
  kValue = 3,
  kZeroDivision = 4,
  kLinalg = 5
};
struct EventTimeFrame {
  uint64_t event;
};
struct EventTimeReplyFrame {
  int64_t time_ns;
};  // CLOCK_MONOTONIC at completion; NOT_FOUND before
struct DevicesReplyFrame {
  uint32_t count;
  uint32_t reserved;
};  // then count x DeviceFrame
struct DeviceFrame {
  char name[64];
  char platform[32];
  int64_t total_bytes;
  int64_t free_bytes;
};
static_assert(sizeof(HelloFrame) == 16 && sizeof(HelloReplyFrame) == 24 &&
              sizeof(LookupFrame) == 8);
static_assert(sizeof(LookupReplyFrame) == 16 && sizeof(DefineFrame) == 16 &&
              sizeof(DefineReplyFrame) == 8);
static_assert(sizeof(GrantFrame) == 16 && sizeof(GrantReplyFrame) == 24 &&
              sizeof(TakeErrorFrame) == 24);
static_assert(sizeof(TakeErrorReplyFrame) == 56 && sizeof(DeviceFrame) == 112);

}  // namespace neurond::ring

#endif  // NEUROND_PROTO_RING_RING_ABI_H_
