#include "plugins/fake/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace neurond::fake {
namespace {

// Which element types a function takes.
enum Types : int { kInts = 1, kFloats = 2, kComplexes = 4, kBools = 8 };

int TypeOf(DType dtype) {
  if (dtype == DType::kBool) return kBools;
  if (IsComplex(dtype)) return kComplexes;
  return IsFloat(dtype) ? kFloats : kInts;
}

uint64_t U(const Number& n) { return static_cast<uint64_t>(n.i); }
Number I(uint64_t value) { return {.i = static_cast<int64_t>(value)}; }
Number F(double value) { return {.re = value}; }

// StableHLO's integer division: by zero gives all ones, the smallest by -1 itself.
Number DivideInts(DType t, const Number& a, const Number& b) {
  if (b.i == 0) return {.i = -1};
  if (IsUnsigned(t)) return I(U(a) / U(b));
  return b.i == -1 ? I(uint64_t{0} - U(a)) : Number{.i = a.i / b.i};
}

Number RemainderInts(DType t, const Number& a, const Number& b) {
  if (b.i == 0) return a;
  if (IsUnsigned(t)) return I(U(a) % U(b));
  return b.i == -1 ? Number{} : Number{.i = a.i % b.i};
}

bool LessInts(DType t, const Number& a, const Number& b) {
  return IsUnsigned(t) ? U(a) < U(b) : a.i < b.i;
}

Number MaxFloats(DType, const Number& a, const Number& b) {
  if (std::isnan(a.re) || std::isnan(b.re)) return F(std::numeric_limits<double>::quiet_NaN());
  return F(std::max(a.re, b.re));
}

Number MinFloats(DType, const Number& a, const Number& b) {
  if (std::isnan(a.re) || std::isnan(b.re)) return F(std::numeric_limits<double>::quiet_NaN());
  return F(std::min(a.re, b.re));
}

template <typename Fn>
struct Row {
  std::string_view op;
  int types;
  Fn fn;
};

using N = const Number&;

constexpr Row<BinaryFn> kBinary[] = {
    {"add", kInts, [](DType, N a, N b) { return I(U(a) + U(b)); }},
    {"add", kFloats, [](DType, N a, N b) { return F(a.re + b.re); }},
    {"add", kComplexes,
     [](DType, N a, N b) {
       return Number{0, a.re + b.re, a.im + b.im};
     }},
    {"add", kBools, [](DType, N a, N b) { return I(U(a) | U(b)); }},
    {"subtract", kInts, [](DType, N a, N b) { return I(U(a) - U(b)); }},
    {"subtract", kFloats, [](DType, N a, N b) { return F(a.re - b.re); }},
    {"subtract", kComplexes,
     [](DType, N a, N b) {
       return Number{0, a.re - b.re, a.im - b.im};
     }},
    {"multiply", kInts, [](DType, N a, N b) { return I(U(a) * U(b)); }},
    {"multiply", kFloats, [](DType, N a, N b) { return F(a.re * b.re); }},
    {"multiply", kComplexes,
     [](DType, N a, N b) {
       return Number{0, a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
     }},
    {"multiply", kBools, [](DType, N a, N b) { return I(U(a) & U(b)); }},
    {"divide", kInts, DivideInts},
    {"divide", kFloats, [](DType, N a, N b) { return F(a.re / b.re); }},
    {"remainder", kInts, RemainderInts},
    {"remainder", kFloats, [](DType, N a, N b) { return F(std::fmod(a.re, b.re)); }},
    {"power", kFloats, [](DType, N a, N b) { return F(std::pow(a.re, b.re)); }},
    {"maximum", kInts | kBools, [](DType t, N a, N b) { return LessInts(t, a, b) ? b : a; }},
    {"maximum", kFloats, MaxFloats},
    {"minimum", kInts | kBools, [](DType t, N a, N b) { return LessInts(t, b, a) ? b : a; }},
    {"minimum", kFloats, MinFloats},
    {"and", kInts | kBools, [](DType, N a, N b) { return I(U(a) & U(b)); }},
    {"or", kInts | kBools, [](DType, N a, N b) { return I(U(a) | U(b)); }},
    {"xor", kInts | kBools, [](DType, N a, N b) { return I(U(a) ^ U(b)); }},
};

Number Sign(double x) { return F(std::isnan(x) ? x : x > 0 ? 1 : x < 0 ? -1 : x); }

constexpr Row<UnaryFn> kUnary[] = {
    {"abs", kInts,
     [](DType t, N a) { return IsUnsigned(t) || a.i >= 0 ? a : I(uint64_t{0} - U(a)); }},
    {"abs", kFloats, [](DType, N a) { return F(std::fabs(a.re)); }},
    {"negate", kInts, [](DType, N a) { return I(uint64_t{0} - U(a)); }},
    {"negate", kFloats, [](DType, N a) { return F(-a.re); }},
    {"negate", kComplexes,
     [](DType, N a) {
       return Number{0, -a.re, -a.im};
     }},
    {"not", kInts, [](DType, N a) { return I(~U(a)); }},
    {"not", kBools, [](DType, N a) { return I(a.i == 0); }},
    {"sign", kInts,
     [](DType t, N a) {
       return I(a.i == 0 ? 0 : IsUnsigned(t) || a.i > 0 ? 1 : -1);
     }},
    {"sign", kFloats, [](DType, N a) { return Sign(a.re); }},
    {"floor", kFloats, [](DType, N a) { return F(std::floor(a.re)); }},
    {"ceil", kFloats, [](DType, N a) { return F(std::ceil(a.re)); }},
    {"sqrt", kFloats, [](DType, N a) { return F(std::sqrt(a.re)); }},
    {"rsqrt", kFloats, [](DType, N a) { return F(1 / std::sqrt(a.re)); }},
    {"exponential", kFloats, [](DType, N a) { return F(std::exp(a.re)); }},
    {"log", kFloats, [](DType, N a) { return F(std::log(a.re)); }},
    {"tanh", kFloats, [](DType, N a) { return F(std::tanh(a.re)); }},
    {"logistic", kFloats, [](DType, N a) { return F(1 / (1 + std::exp(-a.re))); }},
    {"cosine", kFloats, [](DType, N a) { return F(std::cos(a.re)); }},
    {"sine", kFloats, [](DType, N a) { return F(std::sin(a.re)); }},
    {"is_finite", kFloats, [](DType, N a) { return I(std::isfinite(a.re)); }},
    {"real", kFloats | kComplexes, [](DType, N a) { return F(a.re); }},
    {"imag", kFloats | kComplexes, [](DType, N a) { return F(a.im); }},
};

bool EqualReal(DType, N a, N b) { return a.re == b.re && a.im == b.im; }
bool EqualInts(DType, N a, N b) { return a.i == b.i; }

constexpr Row<CompareFn> kCompare[] = {
    {"EQ", kInts | kBools, EqualInts},
    {"EQ", kFloats | kComplexes, EqualReal},
    {"NE", kInts | kBools, [](DType t, N a, N b) { return !EqualInts(t, a, b); }},
    {"NE", kFloats | kComplexes, [](DType t, N a, N b) { return !EqualReal(t, a, b); }},
    {"LT", kInts | kBools, LessInts},
    {"LT", kFloats, [](DType, N a, N b) { return a.re < b.re; }},
    {"LE", kInts | kBools, [](DType t, N a, N b) { return !LessInts(t, b, a); }},
    {"LE", kFloats, [](DType, N a, N b) { return a.re <= b.re; }},
    {"GT", kInts | kBools, [](DType t, N a, N b) { return LessInts(t, b, a); }},
    {"GT", kFloats, [](DType, N a, N b) { return a.re > b.re; }},
    {"GE", kInts | kBools, [](DType t, N a, N b) { return !LessInts(t, a, b); }},
    {"GE", kFloats, [](DType, N a, N b) { return a.re >= b.re; }},
};

template <typename Fn, size_t Count>
Fn Find(const Row<Fn> (&table)[Count], std::string_view op, DType dtype) {
  for (const Row<Fn>& row : table) {
    if (row.op == op && (row.types & TypeOf(dtype)) != 0) return row.fn;
  }
  return nullptr;
}

}  // namespace

UnaryFn FindUnary(std::string_view op, DType dtype) { return Find(kUnary, op, dtype); }
BinaryFn FindBinary(std::string_view op, DType dtype) { return Find(kBinary, op, dtype); }
CompareFn FindCompare(std::string_view direction, DType dtype) {
  return Find(kCompare, direction, dtype);
}

}  // namespace neurond::fake
