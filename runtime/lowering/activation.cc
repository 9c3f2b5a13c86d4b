// Activations and their gradients. Everything computes in float32 beside half types and is rounded
// once.
#include <cmath>
#include <numbers>

#include "runtime/lowering/elementwise.h"
#include "runtime/lowering/families.h"

namespace neurond::lowering {
namespace {

// The computing forms of tensor arguments, broadcast to the result.
Value Wide(Op& op, int i) {
  const DType common = op.ResultDType();
  return op.Operand(op.Tensor(i), common, OpMath(common), op.ResultSizes());
}

Value Zero(Builder& b, const Value& like) { return b.Zeros(like.dtype, like.sizes); }
Value One(Builder& b, const Value& like) { return b.Fill(like.dtype, 1, like.sizes); }

Values Relu(Op& op) {
  const Value x = op.Tensor(0);
  return {op.b.Max(x, Zero(op.b, x))};
}

Values Relu6(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0);
  return {b.Clamp(Zero(b, x), x, b.Fill(x.dtype, 6, x.sizes))};
}

Values Hardtanh(Op& op) { return {op.Out(op.b.Clamp(Wide(op, 1), Wide(op, 0), Wide(op, 2)))}; }

// grad where low < x < high.
Values HardtanhBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), x = Wide(op, 1);
  const Value inside = b.And(b.Compare("GT", x, Wide(op, 2)), b.Compare("LT", x, Wide(op, 3)));
  return {op.Out(b.Select(inside, grad, Zero(b, grad)))};
}

Values Threshold(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0);
  return {op.Out(b.Select(b.Compare("LE", x, Wide(op, 1)), Wide(op, 2), x))};
}

Values ThresholdBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0);
  return {op.Out(b.Select(b.Compare("LE", Wide(op, 1), Wide(op, 2)), Zero(b, grad), grad))};
}

Values LeakyRelu(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0);
  return {op.Out(b.Select(b.Compare("GT", x, 0), x, b.Mul(x, Wide(op, 1))))};
}

Values LeakyReluBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0);
  return {op.Out(b.Select(b.Compare("GT", Wide(op, 1), 0), grad, b.Mul(grad, Wide(op, 2))))};
}

// (x, weight): the weight is one number or one per channel (dimension 1).
Value PreluWeight(Op& op, const Value& x, const Value& weight) {
  const Value w = op.b.Convert(weight, x.dtype);
  if (w.Elements() == 1) return op.b.Broadcast(op.b.Reshape(w, {}), x.sizes);
  if (w.sizes == x.sizes || w.rank() > 1) return op.b.Broadcast(w, x.sizes);
  return op.b.BroadcastInDim(w, x.sizes, {x.rank() > 1 ? 1 : 0});
}

Values Prelu(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0);
  return {op.Out(b.Select(b.Compare("GT", x, 0), x, b.Mul(x, PreluWeight(op, x, op.Tensor(1)))))};
}

Values Elu(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0), alpha = Wide(op, 1), scale = Wide(op, 2), input_scale = Wide(op, 3);
  const Value low =
      b.Mul(b.Mul(b.Unary("exponential_minus_one", b.Mul(x, input_scale)), alpha), scale);
  return {op.Out(b.Select(b.Compare("LE", x, 0), low, b.Mul(x, scale)))};
}

Values EluBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), alpha = Wide(op, 1), scale = Wide(op, 2),
              input_scale = Wide(op, 3), x = Wide(op, 5);
  Value low;
  if (op.Bool(4)) {  // x is the result
    low = b.Mul(b.Mul(grad, input_scale), b.Add(x, b.Mul(alpha, scale)));
  } else {
    low = b.Mul(b.Mul(b.Mul(b.Mul(grad, input_scale), alpha), scale),
                b.Unary("exponential", b.Mul(x, input_scale)));
  }
  return {op.Out(b.Select(b.Compare("GT", x, 0), b.Mul(grad, scale), low))};
}

// kBeta and kKappa of the tanh form.
constexpr double kGeluBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kGeluKappa = 0.044715;

Values Gelu(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0);
  if (op.String(1, "none") == "tanh") {
    const Value cube = b.Mul(b.Mul(x, x), x);
    const Value inner = b.Mul(b.Add(x, b.Mul(cube, kGeluKappa)), kGeluBeta);
    return {op.Out(b.Mul(b.Mul(x, 0.5), b.Add(b.Unary("tanh", inner), 1)))};
  }
  const Value cdf = b.Mul(b.Add(b.Unary("chlo.erf", b.Mul(x, 1 / std::numbers::sqrt2)), 1), 0.5);
  return {op.Out(b.Mul(x, cdf))};
}

Values GeluBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), x = Wide(op, 1);
  const Value square = b.Mul(x, x);
  if (op.String(2, "none") == "tanh") {
    const Value inner = b.Mul(b.Add(x, b.Mul(b.Mul(square, x), kGeluKappa)), kGeluBeta);
    const Value th = b.Unary("tanh", inner);
    const Value left = b.Mul(b.Add(th, 1), 0.5);
    const Value slope = b.Mul(b.Add(b.Mul(square, 3 * kGeluKappa), 1), kGeluBeta);
    const Value right = b.Mul(b.Mul(b.Mul(x, 0.5), b.Sub(One(b, x), b.Mul(th, th))), slope);
    return {op.Out(b.Mul(grad, b.Add(left, right)))};
  }
  const Value cdf = b.Mul(b.Add(b.Unary("chlo.erf", b.Mul(x, 1 / std::numbers::sqrt2)), 1), 0.5);
  const double norm = 1 / std::sqrt(2 * std::numbers::pi);
  const Value pdf = b.Mul(b.Unary("exponential", b.Mul(square, -0.5)), norm);
  return {op.Out(b.Mul(grad, b.Add(cdf, b.Mul(x, pdf))))};
}

Values Silu(Op& op) {
  const Value x = Wide(op, 0);
  return {op.Out(op.b.Mul(x, op.b.Unary("logistic", x)))};
}

Values SiluBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), x = Wide(op, 1), s = b.Unary("logistic", x);
  const Value inner = b.Add(b.Mul(x, b.Sub(One(b, s), s)), 1);
  return {op.Out(b.Mul(b.Mul(grad, s), inner))};
}

Values SigmoidBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), y = Wide(op, 1);
  return {op.Out(b.Mul(grad, b.Mul(b.Sub(One(b, y), y), y)))};
}

Values TanhBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), y = Wide(op, 1);
  return {op.Out(b.Mul(grad, b.Sub(One(b, y), b.Mul(y, y))))};
}

Values Softplus(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0), beta = Wide(op, 1), scaled = b.Mul(x, beta);
  const Value soft = b.Div(b.Unary("log_plus_one", b.Unary("exponential", scaled)), beta);
  return {op.Out(b.Select(b.Compare("GT", scaled, Wide(op, 2)), x, soft))};
}

Values SoftplusBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), scaled = b.Mul(Wide(op, 1), Wide(op, 2));
  const Value soft = b.Mul(grad, b.Unary("logistic", scaled));
  return {op.Out(b.Select(b.Compare("GT", scaled, Wide(op, 3)), grad, soft))};
}

// min(x, 0) - log1p(exp(-|x|)); the buffer is exp(-|x|), which the CPU returns too.
Values LogSigmoidForward(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0);
  const Value z = b.Unary("exponential", b.Neg(b.Unary("abs", x)));
  const Value out = b.Sub(b.Min(x, Zero(b, x)), b.Unary("log_plus_one", z));
  const bool empty = op.ResultSizes(1) != op.ResultSizes(0);
  return {op.Out(out), empty ? b.Zeros(op.ResultDType(1), op.ResultSizes(1)) : op.Out(z, 1)};
}

Values LogSigmoidBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), x = Wide(op, 1);
  return {op.Out(b.Mul(grad, b.Unary("logistic", b.Neg(x))))};
}

Value ClampTo(Builder& b, const Value& x, double low, double high) {
  return b.Clamp(b.Fill(x.dtype, low, x.sizes), x, b.Fill(x.dtype, high, x.sizes));
}

Values Hardsigmoid(Op& op) {
  Builder& b = op.b;
  return {op.Out(b.Div(ClampTo(b, b.Add(Wide(op, 0), 3), 0, 6), 6))};
}

Values HardsigmoidBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), x = Wide(op, 1);
  const Value inside = b.And(b.Compare("GT", x, -3), b.Compare("LT", x, 3));
  return {op.Out(b.Select(inside, b.Div(grad, 6), Zero(b, grad)))};
}

Values Hardswish(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0);
  return {op.Out(b.Div(b.Mul(x, ClampTo(b, b.Add(x, 3), 0, 6)), 6))};
}

Values HardswishBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), x = Wide(op, 1);
  const Value middle = b.Mul(grad, b.Add(b.Div(x, 3), 0.5));
  const Value upper = b.Select(b.Compare("GE", x, 3), grad, middle);
  return {op.Out(b.Select(b.Compare("LE", x, -3), Zero(b, grad), upper))};
}

Values Hardshrink(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0);
  const Value inside = b.Compare("LE", b.Unary("abs", x), Wide(op, 1));
  return {op.Out(b.Select(inside, Zero(b, x), x))};
}

Values Softshrink(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0), lambda = Wide(op, 1);
  const Value low = b.Select(b.Compare("LT", x, b.Neg(lambda)), b.Add(x, lambda), b.Mul(x, 0));
  return {op.Out(b.Select(b.Compare("GT", x, lambda), b.Sub(x, lambda), low))};
}

// grad where |x| > lambd.
Values ShrinkBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), x = Wide(op, 1);
  const Value outside = b.Compare("GT", b.Unary("abs", x), Wide(op, 2));
  return {op.Out(b.Select(outside, grad, Zero(b, grad)))};
}

Values Mish(Op& op) {
  Builder& b = op.b;
  const Value x = Wide(op, 0);
  const Value soft = b.Unary("log_plus_one", b.Unary("exponential", x));
  return {op.Out(b.Mul(x, b.Unary("tanh", soft)))};
}

Values MishBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = Wide(op, 0), x = Wide(op, 1), s = b.Unary("logistic", x);
  const Value t = b.Unary("tanh", b.Unary("log_plus_one", b.Unary("exponential", x)));
  const Value slope = b.Mul(b.Mul(x, s), b.Sub(One(b, t), b.Mul(t, t)));
  return {op.Out(b.Mul(grad, b.Add(t, slope)))};
}

struct Halves {
  Value a, b;
};

Halves SplitHalves(Op& op, const Value& x, int dim) {
  const int64_t half = x.dim(dim) / 2;
  if (x.rank() == 0 || x.dim(dim) % 2 != 0) {
    op.Invalid("Halving dimension must be even");
    return {x, x};
  }
  return {op.b.SliceDim(x, dim, 0, half), op.b.SliceDim(x, dim, half, 2 * half)};
}

Values Glu(Op& op) {
  const Value x = op.b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
  const Halves h = SplitHalves(op, x, op.DimArg(1, x.rank()));
  if (!op.ok()) return {x};
  return {op.Out(op.b.Mul(h.a, op.b.Unary("logistic", h.b)))};
}

Values GluBackward(Op& op) {
  Builder& b = op.b;
  const DType wide = OpMath(op.ResultDType());
  const Value grad = b.Convert(op.Tensor(0), wide), x = b.Convert(op.Tensor(1), wide);
  const int dim = op.DimArg(2, x.rank());
  const Halves h = SplitHalves(op, x, dim);
  if (!op.ok()) return {x};
  const Value s = b.Unary("logistic", h.b);
  const Value second = b.Mul(b.Mul(b.Mul(grad, h.a), s), b.Sub(One(b, s), s));
  return {op.Out(b.Concatenate({b.Mul(grad, s), second}, dim))};
}

// grad * mask * scale.
Values DropoutBackward(Op& op) {
  Builder& b = op.b;
  return {op.Out(b.Mul(b.Mul(Wide(op, 0), Wide(op, 1)), Wide(op, 2)))};
}

}  // namespace

void RegisterActivation(OpTable& t) {
  t.Add("aten.relu.default", Relu);
  t.Add("aten.relu6.default", Relu6);
  t.Add("aten.hardtanh.default", Hardtanh);
  t.Add("aten.hardtanh_backward.default", HardtanhBackward);
  t.Add("aten.threshold.default", Threshold);
  t.Add("aten.threshold_backward.default", ThresholdBackward);
  t.Add("aten.leaky_relu.default", LeakyRelu);
  t.Add("aten.leaky_relu_backward.default", LeakyReluBackward);
  t.Add("aten._prelu_kernel.default", Prelu);
  t.Add("aten.prelu.default", Prelu);
  t.Add("aten.elu.default", Elu);
  t.Add("aten.elu_backward.default", EluBackward);
  t.Add("aten.gelu.default", Gelu);
  t.Add("aten.gelu_backward.default", GeluBackward);
  t.Add("aten.silu.default", Silu);
  t.Add("aten.silu_backward.default", SiluBackward);
  t.Add("aten.sigmoid_backward.default", SigmoidBackward);
  t.Add("aten.tanh_backward.default", TanhBackward);
  t.Add("aten.softplus.default", Softplus);
  t.Add("aten.softplus_backward.default", SoftplusBackward);
  t.Add("aten.log_sigmoid_forward.default", LogSigmoidForward);
  t.Add("aten.log_sigmoid_backward.default", LogSigmoidBackward);
  t.Add("aten.hardsigmoid.default", Hardsigmoid);
  t.Add("aten.hardsigmoid_backward.default", HardsigmoidBackward);
  t.Add("aten.hardswish.default", Hardswish);
  t.Add("aten.hardswish_backward.default", HardswishBackward);
  t.Add("aten.hardshrink.default", Hardshrink);
  t.Add("aten.hardshrink_backward.default", ShrinkBackward);
  t.Add("aten.softshrink.default", Softshrink);
  t.Add("aten.softshrink_backward.default", ShrinkBackward);
  t.Add("aten.mish.default", Mish);
  t.Add("aten.mish_backward.default", MishBackward);
  t.Add("aten.glu.default", Glu);
  t.Add("aten.glu_backward.default", GluBackward);
  t.Add("aten.native_dropout_backward.default", DropoutBackward);
}

}  // namespace neurond::lowering
