// Binary and ternary elementwise arithmetic with PyTorch's type promotion and integer semantics.
#include <cmath>
#include <numbers>

#include "runtime/base/text.h"
#include "runtime/lowering/elementwise.h"
#include "runtime/lowering/families.h"

namespace neurond::lowering {
namespace {

struct Pair {
  Value a, b;
};

// Arguments i and j, promoted to the result's dtype, in the dtype PyTorch computes in.
Pair Operands(Op& op, int i = 0, int j = 1) {
  const DType common = op.ResultDType(), compute = OpMath(common);
  return {op.Operand(op.Tensor(i), common, compute, op.ResultSizes()),
          op.Operand(op.Tensor(j), common, compute, op.ResultSizes())};
}

using Math = std::function<Value(Op& op, const Value& a, const Value& b)>;

// A 0-dim operand of remainder and fmod is rounded to float16 first, unlike elsewhere.
LowerFn RoundedArithmetic(Math math) {
  return [math = std::move(math)](Op& op) -> Values {
    Pair p = Operands(op);
    if (op.ResultDType() == DType::kF16) {
      p = {op.b.RoundTo(p.a, DType::kF16), op.b.RoundTo(p.b, DType::kF16)};
    }
    return {op.Out(math(op, p.a, p.b))};
  };
}

LowerFn Arithmetic(Math math) {
  return [math = std::move(math)](Op& op) -> Values {
    const Pair p = Operands(op);
    return {op.Out(math(op, p.a, p.b))};
  };
}

LowerFn Arithmetic(std::string_view hlo) {
  return Arithmetic(
      [hlo](Op& op, const Value& a, const Value& b) { return op.b.Binary(hlo, a, b); });
}

// other * alpha, where alpha is not 1.
Value Scaled(Op& op, const Value& other, int alpha) {
  if (!op.Has(alpha)) return other;
  if (op.IsNumber(alpha) && op.Double(alpha) == 1.0) return other;
  return op.b.Mul(other, op.Operand(op.Tensor(alpha), other.dtype, other.dtype, other.sizes));
}

Values Add(Op& op) {
  const Pair p = Operands(op);
  return {op.Out(op.b.Add(p.a, Scaled(op, p.b, 2)))};
}

Values Sub(Op& op) {
  const Pair p = Operands(op);
  return {op.Out(op.b.Sub(p.a, Scaled(op, p.b, 2)))};
}

Values ReverseSub(Op& op) {
  const Pair p = Operands(op);
  return {op.Out(op.b.Sub(p.b, Scaled(op, p.a, 2)))};
}

// A literal divisor that is not zero needs no check (and no read of the check's result).
void CheckDivisor(Op& op, const Value& divisor) {
  if (op.IsNumber(1) && std::fabs(op.Double(1)) >= 1) return;
  if (IsFloat(divisor.dtype) || IsComplex(divisor.dtype) || divisor.Elements() == 0) return;
  op.Check(ErrorKind::kRuntime, "ZeroDivisionError", op.b.Compare("EQ", divisor, 0), divisor);
}

// True where a nonzero remainder has another sign than the divisor.
Value SignsDiffer(Builder& b, const Value& remainder, const Value& divisor) {
  const Value nonzero = b.Compare("NE", remainder, 0);
  const Value differ = b.Compare("NE", b.Compare("LT", remainder, 0), b.Compare("LT", divisor, 0));
  return b.And(nonzero, differ);
}

Value Remainder(Op& op, const Value& a, const Value& d) {
  Builder& b = op.b;
  CheckDivisor(op, d);
  const Value r = b.Binary("remainder", a, d);
  if (IsUnsigned(a.dtype)) return r;
  return b.Select(SignsDiffer(b, r, d), b.Add(r, d), r);
}

Value FloorDivide(Op& op, const Value& a, const Value& d) {
  Builder& b = op.b;
  CheckDivisor(op, d);
  if (IsUnsigned(a.dtype)) return b.Div(a, d);
  const Value r = b.Binary("remainder", a, d);
  const Value borrow = SignsDiffer(b, r, d);
  if (!IsFloat(a.dtype)) {
    const Value q = b.Div(a, d);
    return b.Select(borrow, b.Sub(q, 1), q);
  }
  // Python's rounding (div_floor_floating): exact where a / d would round up to the next integer.
  Value q = b.Div(b.Sub(a, r), d);
  q = b.Select(borrow, b.Sub(q, 1), q);
  const Value floor = b.Unary("floor", q);
  const Value near = b.Select(b.Compare("GT", b.Sub(q, floor), 0.5), b.Add(floor, 1), floor);
  const Value plain = b.Div(a, d);
  const Value signed_zero = b.Mul(b.Zeros(a.dtype, a.sizes), plain);
  const Value result = b.Select(b.Compare("NE", q, 0), near, signed_zero);
  return b.Select(b.Compare("EQ", d, 0), plain, result);
}

Value TruncDivide(Op& op, const Value& a, const Value& d) {
  CheckDivisor(op, d);
  const Value q = op.b.Div(a, d);
  // PyTorch rounds the quotient of half types before it truncates.
  return IsFloat(a.dtype) ? Truncate(op.b, op.b.RoundTo(q, op.ResultDType())) : q;
}

Values DivMode(Op& op) {
  const Pair p = Operands(op);
  const std::string mode = op.String(2, "");
  if (mode == "floor") return {op.Out(FloorDivide(op, p.a, p.b))};
  if (mode == "trunc") return {op.Out(TruncDivide(op, p.a, p.b))};
  if (!mode.empty()) op.Invalid(Cat("rounding_mode '", mode, "'"));
  return {op.Out(op.b.Div(p.a, p.b))};
}

Value Fmod(Op& op, const Value& a, const Value& d) {
  CheckDivisor(op, d);
  return op.b.Binary("remainder", a, d);
}

// Exponents that PyTorch computes by multiplication.
bool PowByNumber(Builder& b, const Value& x, double e, Value* out) {
  const Value one = b.Fill(x.dtype, 1, x.sizes);
  if (e == 2.0) {
    *out = b.Mul(x, x);
  } else if (e == 3.0) {
    *out = b.Mul(b.Mul(x, x), x);
  } else if (e == 0.5 && IsFloat(x.dtype)) {
    *out = b.Unary("sqrt", x);
  } else if (e == -0.5 && IsFloat(x.dtype)) {
    *out = b.Div(one, b.Unary("sqrt", x));
  } else if (e == -1.0 && IsFloat(x.dtype)) {
    *out = b.Div(one, x);
  } else if (e == -2.0 && IsFloat(x.dtype)) {
    *out = b.Div(one, b.Mul(x, x));
  } else {
    return false;
  }
  return true;
}

// base ** exponent of integers, modulo their range as on the CPU. (XLA's power looks at the lowest
// six bits of the exponent.) A negative exponent leaves 1 and -1, the rest is 0.
Value IntegerPower(Builder& b, const Value& base, const Value& exponent) {
  const DType dtype = base.dtype;
  const Value one = b.Int(dtype, 1, base.sizes);
  const int bits = 8 * DTypeBytes(dtype) - (IsUnsigned(dtype) ? 0 : 1);
  Value power = one, square = base;
  for (int i = 0; i < bits; ++i) {
    const Value bit = b.And(exponent, b.Int(dtype, int64_t{1} << i, base.sizes));
    power = b.Select(b.Compare("NE", bit, 0), b.Mul(power, square), power);
    if (i + 1 < bits) square = b.Mul(square, square);
  }
  if (IsUnsigned(dtype)) return power;
  const Value unit = b.Or(b.Compare("EQ", base, 1), b.Compare("EQ", base, -1));
  return b.Select(b.And(b.Compare("LT", exponent, 0), b.Not(unit)), b.Zeros(dtype, base.sizes),
                  power);
}

Values Pow(Op& op) {
  const Pair p = Operands(op);
  Value out;
  if (op.IsNumber(1) && !(op.Double(1) == 0.5 && op.ResultDType() == DType::kF16) &&
      PowByNumber(op.b, p.a, op.Double(1), &out))
    return {op.Out(out)};
  if (op.ResultDType() == DType::kBool) {  // false ** true is the only false one
    return {op.b.Or(p.a, op.b.Not(p.b))};
  }
  if (IsInteger(p.a.dtype)) return {op.Out(IntegerPower(op.b, p.a, p.b))};
  Value power = op.b.Binary("power", p.a, p.b);
  if (op.IsTensor(1) && op.name() == "aten.pow.Tensor_Scalar" && IsFloat(p.a.dtype) &&
      op.ResultDType() != DType::kF16) {
    // A run-time exponent of one half takes the square root too: they differ at -inf and -0.
    const Value root = op.b.Unary("sqrt", p.a);
    power = op.b.Select(op.b.Compare("EQ", p.b, 0.5), root, power);
    power = op.b.Select(op.b.Compare("EQ", p.b, -0.5),
                        op.b.Div(op.b.Fill(root.dtype, 1, root.sizes), root), power);
  }
  return {op.Out(power)};
}

// The neighbour in the result's own dtype: one step of the bits, whose order is that of the
// magnitude.
Values NextAfter(Op& op) {
  Builder& b = op.b;
  const DType dtype = op.ResultDType();
  if (!IsFloat(dtype)) {
    op.Unimplemented("anything but floating-point numbers");
    return {op.Tensor(0)};
  }
  const int width = DTypeBytes(dtype);
  const DType bits = width == 2 ? DType::kI16 : width == 4 ? DType::kI32 : DType::kI64;
  const Sizes& sizes = op.ResultSizes();
  const Value x = op.Operand(op.Tensor(0), dtype, dtype, sizes);
  const Value y = op.Operand(op.Tensor(1), dtype, dtype, sizes);
  const Value from = b.BitcastConvert(x, bits, sizes), to = b.BitcastConvert(y, bits, sizes);
  const Value sign = b.Int(bits, width == 8 ? INT64_MIN : -(int64_t{1} << (8 * width - 1)), sizes);
  const Value zero = b.Zeros(bits, sizes);
  // (Bits instead of a comparison with zero, which counts denormal numbers as zero.)
  const Value at_zero = b.Compare("EQ", b.And(from, b.Not(sign)), zero);
  const Value smallest = b.Or(b.And(to, sign), b.Int(bits, 1, sizes));
  const Value away = b.Compare("EQ", b.Convert(b.Compare("GT", y, x), bits),
                               b.Convert(b.Compare("GE", from, zero), bits));
  const Value step = b.Select(away, b.Int(bits, 1, sizes), b.Int(bits, -1, sizes));
  const Value moved = b.Select(at_zero, smallest, b.Add(from, step));
  const Value next = b.Select(b.Compare("EQ", x, y), to, moved);
  const Value nan = b.Fill(dtype, NAN, sizes);
  return {b.Select(b.Or(b.IsNan(x), b.IsNan(y)), nan, b.BitcastConvert(next, dtype, sizes))};
}

// NaN of one operand is ignored.
LowerFn IgnoreNan(bool maximum) {
  return Arithmetic([maximum](Op& op, const Value& x, const Value& y) {
    Builder& b = op.b;
    const Value best = maximum ? b.Max(x, y) : b.Min(x, y);
    if (!IsFloat(x.dtype)) return best;
    return b.Select(b.IsNan(x), y, b.Select(b.IsNan(y), x, best));
  });
}

Values Clamp(Op& op) {
  const DType common = op.ResultDType();
  Value x = op.Operand(op.Tensor(0), common, common, op.ResultSizes());
  if (op.Has(1)) x = op.b.Max(x, op.Operand(op.Tensor(1), common, common, op.ResultSizes()));
  if (op.Has(2)) x = op.b.Min(x, op.Operand(op.Tensor(2), common, common, op.ResultSizes()));
  return {x};
}

Values ClampMin(Op& op) {
  const DType common = op.ResultDType();
  return {op.b.Max(op.Operand(op.Tensor(0), common, common, op.ResultSizes()),
                   op.Operand(op.Tensor(1), common, common, op.ResultSizes()))};
}

Values ClampMax(Op& op) {
  const DType common = op.ResultDType();
  return {op.b.Min(op.Operand(op.Tensor(0), common, common, op.ResultSizes()),
                   op.Operand(op.Tensor(1), common, common, op.ResultSizes()))};
}

Value ShiftRight(Op& op, const Value& a, const Value& b) {
  return op.b.Binary(IsUnsigned(a.dtype) ? "shift_right_logical" : "shift_right_arithmetic", a, b);
}

Value Xlogy(Op& op, const Value& x, const Value& y) {
  Builder& b = op.b;
  const Value plain = b.Mul(x, b.Unary("log", y));
  const Value zero = b.Select(b.Compare("EQ", x, 0), b.Zeros(x.dtype, x.sizes), plain);
  return b.Select(b.IsNan(y), y, zero);
}

Value Hypot(Op& op, const Value& x, const Value& y) {
  Builder& b = op.b;
  const Value a = b.Unary("abs", x), c = b.Unary("abs", y);
  const Value big = b.Max(a, c), small = b.Min(a, c);
  const Value ratio =
      b.Select(b.Compare("EQ", big, 0), b.Zeros(x.dtype, x.sizes), b.Div(small, big));
  const Value length = b.Mul(big, b.Unary("sqrt", b.Add(b.Mul(ratio, ratio), 1)));
  const Value infinite = b.Or(b.Compare("EQ", a, INFINITY), b.Compare("EQ", c, INFINITY));
  return b.Select(infinite, b.Fill(x.dtype, INFINITY, x.sizes), length);
}

Value Copysign(Op& op, const Value& x, const Value& y) {
  Builder& b = op.b;
  const DType bits = DTypeBytes(y.dtype) == 8 ? DType::kI64 : DType::kI32;
  const Value negative = b.Compare("LT", b.BitcastConvert(y, bits, y.sizes), 0);
  const Value size = b.Unary("abs", x);
  return b.Select(negative, b.Neg(size), size);
}

// log(exp(a) + exp(b)) and its base-2 twin, without overflow.
Value LogAddExp(Op& op, const Value& x, const Value& y, double log_base) {
  Builder& b = op.b;
  const Value big = b.Max(x, y), small = b.Min(x, y);
  const Value gap = b.Mul(b.Sub(small, big), log_base);
  const Value sum =
      b.Add(big, b.Div(b.Unary("log_plus_one", b.Unary("exponential", gap)), log_base));
  const Value same_infinity =
      b.And(b.Compare("EQ", x, y), b.Compare("EQ", b.Unary("abs", x), INFINITY));
  return b.Select(same_infinity, x, sum);
}

Value Heaviside(Op& op, const Value& x, const Value& at_zero) {
  Builder& b = op.b;
  const Value step = b.Convert(b.Compare("GT", x, 0), x.dtype);
  const Value out = b.Select(b.Compare("EQ", x, 0), at_zero, step);
  return IsFloat(x.dtype) ? b.Select(b.IsNan(x), b.Zeros(x.dtype, x.sizes), out) : out;
}

// self + weight * (end - self), from the nearer end.
Values Lerp(Op& op) {
  Builder& b = op.b;
  const DType common = op.ResultDType(), compute = OpMath(common);
  auto arg = [&](int i) { return op.Operand(op.Tensor(i), common, compute, op.ResultSizes()); };
  const Value start = arg(0), end = arg(1), weight = arg(2);
  const Value gap = b.Sub(end, start);
  const Value near_start = b.Add(start, b.Mul(weight, gap));
  const Value near_end = b.Sub(end, b.Mul(gap, b.Sub(b.Fill(compute, 1, gap.sizes), weight)));
  const Value small = b.Compare("LT", b.Unary("abs", weight), 0.5);
  return {op.Out(b.Select(small, near_start, near_end))};
}

// self + value * t1 op t2.
LowerFn AddC(std::string_view hlo) {
  return [hlo](Op& op) -> Values {
    const DType common = op.ResultDType(), compute = OpMath(common);
    auto arg = [&](int i) { return op.Operand(op.Tensor(i), common, compute, op.ResultSizes()); };
    Value term = arg(1);
    // PyTorch multiplies `value` in first.
    if (op.Has(3) && !(op.IsNumber(3) && op.Double(3) == 1.0)) term = op.b.Mul(arg(3), term);
    return {op.Out(op.b.Add(arg(0), op.b.Binary(hlo, term, arg(2))))};
  };
}

Values Where(Op& op) {
  const DType common = op.ResultDType();
  const Value pred = op.b.Broadcast(op.b.Convert(op.Tensor(0), DType::kBool), op.ResultSizes());
  return {op.b.Select(pred, op.Operand(op.Tensor(1), common, common, op.ResultSizes()),
                      op.Operand(op.Tensor(2), common, common, op.ResultSizes()))};
}

}  // namespace

Value Truncate(Builder& b, const Value& x) {
  return b.Select(b.Compare("LT", x, 0), b.Unary("ceil", x), b.Unary("floor", x));
}

// XLA's CPU emitter makes an arctangent of atan2(y, 1) if the 1 is a constant, and its vectorized
// arctangent gives wrong numbers: that 1, wherever it comes from, becomes atan2(2 * y, 2).
Value Atan2(Builder& b, const Value& y, const Value& x) {
  const Value scale =
      b.Select(b.Compare("EQ", x, 1), b.Fill(x.dtype, 2, x.sizes), b.Fill(x.dtype, 1, x.sizes));
  return b.Binary("atan2", b.Mul(y, scale), b.Mul(x, scale));
}

void RegisterBinary(OpTable& t) {
  auto add = [&t](std::string_view name, std::initializer_list<const char*> overloads, LowerFn fn) {
    for (const char* overload : overloads) t.Add(Cat("aten.", name, ".", overload), fn);
  };
  add("add", {"Tensor", "Scalar"}, Add);
  add("sub", {"Tensor", "Scalar"}, Sub);
  add("rsub", {"Tensor", "Scalar"}, ReverseSub);
  add("mul", {"Tensor", "Scalar"}, Arithmetic("multiply"));
  add("div", {"Tensor", "Scalar"}, Arithmetic("divide"));
  add("true_divide", {"Tensor", "Scalar"}, Arithmetic("divide"));
  add("div", {"Tensor_mode", "Scalar_mode"}, DivMode);
  add("floor_divide", {"default", "Scalar"}, Arithmetic(FloorDivide));
  add("remainder", {"Tensor", "Scalar", "Scalar_Tensor"}, RoundedArithmetic(Remainder));
  add("fmod", {"Tensor", "Scalar"}, RoundedArithmetic(Fmod));
  add("pow", {"Tensor_Tensor", "Tensor_Scalar", "Scalar"}, Pow);
  add("float_power", {"Tensor_Tensor", "Tensor_Scalar", "Scalar"}, Pow);
  add("atan2", {"default"},
      Arithmetic([](Op& op, const Value& y, const Value& x) { return Atan2(op.b, y, x); }));
  add("maximum", {"default"}, Arithmetic("maximum"));
  add("minimum", {"default"}, Arithmetic("minimum"));
  add("fmax", {"default"}, IgnoreNan(true));
  add("fmin", {"default"}, IgnoreNan(false));
  add("clamp", {"default", "Tensor"}, Clamp);
  add("clamp_min", {"default", "Tensor"}, ClampMin);
  add("clamp_max", {"default", "Tensor"}, ClampMax);
  add("bitwise_and", {"Tensor", "Scalar", "Scalar_Tensor"}, Arithmetic("and"));
  add("bitwise_or", {"Tensor", "Scalar", "Scalar_Tensor"}, Arithmetic("or"));
  add("bitwise_xor", {"Tensor", "Scalar", "Scalar_Tensor"}, Arithmetic("xor"));
  for (const char* name : {"bitwise_left_shift", "__lshift__"}) {
    add(name, {"Tensor", "Tensor_Scalar", "Scalar_Tensor", "Scalar"}, Arithmetic("shift_left"));
  }
  for (const char* name : {"bitwise_right_shift", "__rshift__"}) {
    add(name, {"Tensor", "Tensor_Scalar", "Scalar_Tensor", "Scalar"}, Arithmetic(ShiftRight));
  }
  add("xlogy", {"Tensor", "Scalar_Self", "Scalar_Other"}, Arithmetic(Xlogy));
  add("hypot", {"default"}, Arithmetic(Hypot));
  add("copysign", {"Tensor", "Scalar"}, Arithmetic(Copysign));
  add("logaddexp", {"default"},
      Arithmetic([](Op& op, const Value& a, const Value& b) { return LogAddExp(op, a, b, 1); }));
  add("logaddexp2", {"default"}, Arithmetic([](Op& op, const Value& a, const Value& b) {
        return LogAddExp(op, a, b, std::numbers::ln2);
      }));
  add("heaviside", {"default"}, Arithmetic(Heaviside));
  add("nextafter", {"default"}, NextAfter);
  add("lerp", {"Scalar", "Tensor"}, Lerp);
  add("addcmul", {"default"}, AddC("multiply"));
  add("addcdiv", {"default"}, AddC("divide"));
  add("where", {"self", "ScalarSelf", "ScalarOther", "Scalar"}, Where);
}

}  // namespace neurond::lowering
