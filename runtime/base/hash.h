// 128-bit content hashes (xxh3), the names of cached things.
//
// Not cryptographic: whoever must not be fooled compares the full bytes too.
//
// Thread-safety: values and pure functions.

#ifndef NEUROND_RUNTIME_BASE_HASH_H_
#define NEUROND_RUNTIME_BASE_HASH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace neurond {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Hash128&) const = default;
  std::string Hex() const;  // 32 digits
  static std::optional<Hash128> FromHex(std::string_view hex);

  template <typename H>
  friend H AbslHashValue(H h, const Hash128& hash) {
    return H::combine(std::move(h), hash.high, hash.low);
  }
};

Hash128 HashBytes(std::string_view bytes);
// Of several parts; ("ab", "c") and ("a", "bc") differ.
Hash128 HashParts(std::span<const std::string_view> parts);

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_HASH_H_
