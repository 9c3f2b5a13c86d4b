// Builder: state, constants and elementwise ops.
#include "runtime/lowering/builder.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond::lowering {
namespace {

template <typename Bits>
std::string Hex(Bits bits) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "0x";
  for (int shift = sizeof(Bits) * 8 - 4; shift >= 0; shift -= 4) {
    out += kDigits[(static_cast<uint64_t>(bits) >> shift) & 15];
  }
  return out;
}

// Rounds a double to the nearest value with `mantissa` explicit bits and exponent range of a 16-bit
// format, ties to even.
uint16_t ToHalf(double value) {
  if (std::isnan(value)) return 0x7E00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double a = std::fabs(value);
  if (a >= 65520.0) return sign | 0x7C00;
  if (a < 0x1p-14) return sign | static_cast<uint16_t>(std::nearbyint(a * 0x1p24));
  int exponent;
  const double fraction = std::frexp(a, &exponent);                                 // in [0.5, 1)
  const int mantissa = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));  // 1024..2048
  return static_cast<uint16_t>(sign + ((exponent + 13) << 10) + mantissa);
}

uint16_t ToBfloat16(double value) {
  const float f = static_cast<float>(value);
  if (std::isnan(f)) return 0x7FC0;
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

std::string FloatLiteral(DType dtype, double value) {
  switch (dtype) {
    case DType::kF16:
      return Hex(ToHalf(value));
    case DType::kBF16:
      return Hex(ToBfloat16(value));
    case DType::kF64:
      return Hex(std::bit_cast<uint64_t>(value));
    default:
      return Hex(std::bit_cast<uint32_t>(static_cast<float>(value)));
  }
}

int64_t Wrap(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kU8:
      return static_cast<uint8_t>(value);
    case DType::kI8:
      return static_cast<int8_t>(value);
    case DType::kI16:
      return static_cast<int16_t>(value);
    case DType::kU16:
      return static_cast<uint16_t>(value);
    case DType::kI32:
      return static_cast<int32_t>(value);
    case DType::kU32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

// C++ leaves the conversion of a double outside int64 undefined; PyTorch's on x86 gives INT64_MIN.
int64_t ToInt64(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

}  // namespace

void Builder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

bool Builder::Expect(bool condition, std::string_view op, const Values& values) {
  if (condition) return true;
  std::string types;
  for (const Value& v : values) Append(types, types.empty() ? "" : ", ", Type(v));
  Fail(absl::InternalError(Cat("cannot write stablehlo.", op, " of ", types)));
  return false;
}

std::string Builder::NewName() { return Cat("%", next_++); }

std::string Builder::Type(DType dtype, const Sizes& sizes) {
  std::string out = "tensor<";
  for (int64_t s : sizes) Append(out, s, "x");
  Append(out, HloName(dtype), ">");
  return out;
}

std::string Builder::Ref(const Value& v) {
  if (!v.name.empty()) return v.name;
  if (const auto* i = std::get_if<int64_t>(&v.number)) return Int(v.dtype, *i, v.sizes).name;
  if (const auto* d = std::get_if<double>(&v.number)) return Float(v.dtype, *d, v.sizes).name;
  Fail(absl::InternalError("a value without a definition is used"));
  return "%none";
}

Value Builder::Line(DType dtype, const Sizes& sizes, std::string_view definition) {
  int64_t n = 1;
  for (int64_t s : sizes) {
    if (s < 0 || (s > 0 && n > kElementsMax / s)) {
      Fail(absl::InvalidArgumentError(
          Cat("[", Join(sizes), "] has more than ", kElementsMax, " elements")));
      return {.name = "%none", .dtype = dtype, .sizes = sizes};
    }
    if (s > 0) n *= s;
  }
  Value v{.name = NewName(), .dtype = dtype, .sizes = sizes};
  Append(text_, "    ", v.name, " = ", definition, "\n");
  return v;
}

// --- constants ---

Value Builder::Int(DType dtype, int64_t value, const Sizes& sizes) {
  if (IsFloat(dtype) || IsComplex(dtype)) return Float(dtype, static_cast<double>(value), sizes);
  std::string literal;
  if (dtype == DType::kBool) {
    literal = value != 0 ? "true" : "false";
  } else if (dtype == DType::kU64) {
    literal = Cat(static_cast<uint64_t>(value));
  } else {
    literal = Cat(Wrap(dtype, value));
  }
  return Line(dtype, sizes, Cat("stablehlo.constant dense<", literal, "> : ", Type(dtype, sizes)));
}

Value Builder::Float(DType dtype, double value, const Sizes& sizes) {
  if (dtype == DType::kBool) return Int(dtype, value != 0, sizes);
  if (!IsFloat(dtype) && !IsComplex(dtype)) return Int(dtype, ToInt64(value), sizes);
  std::string literal;
  if (IsComplex(dtype)) {
    literal =
        Cat("(", FloatLiteral(RealOf(dtype), value), ", ", FloatLiteral(RealOf(dtype), 0), ")");
  } else {
    literal = FloatLiteral(dtype, value);
  }
  return Line(dtype, sizes, Cat("stablehlo.constant dense<", literal, "> : ", Type(dtype, sizes)));
}

Value Builder::Fill(DType dtype, double value, const Sizes& sizes) {
  return Float(dtype, value, sizes);
}

Value Builder::Lowest(DType dtype, const Sizes& sizes) {
  switch (dtype) {
    case DType::kI8:
      return Int(dtype, std::numeric_limits<int8_t>::min(), sizes);
    case DType::kI16:
      return Int(dtype, std::numeric_limits<int16_t>::min(), sizes);
    case DType::kI32:
      return Int(dtype, std::numeric_limits<int32_t>::min(), sizes);
    case DType::kI64:
      return Int(dtype, std::numeric_limits<int64_t>::min(), sizes);
    default:
      if (IsUnsigned(dtype)) return Int(dtype, 0, sizes);
      return Float(dtype, -std::numeric_limits<double>::infinity(), sizes);
  }
}

Value Builder::Highest(DType dtype, const Sizes& sizes) {
  switch (dtype) {
    case DType::kBool:
      return Int(dtype, 1, sizes);
    case DType::kI8:
      return Int(dtype, std::numeric_limits<int8_t>::max(), sizes);
    case DType::kI16:
      return Int(dtype, std::numeric_limits<int16_t>::max(), sizes);
    case DType::kI32:
      return Int(dtype, std::numeric_limits<int32_t>::max(), sizes);
    case DType::kI64:
      return Int(dtype, std::numeric_limits<int64_t>::max(), sizes);
    default:
      if (IsUnsigned(dtype)) return Int(dtype, -1, sizes);
      return Float(dtype, std::numeric_limits<double>::infinity(), sizes);
  }
}

Value Builder::Iota(DType dtype, const Sizes& sizes, int dim) {
  if (dim < 0 || dim >= static_cast<int>(sizes.size())) {
    Fail(absl::InternalError(Cat("iota along dimension ", dim, " of ", sizes.size())));
    return Zeros(dtype, sizes);
  }
  if (dtype == DType::kBool) return Convert(Iota(DType::kI32, sizes, dim), dtype);
  return Line(dtype, sizes, Cat("stablehlo.iota dim = ", dim, " : ", Type(dtype, sizes)));
}

Value Builder::Vector(const std::vector<int64_t>& values) {
  const Sizes sizes{static_cast<int64_t>(values.size())};
  if (values.empty()) return Int(DType::kI64, 0, sizes);
  return Line(DType::kI64, sizes,
              Cat("stablehlo.constant dense<[", Join(values), "]> : ", Type(DType::kI64, sizes)));
}

// --- elementwise ---

namespace {

std::string Qualified(std::string_view op) {
  return op.find('.') == std::string_view::npos ? Cat("stablehlo.", op) : std::string(op);
}

}  // namespace

Value Builder::Unary(std::string_view op, const Value& a) {
  if (op == "abs" && IsComplex(a.dtype)) return UnaryTo(op, a, RealOf(a.dtype));
  const std::string ref = Ref(a);
  if (op.substr(0, 5) == "chlo.") {
    return Line(a.dtype, a.sizes, Cat(op, " ", ref, " : ", Type(a), " -> ", Type(a)));
  }
  return Line(a.dtype, a.sizes, Cat(Qualified(op), " ", ref, " : ", Type(a)));
}

Value Builder::UnaryTo(std::string_view op, const Value& a, DType result) {
  const std::string ref = Ref(a);
  return Line(result, a.sizes,
              Cat(Qualified(op), " ", ref, " : (", Type(a), ") -> ", Type(result, a.sizes)));
}

Value Builder::Binary(std::string_view op, const Value& a, const Value& b) {
  if (!Expect(a.dtype == b.dtype && a.sizes == b.sizes, op, {a, b})) return a;
  const std::string x = Ref(a), y = Ref(b);
  if (op.substr(0, 5) == "chlo.") {
    return Line(a.dtype, a.sizes,
                Cat(op, " ", x, ", ", y, " : ", Type(a), ", ", Type(a), " -> ", Type(a)));
  }
  return Line(a.dtype, a.sizes, Cat(Qualified(op), " ", x, ", ", y, " : ", Type(a)));
}

Value Builder::Compare(std::string_view direction, const Value& a, const Value& b) {
  if (!Expect(a.dtype == b.dtype && a.sizes == b.sizes, "compare", {a, b})) {
    return Int(DType::kBool, 0, a.sizes);
  }
  const std::string x = Ref(a), y = Ref(b);
  const std::string_view kind = IsFloat(a.dtype) || IsComplex(a.dtype) ? "FLOAT"
                                : IsUnsigned(a.dtype)                  ? "UNSIGNED"
                                                                       : "SIGNED";
  return Line(DType::kBool, a.sizes,
              Cat("stablehlo.compare ", direction, ", ", x, ", ", y, ", ", kind, " : (", Type(a),
                  ", ", Type(b), ") -> ", Type(DType::kBool, a.sizes)));
}

Value Builder::Select(const Value& pred, const Value& a, const Value& b) {
  if (!Expect(pred.dtype == DType::kBool && a.dtype == b.dtype && a.sizes == b.sizes &&
                  (pred.sizes == a.sizes || pred.sizes.empty()),
              "select", {pred, a, b})) {
    return a;
  }
  const std::string p = Ref(pred), x = Ref(a), y = Ref(b);
  return Line(a.dtype, a.sizes,
              Cat("stablehlo.select ", p, ", ", x, ", ", y, " : ", Type(pred), ", ", Type(a)));
}

Value Builder::Complex(const Value& re, const Value& im) {
  const DType dtype = re.dtype == DType::kF64 ? DType::kC128 : DType::kC64;
  if (!Expect(re.dtype == im.dtype && re.sizes == im.sizes && OpMath(re.dtype) == re.dtype,
              "complex", {re, im})) {
    return Zeros(dtype, re.sizes);
  }
  const std::string x = Ref(re), y = Ref(im);
  return Line(dtype, re.sizes, Cat("stablehlo.complex ", x, ", ", y, " : ", Type(dtype, re.sizes)));
}

Value Builder::Conjugate(const Value& a) {
  if (!IsComplex(a.dtype)) return a;
  const DType part = RealOf(a.dtype);
  return Complex(UnaryTo("real", a, part), Neg(UnaryTo("imag", a, part)));
}

Value Builder::Convert(const Value& a, DType dtype) {
  if (a.name.empty() && a.sizes.empty()) {
    if (const auto* i = std::get_if<int64_t>(&a.number)) return Int(dtype, *i);
    if (const auto* d = std::get_if<double>(&a.number)) return Float(dtype, *d);
  }
  if (a.dtype == dtype) {
    Value same = a;
    same.name = Ref(a);
    return same;
  }
  if (dtype == DType::kBool) return Compare("NE", a, Zeros(a.dtype, a.sizes));
  if (IsComplex(a.dtype) && !IsComplex(dtype)) {
    return Convert(UnaryTo("real", a, RealOf(a.dtype)), dtype);
  }
  if (IsFloat(a.dtype) && (dtype == DType::kU8 || dtype == DType::kI8 || dtype == DType::kI16 ||
                           dtype == DType::kU16)) {
    // PyTorch's narrow conversions go through a wider integer and wrap; StableHLO's saturate.
    return Convert(Convert(a, DType::kI32), dtype);
  }
  const std::string x = Ref(a);
  return Line(dtype, a.sizes,
              Cat("stablehlo.convert ", x, " : (", Type(a), ") -> ", Type(dtype, a.sizes)));
}

Value Builder::RoundTo(const Value& a, DType dtype) {
  if (!IsFloat(a.dtype) || DTypeBytes(dtype) >= DTypeBytes(a.dtype)) return a;
  const std::string_view format = dtype == DType::kF16    ? "e5m10"
                                  : dtype == DType::kBF16 ? "e8m7"
                                                          : "e8m23";
  const std::string x = Ref(a);
  return Line(a.dtype, a.sizes,
              Cat("stablehlo.reduce_precision ", x, ", format = ", format, " : ", Type(a)));
}

Value Builder::BitcastConvert(const Value& a, DType dtype, const Sizes& sizes) {
  const std::string x = Ref(a);
  return Line(dtype, sizes,
              Cat("stablehlo.bitcast_convert ", x, " : (", Type(a), ") -> ", Type(dtype, sizes)));
}

}  // namespace neurond::lowering
