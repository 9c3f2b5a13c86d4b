#include "server/grpc/mlir_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

#include "absl/strings/ascii.h"
#include "runtime/base/dtype.h"
#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond {
namespace {

using Kind = MlirTokenKind;

// Characters of bare identifiers; MLIR's suffix-ids (after @ % # ! ^) also take '-'.
bool IsIdStart(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsIdChar(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '.'; }
bool IsSuffixChar(char c) { return IsIdChar(c) || c == '-'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<MlirToken>> Run() {
    std::vector<MlirToken> tokens;
    for (SkipBlanks(); at_ < source_.size(); SkipBlanks()) {
      const size_t begin = at_;
      const absl::StatusOr<Kind> kind = Next();
      if (!kind.ok()) return kind.status();
      tokens.push_back({*kind, source_.substr(begin, at_ - begin)});
    }
    return tokens;
  }

 private:
  void SkipBlanks() {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        line_ += c == '\n';
        ++at_;
      } else if (source_.substr(at_, 2) == "//") {
        while (at_ < source_.size() && source_[at_] != '\n' && source_[at_] != '\r') ++at_;
      } else {
        return;
      }
    }
  }

  absl::StatusOr<Kind> Next() {
    const char c = source_[at_];
    if (c == '"') return String();
    if (c == '@' && Peek(1) == '"') {
      ++at_;
      const absl::StatusOr<Kind> quoted = String();
      return quoted.ok() ? absl::StatusOr<Kind>(Kind::kSymbol) : quoted;
    }
    if (c == '@') {
      ++at_;
      Take(IsIdChar);
      return Kind::kSymbol;
    }
    if (c == '%') {  // digits, or an identifier that may hold '-'
      ++at_;
      if (absl::ascii_isdigit(Peek(0))) {
        Take([](char d) { return absl::ascii_isdigit(d); });
      } else {
        Take(IsSuffixChar);
      }
      return Kind::kValue;
    }
    if (IsIdStart(c)) {
      Take(IsIdChar);
      return Kind::kIdentifier;
    }
    if (absl::ascii_isdigit(c)) {
      Take([](char d) { return absl::ascii_isdigit(d); });
      return Kind::kNumber;
    }
    if (c == '-' && Peek(1) == '>') {
      at_ += 2;
      return Kind::kArrow;
    }
    if (absl::ascii_isprint(c)) {
      ++at_;
      return Kind::kPunctuation;
    }
    return Error(Cat("unexpected byte ", static_cast<unsigned char>(c)));
  }

  absl::StatusOr<Kind> String() {
    for (++at_; at_ < source_.size(); ++at_) {
      const char c = source_[at_];
      if (c == '"') {
        ++at_;
        return Kind::kString;
      }
      if (c == '\n' || c == '\v' || c == '\f' || c == '\0') break;
      if (c == '\\') ++at_;
    }
    return Error("string without an end");
  }

  template <typename Predicate>
  void Take(Predicate belongs) {
    while (at_ < source_.size() && belongs(source_[at_])) ++at_;
  }
  char Peek(size_t ahead) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(Cat("StableHLO module, line ", line_, ": ", what));
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
};

DType ParseElementType(std::string_view name) {
  for (int i = 1; i < kDTypeCount; ++i) {
    if (HloName(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return DType::kInvalid;
}

// Reads one function signature from its tokens, left to right.
class SignatureParser {
 public:
  SignatureParser(std::string_view source, const std::vector<MlirToken>& tokens, size_t at)
      : source_(source), tokens_(tokens), at_(at) {}

  absl::Status Parse(MlirFunction& function) {
    if (absl::Status s = Expect("("); !s.ok()) return s;
    while (!Is(")")) {
      if (at_ >= tokens_.size() || tokens_[at_].kind != Kind::kValue) {
        return Unexpected("an argument such as %arg0");
      }
      function.argument_names.emplace_back(tokens_[at_++].text);
      if (absl::Status s = Expect(":"); !s.ok()) return s;
      if (absl::Status s = TypeWithAttributes(function.inputs); !s.ok()) return s;
      if (!Is(",")) break;
      ++at_;
    }
    if (absl::Status s = Expect(")"); !s.ok()) return s;
    if (Is("->")) {
      ++at_;
      if (absl::Status s = Results(function.outputs); !s.ok()) return s;
    }
    if (Is("attributes")) {
      ++at_;
      if (absl::Status s = SkipBraces(); !s.ok()) return s;
    }
    if (!Is("{")) return Unexpected("the body of @main");
    function.body_begin = Offset();
    return absl::OkStatus();
  }

 private:
  absl::Status Results(std::vector<TensorType>& types) {
    if (!Is("(")) return Type(types);
    ++at_;
    while (!Is(")")) {
      if (absl::Status s = TypeWithAttributes(types); !s.ok()) return s;
      if (!Is(",")) break;
      ++at_;
    }
    return Expect(")");
  }

  absl::Status TypeWithAttributes(std::vector<TensorType>& types) {
    if (absl::Status s = Type(types); !s.ok()) return s;
    if (Is("{")) {
      if (absl::Status s = SkipBraces(); !s.ok()) return s;
    }
    if (!Is("loc")) return absl::OkStatus();
    ++at_;
    return SkipBalanced("(", ")");
  }

  absl::Status Type(std::vector<TensorType>& types) {
    if (!Is("tensor")) return Unexpected("a type of the form tensor<4x8xf32>");
    const size_t begin = Offset();
    ++at_;
    if (absl::Status s = SkipBalanced("<", ">"); !s.ok()) return s;
    const MlirToken& last = tokens_[at_ - 1];
    const size_t end = last.text.data() + last.text.size() - source_.data();
    absl::StatusOr<TensorType> type = ParseTensorType(source_.substr(begin, end - begin));
    if (!type.ok()) return type.status();
    types.push_back(*std::move(type));
    return absl::OkStatus();
  }

  absl::Status SkipBraces() { return SkipBalanced("{", "}"); }
  absl::Status SkipBalanced(std::string_view open, std::string_view close) {
    if (!Is(open)) return Unexpected(open);
    int depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      if (Is(open)) ++depth;
      if (Is(close) && --depth == 0) {
        ++at_;
        return absl::OkStatus();
      }
    }
    return Unexpected(close);
  }

  bool Is(std::string_view text) const {
    return at_ < tokens_.size() && tokens_[at_].kind != Kind::kString && tokens_[at_].text == text;
  }
  size_t Offset() const { return tokens_[at_].text.data() - source_.data(); }
  absl::Status Expect(std::string_view text) {
    if (!Is(text)) return Unexpected(text);
    ++at_;
    return absl::OkStatus();
  }
  absl::Status Unexpected(std::string_view wanted) const {
    const std::string_view seen = at_ < tokens_.size() ? tokens_[at_].text : "the end";
    const size_t offset = at_ < tokens_.size() ? Offset() : source_.size();
    const auto line = 1 + std::count(source_.begin(), source_.begin() + offset, '\n');
    return absl::InvalidArgumentError(Cat("StableHLO module, line ", line,
                                          ", signature of @main: expected ", wanted, ", saw ",
                                          seen.substr(0, 80)));
  }

  std::string_view source_;
  const std::vector<MlirToken>& tokens_;
  size_t at_;
};

}  // namespace

absl::StatusOr<std::vector<MlirToken>> TokenizeMlir(std::string_view source) {
  return Lexer(source).Run();
}

absl::StatusOr<TensorType> ParseTensorType(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        Cat("type ", text.substr(0, 100), " of @main's signature: ", why));
  };
  constexpr std::string_view kPrefix = "tensor<";
  if (text.substr(0, kPrefix.size()) != kPrefix || text.back() != '>') {
    return refuse("expected tensor<...>");
  }
  std::string_view rest = text.substr(kPrefix.size(), text.size() - kPrefix.size() - 1);
  TensorType type;
  int64_t elements = 1;
  while (!rest.empty() && (absl::ascii_isdigit(rest[0]) || rest[0] == '?')) {
    if (rest[0] == '?') return refuse("sizes must be static");
    int64_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    rest.remove_prefix(end - rest.data());
    if (error != std::errc() || rest.empty() || rest[0] != 'x') return refuse("bad sizes");
    rest.remove_prefix(1);
    if (__builtin_mul_overflow(elements, size, &elements)) return refuse("too many elements");
    type.sizes.push_back(size);
  }
  if (elements > kElementsMax) return refuse(Cat("expected at most ", kElementsMax, " elements"));
  if (type.sizes.size() > static_cast<size_t>(kRankMax)) {
    return refuse(Cat("expected at most ", kRankMax, " sizes"));
  }
  type.dtype = ParseElementType(rest);
  if (!IsValid(type.dtype)) return refuse("no element type that this daemon knows");
  return type;
}

std::string TensorTypeText(const TensorType& type) {
  std::string text = "tensor<";
  for (const int64_t size : type.sizes) Append(text, size, "x");
  Append(text, HloName(type.dtype), ">");
  return text;
}

absl::StatusOr<MlirFunction> FindMain(std::string_view source,
                                      const std::vector<MlirToken>& tokens) {
  const auto is = [&](size_t i, std::string_view text) {
    return i < tokens.size() && tokens[i].kind != Kind::kString && tokens[i].text == text;
  };
  const bool in_module = is(0, "module") || is(0, "builtin.module");
  int depth = 0, mentions = 0;
  size_t name = tokens.size(), begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (is(i, "{")) ++depth;
    if (is(i, "}")) --depth;
    if (is(i, "@\"main\"")) {
      return absl::InvalidArgumentError("StableHLO module: write the entry function as @main");
    }
    if (!is(i, "@main") || (in_module && i == 1)) continue;  // the module may have that name too
    ++mentions;
    const bool qualified = i > 0 && (is(i - 1, "public") || is(i - 1, "private"));
    const size_t keyword = i - (qualified ? 2 : 1);
    if (i >= (qualified ? 2u : 1u) && is(keyword, "func.func") && depth == (in_module ? 1 : 0)) {
      name = i;
      begin = tokens[keyword].text.data() - source.data();
    }
  }
  if (name == tokens.size()) {
    return absl::InvalidArgumentError(
        "StableHLO module: expected func.func @main at the top level (pretty form, as printed by "
        "MLIR), found none");
  }
  if (mentions != 1) {
    return absl::InvalidArgumentError(
        Cat("StableHLO module: expected @main to be named once, saw it ", mentions, " times"));
  }
  MlirFunction function;
  function.begin = begin;
  if (absl::Status s = SignatureParser(source, tokens, name + 1).Parse(function); !s.ok()) return s;
  const size_t tensors = std::max(function.inputs.size(), function.outputs.size());
  if (tensors > static_cast<size_t>(kGrpcTensorsMax)) {
    return absl::InvalidArgumentError(Cat("StableHLO module: expected at most ", kGrpcTensorsMax,
                                          " inputs and outputs of @main, saw ", tensors));
  }
  return function;
}

}  // namespace neurond
