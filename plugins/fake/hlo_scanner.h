// Scanner over MLIR text: whitespace and comments skipped, one construct read at a time.
//
// Errors are sticky: the first Fail() is kept, later reads return nothing.
//
// Thread-safety: none.

#ifndef NEUROND_PLUGINS_FAKE_HLO_SCANNER_H_
#define NEUROND_PLUGINS_FAKE_HLO_SCANNER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "plugins/fake/hlo_module.h"

namespace neurond::fake {

class HloScanner {
 public:
  explicit HloScanner(std::string_view text) : text_(text) {}

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  void Fail(std::string_view message);  // INVALID_ARGUMENT with the line number
  void Refuse(std::string_view what);   // UNIMPLEMENTED

  bool AtEnd();
  char Peek();                       // '\0' at the end
  bool Take(std::string_view text);  // consumes `text` if it is next
  void Expect(std::string_view text);
  bool SkipTo(std::string_view text);  // behind the next `text`; false if there is none
  void SkipBraces();                   // behind the '}' that closes the '{' at hand
  std::string_view Until(char end);    // raw text before `end`, which is consumed
  std::string_view rest() const { return text_.substr(at_); }

  std::string Word();            // [A-Za-z_][A-Za-z0-9_.$]*, or empty
  std::string Name(char sigil);  // %x, @x or @"x": without sigil and quotes; empty if none
  int64_t Integer();
  std::vector<int64_t> IntegerList();  // [1, 2]
  HloType Type();

 private:
  void SkipSpace();

  std::string_view text_;
  size_t at_ = 0;
  absl::Status status_;
};

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_HLO_SCANNER_H_
