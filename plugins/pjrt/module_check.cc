#include "plugins/pjrt/module_check.h"

#include <cctype>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/limits.h"

namespace neurond::pjrt {
namespace {

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
                     " has more than ", kElementsMax, " elements"));
  }
  return absl::OkStatus();
}

// `dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`: three lists behind each mention.
absl::Status CheckDimensionNumbers(absl::string_view module, absl::string_view word) {
  for (size_t at = module.find(word); at != absl::string_view::npos; at = module.find(word, at)) {
    at += word.size();
    int digits = 0;
    for (int lists = 0; lists < 3 && at < module.size() && module[at] != '\n'; ++at) {
      if (module[at] == ']') ++lists;
      digits = IsDigit(module[at]) ? digits + 1 : 0;
      if (digits > kConvolutionDimensionDigitsMax) {
        return absl::InvalidArgumentError("a dimension number of a convolution is out of range");
      }
    }
  }
  return absl::OkStatus();
}

// `replica_groups = dense<...> : tensor<1x2xi64>` behind a collective: groups of two.
bool HasOneParticipant(absl::string_view op) {
  const size_t groups = op.find("replica_groups");
  if (groups == absl::string_view::npos) return false;
  constexpr absl::string_view kType = ": tensor<";
  size_t at = op.find(kType, groups);
  if (at == absl::string_view::npos) return false;
  at = op.find('x', at + kType.size());
  if (at == absl::string_view::npos) return false;
  const absl::string_view size = op.substr(at + 1, 2);
  return size == "1x" || size == "0x";
}

absl::Status CheckCollectives(absl::string_view module) {
  for (absl::string_view op :
       {"stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.all_to_all",
        "stablehlo.reduce_scatter", "stablehlo.collective_permute",
        "stablehlo.collective_broadcast", "stablehlo.send", "stablehlo.recv"}) {
    for (size_t at = module.find(op); at != absl::string_view::npos;
         at = module.find(op, at + op.size())) {
      const absl::string_view line = module.substr(at, module.find('\n', at) - at);
      if (HasOneParticipant(line)) continue;
      return absl::UnimplementedError(
          absl::StrCat(op, " with other participants: an executable runs on one device"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModule(absl::string_view module) {
  if (module.substr(0, 4) == "ML\xefR") return absl::OkStatus();  // MLIR bytecode
  if (absl::Status status = CheckTensorSizes(module); !status.ok()) return status;
  if (absl::Status status = CheckCollectives(module); !status.ok()) return status;
  for (absl::string_view word : {"dim_numbers", "#stablehlo.conv"}) {
    if (absl::Status status = CheckDimensionNumbers(module, word); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace neurond::pjrt
