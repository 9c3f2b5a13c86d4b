// Entry: what a key leads to. EntryTable: all keys this process has met.
//
// Lifetime: entries are never freed, so readers hold plain pointers; an entry of an ended epoch is
// not found any more. Thread-safety: entries are immutable once published (but for `statics`'
// growth, which publishes a new entry). The table takes one short lock, under which nothing waits
// or calls out; in front of it is a per-thread cache.

#ifndef NEUROND_CLIENT_TORCH_CSRC_ENTRY_H_
#define NEUROND_CLIENT_TORCH_CSRC_ENTRY_H_

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/torch/csrc/call.h"
#include "proto/ring/ring_abi.h"

namespace neurond::shim {

// One value that a call returns: a tensor, or a number that follows from the shapes.
struct OutSpec {
  enum class Kind : uint8_t { kNew, kArg, kNone, kInt };
  Kind kind = Kind::kNone;
  bool contiguous = true;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  int32_t arg = -1;    // kArg: index into Call::tensors
  int64_t number = 0;  // kInt
  std::vector<int64_t> sizes, strides;
  // Derived.
  uint64_t elements = 0, bytes = 0;  // of the new Buffer; 0: no Buffer

  void Derive();
};

struct ReturnSpec {
  bool is_list = false;
  std::vector<OutSpec> items;
};

struct Entry {
  enum class Kind : uint8_t {
    kProgram,   // run it
    kStatic,    // append the values of `statics` to the key and look again
    kFallback,  // no lowering: the CPU
    kResize,    // resize tensors first (out=), then look again
  };
  struct Resize {
    int32_t tensor;
    std::vector<int64_t> sizes, strides;
  };

  Kind kind = Kind::kFallback;
  uint32_t epoch = 0;
  uint64_t program = 0;  // 0 with kProgram: nothing to run (no elements anywhere)
  uint64_t offsets = 0;  // random numbers: how far the generator moves
  std::vector<ReturnSpec> returns;
  std::vector<int32_t> statics;  // kStatic: scalars; kProgram: scalars without a word
  std::vector<Resize> resizes;
  std::string reason;                 // kFallback
  std::vector<std::string> warnings;  // that the CPU gives at every such call
  uint64_t hash = 0;
  std::vector<uint64_t> key;
  uint32_t new_buffers = 0;  // derived, as new_bytes
  uint64_t new_bytes = 0;

  bool Matches(const Call& call, uint64_t call_hash) const {
    return hash == call_hash && key.size() == call.key.size() &&
           std::equal(key.begin(), key.end(), call.key.begin());
  }
  void Warn() const;
};

class EntryTable {
 public:
  static EntryTable& Get();
  // nullptr: unknown in this epoch.
  const Entry* Find(const Call& call, uint64_t hash, uint32_t epoch);
  // Publishes; replaces an entry with the same key.
  const Entry* Insert(Entry entry);
};

// The client's own bytes beside a persistent alias: everything of an Entry but the program's id.
std::string EncodeEntry(const Entry& entry);
// false: not ours or damaged.
bool DecodeEntry(std::string_view bytes, Entry* entry);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_ENTRY_H_
