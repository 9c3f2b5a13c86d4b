#include "plugins/pjrt/module_check.h"

#include <cctype>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace neurond::pjrt {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 36;
constexpr size_t kDimensionNumberDigitsMax = 6;

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Reads "12x34x" dimension by dimension from `at`; false if their product is above the bound.
bool SizeFits(absl::string_view text, size_t at) {
  int64_t elements = 1;
  while (at < text.size() && IsDigit(text[at])) {
    int64_t dim = 0;
    for (; at < text.size() && IsDigit(text[at]); ++at) {
      dim = dim * 10 + (text[at] - '0');
      if (dim > kElementsMax) return false;
    }
    if (at >= text.size() || text[at] != 'x') return true;  // not a dimension
    ++at;
    if (dim != 0 && elements > kElementsMax / dim) return false;
    elements *= dim;
  }
  return true;
}

absl::Status CheckTensorSizes(absl::string_view module) {
  constexpr absl::string_view kTensor = "tensor<";
  for (size_t at = module.find(kTensor); at != absl::string_view::npos;
       at = module.find(kTensor, at + 1)) {
    if (SizeFits(module, at + kTensor.size())) continue;
    const size_t end = module.find('>', at);
    return absl::InvalidArgumentError(
        absl::StrCat(module.substr(at, end == absl::string_view::npos ? 40 : end + 1 - at),
                     " has more than 2^36 elements"));
  }
  return absl::OkStatus();
}

absl::Status CheckDimensionNumbers(absl::string_view module) {
  constexpr absl::string_view kWords[] = {"dim_numbers", "#stablehlo.conv"};
  for (absl::string_view word : kWords) {
    for (size_t at = module.find(word); at != absl::string_view::npos;
         at = module.find(word, at + 1)) {
      const size_t end = std::min(module.find('\n', at), module.size());
      size_t digits = 0;
      for (size_t i = at; i < end; ++i) {
        digits = IsDigit(module[i]) ? digits + 1 : 0;
        if (digits > kDimensionNumberDigitsMax && word == "dim_numbers" &&
            module.find("window", at) > i) {
          return absl::InvalidArgumentError("convolution dimension number out of range");
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModule(absl::string_view module) {
  if (module.substr(0, 4) == "ML\xefR") return absl::OkStatus();  // MLIR bytecode
  if (absl::Status status = CheckTensorSizes(module); !status.ok()) return status;
  return CheckDimensionNumbers(module);
}

}  // namespace neurond::pjrt
