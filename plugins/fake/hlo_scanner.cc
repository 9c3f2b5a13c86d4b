#include "plugins/fake/hlo_scanner.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond::fake {
namespace {

bool IsWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool IsWordChar(char c) { return IsWordStart(c) || IsDigit(c) || c == '.' || c == '$'; }

DType FromHloName(std::string_view name) {
  for (int t = 1; t < kDTypeCount; ++t) {
    if (HloName(static_cast<DType>(t)) == name) return static_cast<DType>(t);
  }
  return DType::kInvalid;
}

}  // namespace

void HloScanner::Fail(std::string_view message) {
  if (!status_.ok()) return;
  const int64_t line = 1 + std::count(text_.begin(), text_.begin() + at_, '\n');
  status_ = absl::InvalidArgumentError(Cat("line ", line, ": ", message));
}

void HloScanner::Refuse(std::string_view what) {
  if (status_.ok()) {
    status_ = absl::UnimplementedError(Cat("the fake plugin does not interpret ", what));
  }
}

void HloScanner::SkipSpace() {
  while (at_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

bool HloScanner::AtEnd() { return Peek() == '\0'; }

char HloScanner::Peek() {
  SkipSpace();
  return ok() && at_ < text_.size() ? text_[at_] : '\0';
}

bool HloScanner::Take(std::string_view text) {
  SkipSpace();
  if (!ok() || text_.substr(at_, text.size()) != text) return false;
  at_ += text.size();
  return true;
}

void HloScanner::Expect(std::string_view text) {
  if (!Take(text)) Fail(Cat("expected '", text, "'"));
}

bool HloScanner::SkipTo(std::string_view text) {
  const size_t found = text_.find(text, at_);
  if (!ok() || found == std::string_view::npos) return false;
  at_ = found + text.size();
  return true;
}

void HloScanner::SkipBraces() {
  Expect("{");
  for (int depth = 1; depth > 0; ++at_) {
    if (at_ >= text_.size()) return Fail("'{' is not closed");
    if (text_[at_] == '{') ++depth;
    if (text_[at_] == '}') --depth;
  }
}

std::string_view HloScanner::Until(char end) {
  const size_t found = text_.find(end, at_);
  if (!ok() || found == std::string_view::npos) {
    Fail(Cat("expected '", std::string(1, end), "'"));
    return {};
  }
  const std::string_view raw = text_.substr(at_, found - at_);
  at_ = found + 1;
  return raw;
}

std::string HloScanner::Word() {
  const size_t begin = (SkipSpace(), at_);
  if (!ok() || at_ >= text_.size() || !IsWordStart(text_[at_])) return "";
  while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
  return std::string(text_.substr(begin, at_ - begin));
}

std::string HloScanner::Name(char sigil) {
  if (!Take(std::string_view(&sigil, 1))) return "";
  if (at_ < text_.size() && text_[at_] == '"') {
    ++at_;
    return std::string(Until('"'));
  }
  const size_t begin = at_;
  while (at_ < text_.size() && (IsWordChar(text_[at_]) || text_[at_] == '-')) ++at_;
  return std::string(text_.substr(begin, at_ - begin));
}

int64_t HloScanner::Integer() {
  SkipSpace();
  int64_t value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) {
    Fail("expected an integer");
    return 0;
  }
  at_ += end - begin;
  return value;
}

std::vector<int64_t> HloScanner::IntegerList() {
  std::vector<int64_t> values;
  Expect("[");
  while (ok() && !Take("]")) {
    values.push_back(Integer());
    if (Peek() != ']') Expect(",");
  }
  return values;
}

HloType HloScanner::Type() {
  HloType type;
  if (!Take("tensor<")) {
    Fail("expected a tensor type");
    return type;
  }
  int64_t elements = 1;
  while (ok() && IsDigit(Peek())) {
    const int64_t size = Integer();
    Expect("x");
    if (size < 0 || (size > 0 && elements > kElementsMax / size)) Fail("the tensor is too large");
    elements *= std::max<int64_t>(size, 1);
    type.sizes.push_back(size);
  }
  if (!ok()) return type;
  const bool is_complex = Take("complex<");
  std::string name = Word();
  if (is_complex) name = Cat("complex<", name, Take(">") ? ">" : "");
  type.dtype = FromHloName(name);
  if (!IsValid(type.dtype)) Refuse(Cat("element type '", name, "'"));
  if (!Take(">")) Refuse("dynamic sizes and encodings of tensor types");
  return type;
}

}  // namespace neurond::fake
