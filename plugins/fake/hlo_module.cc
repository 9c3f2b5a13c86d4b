#include "plugins/fake/hlo_module.h"

#include <charconv>
#include <functional>
#include <utility>

#include "plugins/fake/hlo_literal.h"
#include "plugins/fake/hlo_scanner.h"
#include "runtime/base/text.h"

namespace neurond::fake {
namespace {

// The attributes `{...}` at hand; returns the value of tf.aliasing_output, or -1.
int AliasAttribute(HloScanner& scanner, std::string_view text_from_here) {
  constexpr std::string_view kAlias = "tf.aliasing_output";
  const size_t end = text_from_here.find('}');
  size_t at = text_from_here.find(kAlias);
  scanner.SkipBraces();
  if (at == std::string_view::npos || at > end) return -1;
  at += kAlias.size();
  while (at < end && (text_from_here[at] == ' ' || text_from_here[at] == '=')) ++at;
  int alias = -1;
  std::from_chars(text_from_here.data() + at, text_from_here.data() + end, alias);
  return alias;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), scanner_(text) {}

  HloSignature Signature() {
    HloSignature signature;
    if (text_.substr(0, 4) == "ML\xefR") {
      scanner_.Fail("MLIR bytecode; the fake plugin reads text only");
      return signature;
    }
    if (scanner_.SkipTo("module")) {
      if (scanner_.Peek() == '@') signature.name = scanner_.Name('@');
    } else {
      scanner_.Fail("expected a module");
    }
    if (scanner_.ok() && !scanner_.SkipTo("@main")) scanner_.Fail("the module has no @main");
    scanner_.Expect("(");
    while (scanner_.ok() && !scanner_.Take(")")) {
      Parameter(signature);
      if (scanner_.Peek() != ')') scanner_.Expect(",");
    }
    if (scanner_.Take("->")) Results(signature);
    for (int& alias : signature.aliases) {
      if (alias >= static_cast<int>(signature.results.size())) {
        scanner_.Fail("tf.aliasing_output names no result");
      }
    }
    return signature;
  }

  HloModule Module() {
    HloModule module;
    module.signature = Signature();
    if (scanner_.Take("attributes")) scanner_.SkipBraces();
    scanner_.Expect("{");
    for (size_t i = 0; i < module.signature.parameters.size(); ++i) {
      types_.push_back(module.signature.parameters[i]);
    }
    while (scanner_.ok() && scanner_.Peek() == '%') Instruction(module);
    Return(module);
    scanner_.Expect("}");
    return module;
  }

  const absl::Status& status() const { return scanner_.status(); }

 private:
  void Parameter(HloSignature& signature) {
    const std::string name = scanner_.Name('%');
    if (name.empty()) scanner_.Fail("expected a parameter");
    values_[name] = static_cast<int>(signature.parameters.size());
    scanner_.Expect(":");
    signature.parameters.push_back(scanner_.Type());
    signature.aliases.push_back(-1);
    if (scanner_.Peek() == '{') {
      signature.aliases.back() = AliasAttribute(scanner_, scanner_.rest());
    }
  }

  void Results(HloSignature& signature) {
    if (!scanner_.Take("(")) {
      signature.results.push_back(scanner_.Type());
      return;
    }
    while (scanner_.ok() && !scanner_.Take(")")) {
      signature.results.push_back(scanner_.Type());
      if (scanner_.Peek() == '{') scanner_.SkipBraces();
      if (scanner_.Peek() != ')') scanner_.Expect(",");
    }
  }

  // `%name`, which must be defined.
  int Operand() {
    const std::string name = scanner_.Name('%');
    const auto it = values_.find(name);
    if (it == values_.end()) {
      scanner_.Fail(Cat("use of undeclared value %", name));
      return 0;
    }
    return it->second;
  }

  void Instruction(HloModule& module) {
    const std::string name = scanner_.Name('%');
    if (scanner_.Peek() == ':') scanner_.Refuse("ops with several results");
    scanner_.Expect("=");
    if (scanner_.Peek() == '"')
      scanner_.Refuse(Cat("the generic form ", std::string(scanner_.rest().substr(0, 40))));
    const std::string op = scanner_.Word();
    HloInstruction instruction;
    if (op.rfind("stablehlo.", 0) != 0) return scanner_.Refuse(Cat("op '", op, "'"));
    instruction.op = op.substr(10);
    std::string_view literal;
    if (instruction.op == "constant") {
      scanner_.Expect("dense<");
      literal = scanner_.Until('>');
    } else {
      Operands(instruction);
    }
    scanner_.Expect(":");
    instruction.type = ResultType();
    if (!scanner_.ok()) return;
    if (instruction.op == "constant") {
      absl::StatusOr<std::vector<char>> bytes = ParseLiteral(literal, instruction.type);
      if (!bytes.ok()) return scanner_.Fail(std::string(bytes.status().message()));
      instruction.literal = *std::move(bytes);
    }
    values_[name] = static_cast<int>(types_.size());
    types_.push_back(instruction.type);
    module.instructions.push_back(std::move(instruction));
  }

  // Everything between the op's name and the colon before its types.
  void Operands(HloInstruction& instruction) {
    while (scanner_.ok() && scanner_.Peek() != ':') {
      const char next = scanner_.Peek();
      if (next == '%') {
        instruction.operands.push_back(Operand());
      } else if (next == '[') {
        SliceRanges(instruction);
      } else if (next == '{') {
        scanner_.SkipBraces();
      } else if (const std::string word = scanner_.Word(); !word.empty()) {
        Attribute(instruction, word);
      } else if (!scanner_.Take(",")) {
        scanner_.Refuse(Cat("this form of stablehlo.", instruction.op));
      }
    }
  }

  void Attribute(HloInstruction& instruction, const std::string& word) {
    if (!scanner_.Take("=")) {
      if (instruction.word.empty())
        instruction.word = word;  // LT, FLOAT: the first is the direction
      return;
    }
    instruction.numbers[word] =
        scanner_.Peek() == '[' ? scanner_.IntegerList() : std::vector<int64_t>{scanner_.Integer()};
  }

  // [0:4, 2:8:2]
  void SliceRanges(HloInstruction& instruction) {
    auto& numbers = instruction.numbers;
    numbers["starts"], numbers["limits"], numbers["strides"];  // a scalar has none
    scanner_.Expect("[");
    while (scanner_.ok() && !scanner_.Take("]")) {
      numbers["starts"].push_back(scanner_.Integer());
      scanner_.Expect(":");
      numbers["limits"].push_back(scanner_.Integer());
      numbers["strides"].push_back(scanner_.Take(":") ? scanner_.Integer() : 1);
      if (scanner_.Peek() != ']') scanner_.Expect(",");
    }
  }

  // `t`, `t, t` or `(t, t) -> t`: the last one is the result's.
  HloType ResultType() {
    if (scanner_.Take("(")) {
      while (scanner_.ok() && !scanner_.Take(")")) {
        scanner_.Type();
        if (scanner_.Peek() != ')') scanner_.Expect(",");
      }
      scanner_.Expect("->");
      return scanner_.Type();
    }
    HloType type = scanner_.Type();
    while (scanner_.Take(",")) type = scanner_.Type();
    if (scanner_.Take("->")) type = scanner_.Type();
    return type;
  }

  void Return(HloModule& module) {
    const std::string word = scanner_.Word();
    if (word != "return" && word != "func.return") {
      return scanner_.Fail(Cat("expected an op or return, found '", word, "'"));
    }
    const std::vector<HloType>& results = module.signature.results;
    while (scanner_.Peek() == '%') {
      module.results.push_back(Operand());
      if (!scanner_.Take(",")) break;
    }
    if (scanner_.Take(":")) ResultType();
    if (module.results.size() != results.size()) {
      return scanner_.Fail(
          Cat("returns ", module.results.size(), " values, main has ", results.size(), " results"));
    }
    for (size_t i = 0; i < results.size() && scanner_.ok(); ++i) {
      if (types_[module.results[i]] == results[i]) continue;
      scanner_.Fail(Cat("returns ", types_[module.results[i]].ToString(), " as result ", i,
                        ", main has ", results[i].ToString()));
    }
  }

  std::string_view text_;
  HloScanner scanner_;
  std::map<std::string, int> values_;
  std::vector<HloType> types_;  // by value
};

}  // namespace

int64_t HloType::elements() const {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

std::string HloType::ToString() const {
  std::string text = "tensor<";
  for (int64_t size : sizes) Append(text, size, "x");
  Append(text, HloName(dtype), ">");
  return text;
}

std::string HloSignature::ToText() const {
  std::string text = Cat("module @\"", name, "\" { func.func @main(");
  for (size_t i = 0; i < parameters.size(); ++i) {
    Append(text, i == 0 ? "" : ", ", "%", i, ": ", parameters[i].ToString());
    if (aliases[i] >= 0) Append(text, " {tf.aliasing_output = ", aliases[i], " : i32}");
  }
  Append(text, ") -> (");
  for (size_t i = 0; i < results.size(); ++i) {
    Append(text, i == 0 ? "" : ", ", results[i].ToString());
  }
  return text + ")";
}

absl::StatusOr<HloSignature> ParseSignature(std::string_view text) {
  Parser parser(text);
  HloSignature signature = parser.Signature();
  if (!parser.status().ok()) return parser.status();
  return signature;
}

absl::StatusOr<HloModule> ParseModule(std::string_view text) {
  Parser parser(text);
  HloModule module = parser.Module();
  if (!parser.status().ok()) return parser.status();
  return module;
}

}  // namespace neurond::fake
