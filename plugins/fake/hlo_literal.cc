#include "plugins/fake/hlo_literal.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "plugins/fake/number.h"
#include "runtime/base/text.h"

namespace neurond::fake {
namespace {

absl::Status Bad(std::string_view what) {
  return absl::InvalidArgumentError(Cat("dense<...>: ", what));
}

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

// dense<"0x..."> : the bytes of all elements.
absl::StatusOr<std::vector<char>> FromHexBytes(std::string_view digits) {
  if (digits.size() % 2 != 0) return Bad("an odd number of hex digits");
  std::vector<char> bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    const auto high = HexDigit(digits[i]), low = HexDigit(digits[i + 1]);
    if (!high || !low) return Bad("a character that is no hex digit");
    bytes.push_back(static_cast<char>(*high * 16 + *low));
  }
  return bytes;
}

// One real number. For a float a hex number is its bits; for an integer it is the value.
bool ReadReal(const std::string& word, DType dtype, char* to) {
  if (word.empty()) return false;
  if (word == "true" || word == "false") {
    StoreNumber(dtype, {.i = word == "true"}, to);
    return dtype == DType::kBool;
  }
  const bool hex = word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
  char* end = nullptr;
  if (IsFloat(dtype) && !hex) {
    StoreNumber(dtype, {.re = std::strtod(word.c_str(), &end)}, to);
    return *end == '\0';
  }
  const bool negative = word[0] == '-';
  const uint64_t magnitude = std::strtoull(word.c_str() + (negative ? 1 : 0), &end, hex ? 16 : 10);
  if (*end != '\0') return false;
  const uint64_t bits = negative ? uint64_t{0} - magnitude : magnitude;
  if (IsFloat(dtype)) {
    std::memcpy(to, &bits, DTypeBytes(dtype));  // little-endian
  } else {
    StoreNumber(dtype, {.i = static_cast<int64_t>(bits)}, to);
  }
  return true;
}

// The numbers of `raw` in order, brackets dropped: row-major order is the order of the text.
std::vector<std::string> Words(std::string_view raw) {
  std::vector<std::string> words;
  std::string word;
  for (char c : raw) {
    const bool separates = std::isspace(static_cast<unsigned char>(c)) != 0 || c == '[' ||
                           c == ']' || c == ',' || c == '(' || c == ')';
    if (!separates) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

}  // namespace

absl::StatusOr<std::vector<char>> ParseLiteral(std::string_view raw, const HloType& type) {
  const size_t all = static_cast<size_t>(type.bytes());
  std::vector<char> bytes;
  if (raw.substr(0, 3) == "\"0x" && raw.back() == '"') {
    absl::StatusOr<std::vector<char>> hex = FromHexBytes(raw.substr(3, raw.size() - 4));
    if (!hex.ok()) return hex;
    bytes = *std::move(hex);
  } else {
    const bool is_complex = IsComplex(type.dtype);
    const DType part = type.dtype == DType::kC64    ? DType::kF32
                       : type.dtype == DType::kC128 ? DType::kF64
                                                    : type.dtype;
    const size_t part_bytes = DTypeBytes(part);
    const std::vector<std::string> words = Words(raw);
    if (is_complex && words.size() % 2 != 0) return Bad("a complex number without its second part");
    bytes.resize(words.size() * part_bytes);
    for (size_t i = 0; i < words.size(); ++i) {
      if (!ReadReal(words[i], part, bytes.data() + i * part_bytes)) {
        return Bad(Cat("'", words[i], "' is no ", HloName(part)));
      }
    }
  }
  const size_t one = static_cast<size_t>(DTypeBytes(type.dtype));
  if (bytes.size() == one && all != one) {
    std::vector<char> splat(all);
    for (size_t at = 0; at < all; at += one) std::memcpy(splat.data() + at, bytes.data(), one);
    return splat;
  }
  if (bytes.size() != all) {
    return Bad(Cat(bytes.size() / one, " values for ", type.ToString()));
  }
  return bytes;
}

}  // namespace neurond::fake
