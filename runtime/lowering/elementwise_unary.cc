// Unary elementwise ops. Float functions compute in float32 beside float16 and bfloat16, as
// PyTorch's CPU kernels do.
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/base/text.h"
#include "runtime/lowering/elementwise.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/limits.h"

namespace neurond::lowering {
namespace {

using Math = std::function<Value(Builder& b, const Value& x)>;

// Result and computation in the result's float dtype (integers are promoted).
LowerFn FloatOp(Math math) {
  return [math = std::move(math)](Op& op) -> Values {
    const Value x = op.b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
    return {op.Out(math(op.b, x))};
  };
}

LowerFn FloatOp(std::string_view hlo) {
  return FloatOp([hlo](Builder& b, const Value& x) { return b.Unary(hlo, x); });
}

// Rounding: integers are left alone.
LowerFn Rounding(Math math) {
  return [math = std::move(math)](Op& op) -> Values {
    const Value x = op.Tensor(0);
    if (!IsFloat(x.dtype)) return {op.Out(x)};
    return {op.Out(math(op.b, op.b.Convert(x, OpMath(x.dtype))))};
  };
}

Value Trunc(Builder& b, const Value& x) {
  // ceil of a negative, floor of the others; -0.5 gives -0.
  return b.Select(b.Compare("LT", x, 0), b.Unary("ceil", x), b.Unary("floor", x));
}

Values Abs(Op& op) {
  const Value x = op.Tensor(0);
  if (IsUnsigned(x.dtype)) return {op.Out(x)};
  return {op.Out(op.b.Unary("abs", x))};
}

Values Neg(Op& op) { return {op.b.Neg(op.Tensor(0))}; }

// 0 for NaN, as (0 < x) - (x < 0).
Values Sign(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0);
  if (x.dtype == DType::kBool) return {op.Out(x)};
  if (IsComplex(x.dtype)) return {b.Unary("sign", x)};
  const Value one = b.Fill(x.dtype, 1, x.sizes), zero = b.Zeros(x.dtype, x.sizes);
  const Value positive = b.Select(b.Compare("GT", x, zero), one, zero);
  if (IsUnsigned(x.dtype)) return {op.Out(positive)};
  return {op.Out(b.Select(b.Compare("LT", x, zero), b.Neg(one), positive))};
}

Values Signbit(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0);
  if (x.dtype == DType::kBool) return {b.Int(DType::kBool, 0, x.sizes)};
  if (!IsFloat(x.dtype)) return {b.Compare("LT", x, 0)};
  const DType bits = DTypeBytes(x.dtype) == 2   ? DType::kI16
                     : DTypeBytes(x.dtype) == 4 ? DType::kI32
                                                : DType::kI64;
  return {b.Compare("LT", b.BitcastConvert(x, bits, x.sizes), 0)};
}

// A predicate on floats; `otherwise` for integers.
LowerFn FloatTest(Math test, bool otherwise) {
  return [test = std::move(test), otherwise](Op& op) -> Values {
    const Value x = op.Tensor(0);
    if (IsFloat(x.dtype)) return {test(op.b, x)};
    if (IsComplex(x.dtype)) {
      const DType part = RealOf(x.dtype);
      const Value re = test(op.b, op.b.UnaryTo("real", x, part));
      const Value im = test(op.b, op.b.UnaryTo("imag", x, part));
      return {otherwise ? op.b.And(re, im) : op.b.Or(re, im)};
    }
    return {op.b.Int(DType::kBool, otherwise, x.sizes)};
  };
}

LowerFn IsInfinity(double infinity) {
  return FloatTest([infinity](Builder& b, const Value& x) { return b.Compare("EQ", x, infinity); },
                   false);
}

Values LogicalNot(Op& op) { return {op.b.Not(op.b.Convert(op.Tensor(0), DType::kBool))}; }
Values BitwiseNot(Op& op) { return {op.b.Not(op.Tensor(0))}; }

Values RoundDecimals(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0);
  if (!IsFloat(x.dtype)) return {op.Out(x)};
  const Value wide = b.Convert(x, OpMath(x.dtype));
  const int64_t decimals = op.Int(1);
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const Value scaled = decimals < 0 ? b.Div(wide, scale) : b.Mul(wide, scale);
  const Value rounded = b.Unary("round_nearest_even", scaled);
  return {op.Out(decimals < 0 ? b.Mul(rounded, scale) : b.Div(rounded, scale))};
}

Values NanToNum(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0);
  if (!IsFloat(x.dtype)) return {op.Out(x)};
  const double infinity = std::numeric_limits<double>::infinity();
  const double largest = x.dtype == DType::kF16    ? 65504.0
                         : x.dtype == DType::kBF16 ? 0x1.FEp127
                         : x.dtype == DType::kF32  ? 0x1.FFFFFEp127
                                                   : std::numeric_limits<double>::max();
  auto fill = [&](double v) { return b.Fill(x.dtype, v, x.sizes); };
  Value out = b.Select(b.IsNan(x), fill(op.Double(1, 0)), x);
  out = b.Select(b.Compare("EQ", x, infinity), fill(op.Double(2, largest)), out);
  return {b.Select(b.Compare("EQ", x, -infinity), fill(op.Double(3, -largest)), out)};
}

Value Sinc(Builder& b, const Value& x) {
  const Value scaled = b.Mul(x, std::numbers::pi);
  return b.Select(b.Compare("EQ", x, 0), b.Fill(x.dtype, 1, x.sizes),
                  b.Div(b.Unary("sine", scaled), scaled));
}

Values Logit(Op& op) {
  Builder& b = op.b;
  Value x = b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
  if (op.Has(1)) {
    const double eps = op.Double(1);
    x = b.Clamp(b.Fill(x.dtype, eps, x.sizes), x, b.Fill(x.dtype, 1 - eps, x.sizes));
  }
  return {op.Out(b.Unary("log", b.Div(x, b.Sub(b.Fill(x.dtype, 1, x.sizes), x))))};
}

// 0, pi or NaN of a real number; the angle of a complex one.
Values Angle(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0);
  if (IsComplex(x.dtype)) {
    const DType part = RealOf(x.dtype);
    return {op.Out(Atan2(b, b.UnaryTo("imag", x, part), b.UnaryTo("real", x, part)))};
  }
  const Value wide = b.Convert(x, op.ResultDType());
  const Value negative =
      b.Select(b.Compare("LT", wide, 0), b.Fill(wide.dtype, std::numbers::pi, wide.sizes),
               b.Zeros(wide.dtype, wide.sizes));
  return {b.Select(b.IsNan(wide), wide, negative)};
}

// -inf at 0, inf at -0 and at inf, where the polynomial gives NaN.
Value Digamma(Builder& b, const Value& x) {
  const Value pole = b.Div(b.Fill(x.dtype, -1, x.sizes), x);
  const Value out = b.Select(b.Compare("EQ", x, 0), pole, b.Unary("chlo.digamma", x));
  return b.Select(b.Compare("EQ", x, INFINITY), x, out);
}

// polygamma(n, x) for x < 0, where XLA's series does not converge, by reflection. The n-th
// derivative of pi * cot(pi * x) is pi^(n+1) * P_n(cot(pi * x)), with P_0(c) = c and
// P_{n+1}(c) = -(1 + c^2) * P_n'(c).
Value PolygammaReflected(Builder& b, int64_t n, const Value& x, const Value& of_one_minus_x) {
  std::vector<double> p = {0, 1};
  for (int64_t k = 0; k < n; ++k) {
    std::vector<double> next(p.size() + 1, 0);
    for (size_t i = 1; i < p.size(); ++i) {
      next[i - 1] -= static_cast<double>(i) * p[i];
      next[i + 1] -= static_cast<double>(i) * p[i];
    }
    p = std::move(next);
  }
  const Value angle = b.Mul(b.Sub(x, b.Unary("round_nearest_even", x)), std::numbers::pi);
  const Value cot = b.Div(b.Unary("cosine", angle), b.Unary("sine", angle));
  Value sum = b.Fill(x.dtype, p.back(), x.sizes);
  for (size_t i = p.size() - 1; i-- > 0;) sum = b.Add(b.Mul(sum, cot), p[i]);
  const Value derivative = b.Mul(sum, std::pow(std::numbers::pi, static_cast<double>(n + 1)));
  const Value out =
      n % 2 == 0 ? b.Sub(of_one_minus_x, derivative) : b.Neg(b.Add(of_one_minus_x, derivative));
  const Value pole = b.Compare("EQ", angle, 0);
  return b.Select(pole, b.Fill(x.dtype, n % 2 == 0 ? -INFINITY : INFINITY, x.sizes), out);
}

// polygamma(n, x)
Values Polygamma(Op& op) {
  Builder& b = op.b;
  const Value x = b.Convert(op.Tensor(1), OpMath(op.ResultDType()));
  const int64_t n = op.Int(0);
  if (n == 0) return {op.Out(Digamma(b, x))};
  if (n < 0 || n > kPolygammaMax) {
    op.Unimplemented(Cat("the derivative ", n));
    return {x};
  }
  const Value negative = b.Compare("LT", x, 0);
  const Value right = b.Select(negative, b.Sub(b.Fill(x.dtype, 1, x.sizes), x), x);
  const Value order = b.Fill(x.dtype, static_cast<double>(n), x.sizes);
  const Value there = b.Binary("chlo.polygamma", order, right);
  return {op.Out(b.Select(negative, PolygammaReflected(b, n, x, there), there))};
}

}  // namespace

void RegisterUnary(OpTable& t) {
  static constexpr struct {
    const char* aten;
    const char* hlo;
  } kFloat[] = {
      {"sin", "sine"},         {"cos", "cosine"},          {"tan", "tan"},
      {"tanh", "tanh"},        {"exp", "exponential"},     {"expm1", "exponential_minus_one"},
      {"log", "log"},          {"log1p", "log_plus_one"},  {"sqrt", "sqrt"},
      {"rsqrt", "rsqrt"},      {"sigmoid", "logistic"},    {"erf", "chlo.erf"},
      {"erfc", "chlo.erfc"},   {"erfinv", "chlo.erf_inv"}, {"lgamma", "chlo.lgamma"},
      {"asin", "chlo.asin"},   {"acos", "chlo.acos"},      {"sinh", "chlo.sinh"},
      {"cosh", "chlo.cosh"},   {"asinh", "chlo.asinh"},    {"acosh", "chlo.acosh"},
      {"atanh", "chlo.atanh"},
  };
  for (const auto& row : kFloat) t.Add(Cat("aten.", row.aten, ".default"), FloatOp(row.hlo));
  t.Add("aten.atan.default", FloatOp([](Builder& b, const Value& x) {
          return IsComplex(x.dtype) ? b.Unary("chlo.atan", x)
                                    : Atan2(b, x, b.Fill(x.dtype, 1, x.sizes));
        }));
  t.Add("aten.log2.default", FloatOp([](Builder& b, const Value& x) {
          return b.Mul(b.Unary("log", x), std::numbers::log2e);
        }));
  t.Add("aten.log10.default", FloatOp([](Builder& b, const Value& x) {
          return b.Mul(b.Unary("log", x), std::numbers::log10e);
        }));
  t.Add("aten.exp2.default", FloatOp([](Builder& b, const Value& x) {
          return b.Binary("power", b.Fill(x.dtype, 2, x.sizes), x);
        }));
  t.Add("aten.reciprocal.default",
        FloatOp([](Builder& b, const Value& x) { return b.Div(b.Fill(x.dtype, 1, x.sizes), x); }));
  t.Add("aten.sinc.default", FloatOp(Sinc));
  t.Add("aten.digamma.default", FloatOp(Digamma));
  t.Add("aten.logit.default", Logit);
  t.Add("aten.floor.default",
        Rounding([](Builder& b, const Value& x) { return b.Unary("floor", x); }));
  t.Add("aten.ceil.default",
        Rounding([](Builder& b, const Value& x) { return b.Unary("ceil", x); }));
  t.Add("aten.round.default",
        Rounding([](Builder& b, const Value& x) { return b.Unary("round_nearest_even", x); }));
  t.Add("aten.trunc.default", Rounding(Trunc));
  t.Add("aten.frac.default",
        Rounding([](Builder& b, const Value& x) { return b.Sub(x, Trunc(b, x)); }));
  t.Add("aten.round.decimals", RoundDecimals);
  t.Add("aten.abs.default", Abs);
  t.Add("aten.neg.default", Neg);
  t.Add("aten.sign.default", Sign);
  t.Add("aten.sgn.default", Sign);
  t.Add("aten.signbit.default", Signbit);
  t.Add("aten.isnan.default",
        FloatTest([](Builder& b, const Value& x) { return b.IsNan(x); }, false));
  t.Add("aten.isinf.default", FloatTest(
                                  [](Builder& b, const Value& x) {
                                    return b.Compare("EQ", b.Unary("abs", x),
                                                     std::numeric_limits<double>::infinity());
                                  },
                                  false));
  t.Add(
      "aten.isfinite.default",
      FloatTest([](Builder& b, const Value& x) { return b.UnaryTo("is_finite", x, DType::kBool); },
                true));
  t.Add("aten.isposinf.default", IsInfinity(std::numeric_limits<double>::infinity()));
  t.Add("aten.isneginf.default", IsInfinity(-std::numeric_limits<double>::infinity()));
  t.Add("aten.logical_not.default", LogicalNot);
  t.Add("aten.bitwise_not.default", BitwiseNot);
  t.Add("aten.nan_to_num.default", NanToNum);
  t.Add("aten.angle.default", Angle);
  t.Add("aten.polygamma.default", Polygamma);
  t.Add("prims.bessel_i1e.default", FloatOp("chlo.bessel_i1e"));
  t.Add("aten.special_i1e.default", FloatOp("chlo.bessel_i1e"));
}

}  // namespace neurond::lowering
