// Client: one process's connection to the daemon. Starts the daemon if none runs, pushes records
// into the submission ring, exchanges socket frames, and waits for completion. Knows neither torch
// nor protobuf nor gRPC; includes only proto/ring and the C++ library.
//
// One Client per process and daemon epoch. When the daemon dies, the Client turns dead(): every
// later call returns UNAVAILABLE; the owner drops it and connects anew, and handles of the old
// epoch stay invalid.
//
// Thread-safety: all methods, from any thread. Pushes take one short lock, which also gives the
// sequence number; nothing under it waits on anything but ring space, and while waiting for space
// or for a reply the caller's `WaitHooks` run first (the shim releases the GIL there). AwaitRoom,
// Read, WaitCompleted, the first step of a large Write and requests other than TakeError return
// kCancelled, having done nothing, if the hooks say that the wait is interrupted. Free never
// blocks: with a full ring it goes to a local list that the next push flushes. After fork, the
// child's Client is poisoned: pushes return FAILED_PRECONDITION, Free and the destructor do
// nothing.

#ifndef NEUROND_CLIENT_RING_CLIENT_H_
#define NEUROND_CLIENT_RING_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/ring/ring_abi.h"

namespace neurond::client {

// The codes of absl::StatusCode, without Abseil.
enum class Code : uint16_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
};

struct [[nodiscard]] Status {
  Code code = Code::kOk;
  std::string message;
  bool ok() const { return code == Code::kOk; }
};

struct ConnectOptions {
  std::string address;      // socket path; empty: NEURON_RT_ADDRESS, else the per-user default
  std::string daemon_path;  // neurond to start when none listens; empty: never start one
  std::vector<std::string> daemon_args;
  std::string build_id;  // of that neurond (see BuildId()); empty: any daemon will do
  std::string settings;  // HelloFrame settings
  int start_timeout_ms = 20'000;
};

struct DeviceInfo {
  std::string name, platform;
  int64_t total_bytes = 0, free_bytes = 0;
};

// A root failure taken from the daemon.
struct DeviceError {
  uint32_t code = 0;
  ring::ErrorKind kind = ring::ErrorKind::kRuntime;
  int device = 0;
  uint64_t seq = 0, origin = 0, remaining = 0;
  std::string op, detail, stack, message;
};

// Called around every wait that may last. Enter may be called with or without the GIL held.
struct WaitHooks {
  void* (*enter)() = nullptr;
  void (*leave)(void*) = nullptr;
  // Asked while a wait lasts: some ten times a second, and when a signal was caught. Runs between
  // enter and leave, without a lock of the client, and may call the client. True: the waiting call
  // gives up and returns kCancelled.
  bool (*interrupted)() = nullptr;
};

class Client {
 public:
  static Status Connect(const ConnectOptions& options, WaitHooks hooks,
                        std::unique_ptr<Client>* client);
  virtual ~Client() = default;

  // ELF build id (hex) of the daemon this client talks to, its pid and this session's id.
  virtual std::string daemon_build_id() const = 0;
  virtual int daemon_pid() const = 0;
  virtual uint64_t session() const = 0;
  virtual int device_count() const = 0;
  virtual bool dead() const = 0;  // the daemon is gone, or this is a forked child

  // Waits until the ring has room for many records. A submission must not be given up halfway, so
  // what may be interrupted waits here, before anything has begun.
  virtual Status AwaitRoom() = 0;

  // Ids start at 1 and are never reused.
  virtual uint64_t NewBufferId() = 0;

  // Submission. Each returns the record's sequence number in *seq (may be nullptr).
  virtual Status Alloc(uint64_t buffer, ring::DType dtype, uint64_t elements, int device) = 0;
  virtual void Free(uint64_t buffer) = 0;  // never blocks, never fails; no-op once dead
  virtual Status Execute(int stream, uint64_t program, uint64_t origin,
                         std::span<const uint64_t> inputs, std::span<const uint64_t> outputs,
                         std::span<const int64_t> words, uint64_t* seq) = 0;
  virtual Status Copy(int stream, uint64_t source, uint64_t destination, uint64_t origin,
                      uint64_t* seq) = 0;
  virtual Status RecordEvent(int stream, uint64_t event, uint64_t* seq) = 0;
  virtual Status WaitStream(int stream, int other_stream, uint64_t other_seq) = 0;

  // Uploads `bytes` from `data` to byte `offset` of the Buffer, through staging, in chunks; `data`
  // may be reused on return.
  virtual Status Write(int stream, uint64_t buffer, uint64_t offset, const void* data,
                       uint64_t bytes, uint64_t origin, uint64_t* seq) = 0;
  // Downloads and waits. A failed producer: returns kAborted, and TakeBufferError / TakeError has
  // the root.
  virtual Status Read(int stream, uint64_t buffer, uint64_t offset, void* data, uint64_t bytes,
                      uint64_t origin) = 0;

  // Completion.
  virtual uint64_t last_seq(
      int stream) const = 0;  // of the last record pushed on that stream; 0: none
  virtual uint64_t completed_seq(int stream) const = 0;        // one atomic load
  virtual Status WaitCompleted(int stream, uint64_t seq) = 0;  // does not look at errors
  // Waits as long as that at most. False: not completed.
  virtual bool WaitCompletedFor(int stream, uint64_t seq, std::chrono::milliseconds most) = 0;
  virtual uint64_t unreported() const = 0;  // one atomic load

  // Errors. found == false: none in that scope.
  virtual Status TakeError(int stream, int device, uint64_t upto_seq, uint64_t buffer, bool* found,
                           DeviceError* error) = 0;

  // Programs.
  virtual Status Lookup(std::string_view key, uint64_t* program,
                        std::string* meta) = 0;  // kNotFound: unknown
  virtual Status Define(std::string_view key, std::string_view meta, std::string_view program_bytes,
                        uint64_t* program) = 0;

  virtual Status ChangeGrant(int device, int64_t delta_bytes, int64_t* granted, int64_t* free_bytes,
                             int64_t* total) = 0;
  virtual Status EventTime(uint64_t event, int64_t* time_ns) = 0;
  virtual Status Devices(std::vector<DeviceInfo>* devices) = 0;
  virtual Status Stats(std::string* json) = 0;
};

// The GNU build id (hex) of an ELF file; empty if it has none.
std::string BuildId(const std::string& path);

// The per-user socket path: $XDG_RUNTIME_DIR/neurond/neurond.sock, else
// /tmp/neurond-<uid>/neurond.sock (directory 0700, ours). kFailedPrecondition names the directory
// and what is wrong with it.
Status DefaultAddress(std::string* path);

}  // namespace neurond::client

#endif  // NEUROND_CLIENT_RING_CLIENT_H_
