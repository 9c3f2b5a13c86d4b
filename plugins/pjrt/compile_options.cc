#include "plugins/pjrt/compile_options.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace neurond::pjrt {
namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto.
constexpr int kExecutableBuildOptions = 3;
constexpr int kCompilePortableExecutable = 4;
constexpr int kEnvOptionOverrides = 7;
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kMapKey = 1;
constexpr int kMapValue = 2;
constexpr int kStringValue = 1;
constexpr int kBoolValue = 2;
constexpr int kIntValue = 3;
constexpr int kDoubleValue = 4;

void AppendVarint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void AppendInt(int field, uint64_t value, std::string& out) {
  AppendVarint(static_cast<uint64_t>(field) << 3, out);
  AppendVarint(value, out);
}

void AppendBytes(int field, absl::string_view bytes, std::string& out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | 2, out);
  AppendVarint(bytes.size(), out);
  out.append(bytes.data(), bytes.size());
}

void AppendDouble(int field, double value, std::string& out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | 1, out);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(bits >> (8 * i)));
}

// An OptionOverrideProto: a oneof by the look of the value.
std::string OverrideValue(absl::string_view value) {
  std::string out;
  int64_t integer;
  double number;
  if (value == "true" || value == "false") {
    AppendInt(kBoolValue, value == "true", out);
  } else if (absl::SimpleAtoi(value, &integer)) {
    AppendInt(kIntValue, static_cast<uint64_t>(integer), out);
  } else if (absl::SimpleAtod(value, &number)) {
    AppendDouble(kDoubleValue, number, out);
  } else {
    AppendBytes(kStringValue, value, out);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> SerializeCompileOptions(absl::string_view text) {
  std::string build;
  AppendInt(kNumReplicas, 1, build);
  AppendInt(kNumPartitions, 1, build);
  std::string out;
  AppendBytes(kExecutableBuildOptions, build, out);
  AppendInt(kCompilePortableExecutable, 1, out);
  for (absl::string_view pair : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const size_t equals = pair.find('=');
    const absl::string_view name = absl::StripAsciiWhitespace(pair.substr(0, equals));
    if (equals == absl::string_view::npos || name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("compile option \"", pair, "\" is not of the form name=value"));
    }
    std::string entry;
    AppendBytes(kMapKey, name, entry);
    AppendBytes(kMapValue, OverrideValue(absl::StripAsciiWhitespace(pair.substr(equals + 1))),
                entry);
    AppendBytes(kEnvOptionOverrides, entry, out);
  }
  return out;
}

}  // namespace neurond::pjrt
