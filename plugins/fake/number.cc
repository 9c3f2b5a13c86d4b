#include "plugins/fake/number.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace neurond::fake {
namespace {

template <typename T>
T Read(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void Write(T value, char* to) {
  std::memcpy(to, &value, sizeof(value));
}

double FromHalf(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

uint16_t ToHalf(double value) {
  if (std::isnan(value)) return 0x7E00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return sign | 0x7C00;  // rounds to 2^16 or above
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The unit in the last place: 2^-24 below the smallest normal number.
  const int unit = magnitude < 0x1p-14 ? -24 : exponent - 11;
  const double units = std::nearbyint(std::ldexp(magnitude, -unit));
  if (magnitude < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<int>(units));
  return static_cast<uint16_t>(sign + ((unit + 24) << 10) + static_cast<int>(units));
}

uint16_t ToBfloat16(double value) {
  const float f = static_cast<float>(value);
  if (std::isnan(f)) return 0x7FC0;
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
int64_t Saturate(double value) {
  if (std::isnan(value)) return 0;
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  if (value <= static_cast<double>(low)) return static_cast<int64_t>(low);
  if (value >= static_cast<double>(high)) return static_cast<int64_t>(high);
  return static_cast<int64_t>(static_cast<T>(value));
}

int64_t ToInteger(double value, DType to) {
  switch (to) {
    case DType::kU8:
      return Saturate<uint8_t>(value);
    case DType::kI8:
      return Saturate<int8_t>(value);
    case DType::kI16:
      return Saturate<int16_t>(value);
    case DType::kU16:
      return Saturate<uint16_t>(value);
    case DType::kI32:
      return Saturate<int32_t>(value);
    case DType::kU32:
      return Saturate<uint32_t>(value);
    case DType::kU64:
      return Saturate<uint64_t>(value);
    default:
      return Saturate<int64_t>(value);
  }
}

// Rounds once: not first to double and then to float.
template <typename T>
double FromInteger(T value, bool is_single) {
  return is_single ? static_cast<double>(static_cast<float>(value)) : static_cast<double>(value);
}

}  // namespace

Number LoadNumber(DType dtype, const char* from) {
  switch (dtype) {
    case DType::kBool:
      return {.i = Read<uint8_t>(from) != 0};
    case DType::kU8:
      return {.i = Read<uint8_t>(from)};
    case DType::kI8:
      return {.i = Read<int8_t>(from)};
    case DType::kI16:
      return {.i = Read<int16_t>(from)};
    case DType::kU16:
      return {.i = Read<uint16_t>(from)};
    case DType::kI32:
      return {.i = Read<int32_t>(from)};
    case DType::kU32:
      return {.i = Read<uint32_t>(from)};
    case DType::kI64:
    case DType::kU64:
      return {.i = Read<int64_t>(from)};
    case DType::kF16:
      return {.re = FromHalf(Read<uint16_t>(from))};
    case DType::kBF16:
      return {.re = std::bit_cast<float>(static_cast<uint32_t>(Read<uint16_t>(from)) << 16)};
    case DType::kF32:
      return {.re = Read<float>(from)};
    case DType::kF64:
      return {.re = Read<double>(from)};
    case DType::kC64:
      return {.re = Read<float>(from), .im = Read<float>(from + 4)};
    case DType::kC128:
      return {.re = Read<double>(from), .im = Read<double>(from + 8)};
    case DType::kInvalid:
      break;
  }
  return {};
}

void StoreNumber(DType dtype, const Number& number, char* to) {
  switch (dtype) {
    case DType::kBool:
      return Write(static_cast<uint8_t>(number.i != 0), to);
    case DType::kU8:
    case DType::kI8:
      return Write(static_cast<uint8_t>(number.i), to);
    case DType::kI16:
    case DType::kU16:
      return Write(static_cast<uint16_t>(number.i), to);
    case DType::kI32:
    case DType::kU32:
      return Write(static_cast<uint32_t>(number.i), to);
    case DType::kI64:
    case DType::kU64:
      return Write(number.i, to);
    case DType::kF16:
      return Write(ToHalf(number.re), to);
    case DType::kBF16:
      return Write(ToBfloat16(number.re), to);
    case DType::kF32:
      return Write(static_cast<float>(number.re), to);
    case DType::kF64:
      return Write(number.re, to);
    case DType::kC64:
      Write(static_cast<float>(number.re), to);
      return Write(static_cast<float>(number.im), to + 4);
    case DType::kC128:
      Write(number.re, to);
      return Write(number.im, to + 8);
    case DType::kInvalid:
      break;
  }
}

Number ConvertNumber(const Number& number, DType from, DType to) {
  const bool from_real = IsFloat(from) || IsComplex(from);
  if (to == DType::kBool) {
    return {.i = from_real ? (number.re != 0 || number.im != 0) : number.i != 0};
  }
  if (IsFloat(to) || IsComplex(to)) {
    if (from_real) return {.re = number.re, .im = number.im};
    const bool is_single = to == DType::kF32 || to == DType::kC64;
    if (from == DType::kU64) return {.re = FromInteger(static_cast<uint64_t>(number.i), is_single)};
    return {.re = FromInteger(number.i, is_single)};
  }
  return {.i = from_real ? ToInteger(number.re, to) : number.i};
}

}  // namespace neurond::fake
