#include "runtime/base/hash.h"

#include <xxhash.h>

#include <charconv>
#include <memory>

namespace neurond {
namespace {

Hash128 From(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

}  // namespace

std::string Hash128::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(high >> (4 * i)) & 15];
    text[31 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return text;
}

std::optional<Hash128> Hash128::FromHex(std::string_view hex) {
  Hash128 hash;
  const auto read = [](std::string_view digits, uint64_t* number) {
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), *number, 16);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  if (hex.size() != 32 || !read(hex.substr(0, 16), &hash.high) || !read(hex.substr(16), &hash.low))
    return std::nullopt;
  return hash;
}

Hash128 HashBytes(std::string_view bytes) { return From(XXH3_128bits(bytes.data(), bytes.size())); }

Hash128 HashParts(std::span<const std::string_view> parts) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (std::string_view part : parts) {
    const uint64_t size = part.size();
    XXH3_128bits_update(state.get(), &size, sizeof(size));
    XXH3_128bits_update(state.get(), part.data(), part.size());
  }
  return From(XXH3_128bits_digest(state.get()));
}

}  // namespace neurond
