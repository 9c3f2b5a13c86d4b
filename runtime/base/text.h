// Text from parts: Cat("sizes ", n, ...) and Join(list, ", "); and Shortened(text, max).
//
// Debian 12's Abseil has its own string_view, which absl::StrCat demands; these take
// std::string_view, so that the same source builds with either Abseil.
//
// Thread-safety: pure functions.

#ifndef NEUROND_RUNTIME_BASE_TEXT_H_
#define NEUROND_RUNTIME_BASE_TEXT_H_

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace neurond {

template <typename Part>
void AppendPart(std::string& out, const Part& part) {
  if constexpr (std::is_same_v<Part, bool>) {
    out.append(part ? "true" : "false");
  } else if constexpr (std::is_arithmetic_v<Part>) {
    char text[32];
    const char* end = std::to_chars(text, text + sizeof(text), part).ptr;
    out.append(text, static_cast<size_t>(end - text));
  } else {
    out.append(std::string_view(part));
  }
}

template <typename... Parts>
void Append(std::string& out, const Parts&... parts) {
  (AppendPart(out, parts), ...);
}

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  Append(out, parts...);
  return out;
}

template <typename List>
std::string Join(const List& list, std::string_view separator = ", ") {
  std::string out;
  bool first = true;
  for (const auto& item : list) {
    if (!first) out.append(separator);
    first = false;
    AppendPart(out, item);
  }
  return out;
}

// At most `bytes_max` bytes of `text`, none of them half a UTF-8 character, and how many are
// missing.
inline std::string Shortened(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  size_t end = bytes_max;
  while (end > 0 && bytes_max - end < 3 && (text[end] & 0xc0) == 0x80) --end;
  return Cat(text.substr(0, end), " ... (", text.size() - end, " bytes more)");
}

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_TEXT_H_
