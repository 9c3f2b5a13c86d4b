// WordsCache: device buffers of packed run-time words, reused while the words repeat.
//
// An eager loop executes the same op with the same scalars over and over, and uploading 16 bytes
// costs as much as a tiny program. Nobody writes or donates these buffers.
//
// Thread-safety: the Session's owner thread.

#ifndef NEUROND_RUNTIME_SESSION_WORDS_CACHE_H_
#define NEUROND_RUNTIME_SESSION_WORDS_CACHE_H_

#include <array>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "runtime/device/device.h"

namespace neurond {

class WordsCache {
 public:
  absl::StatusOr<DeviceBufferPtr> Get(Device& device, std::span<const int64_t> words);

 private:
  static constexpr size_t kEntries = 64;  // a training step has some dozens of distinct scalar sets
  static constexpr size_t kCachedWords = 16;  // longer ones hold offsets that rarely repeat
  struct Entry {
    const Device* device = nullptr;
    absl::InlinedVector<int64_t, 4> words;
    DeviceBufferPtr buffer;
  };
  std::array<Entry, kEntries> entries_;
};

}  // namespace neurond

#endif  // NEUROND_RUNTIME_SESSION_WORDS_CACHE_H_
