#include "runtime/session/words_cache.h"

#include <algorithm>

namespace neurond {
namespace {

size_t Mix(std::span<const int64_t> words) {
  uint64_t hash = words.size();
  for (int64_t word : words) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

absl::StatusOr<DeviceBufferPtr> WordsCache::Get(Device& device, std::span<const int64_t> words) {
  const auto upload = [&] {
    return device.plugin().Upload(device.index(), DType::kI64, static_cast<int64_t>(words.size()),
                                  words.data());
  };
  if (words.size() > kCachedWords) return upload();
  Entry& entry = entries_[Mix(words) % kEntries];
  if (entry.buffer != nullptr && entry.device == &device &&
      std::equal(words.begin(), words.end(), entry.words.begin(), entry.words.end())) {
    return entry.buffer;
  }
  absl::StatusOr<DeviceBufferPtr> made = upload();
  if (made.ok()) {
    entry.device = &device;
    entry.words.assign(words.begin(), words.end());
    entry.buffer = *made;
  }
  return made;
}

}  // namespace neurond
