// Losses. The class of a target is picked by comparison with an iota along the class dimension,
// which fuses, instead of by gather and scatter.
#include <utility>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {
namespace {

constexpr int64_t kNone = 0, kMean = 1;

Value Reduced(Op& op, const Value& loss, int64_t reduction) {
  if (reduction == kNone) return op.Out(loss);
  const Sizes dims = AllDims(loss.rank());
  return op.Out(reduction == kMean ? MeanOver(op.b, loss, dims) : SumOver(op.b, loss, dims));
}

// The gradient of a reduced loss, for each element: grad, or grad / n.
Value Distributed(Op& op, const Value& grad, int64_t reduction, const Value& like) {
  const Value wide = op.b.Broadcast(op.b.Convert(grad, like.dtype), like.sizes);
  if (reduction != kMean) return wide;
  return op.b.Div(wide, static_cast<double>(like.Elements()));
}

// x is [N, C, rest...] or [C]; target has the sizes without C.
struct Nll {
  Value x;  // in the computing dtype
  int class_dim;
  Value target;    // int64, spread over x's sizes
  Value is_class;  // i1, x's sizes
  Value counts;    // i1, target's sizes: not the ignored index
  Value weight;    // of each target, target's sizes
};

Nll Prepare(Op& op, const Value& input, int target_arg, int weight_arg, int64_t ignore) {
  Builder& b = op.b;
  Nll n;
  n.x = b.Convert(input, OpMath(input.dtype));
  n.class_dim = n.x.rank() == 1 ? 0 : 1;
  const int64_t classes = n.x.dim(n.class_dim);
  const Sizes dims{n.class_dim};
  Sizes rows = n.x.sizes;
  if (n.x.rank() == 0) {
    op.Invalid("input tensor should be 1D or 2D");
    return n;
  }
  rows.erase(rows.begin() + n.class_dim);
  const Value target = b.Reshape(b.Convert(op.Tensor(target_arg), DType::kI64), rows);
  n.counts = b.Compare("NE", target, b.Int(DType::kI64, ignore, rows));
  const Value outside =
      b.Or(b.Compare("LT", target, 0), b.Compare("GE", target, b.Int(DType::kI64, classes, rows)));
  if (target.Elements() > 0) {
    op.Check(ErrorKind::kIndex, "Target {value} is out of bounds.", b.And(outside, n.counts),
             target);
  }
  n.target = Spread(b, target, n.x.sizes, dims);
  n.is_class = b.Compare("EQ", n.target, b.Iota(DType::kI64, n.x.sizes, n.class_dim));
  n.weight = b.Convert(n.counts, n.x.dtype);
  if (op.Has(weight_arg)) {
    const Value w =
        b.BroadcastInDim(b.Convert(op.Tensor(weight_arg), n.x.dtype), n.x.sizes, {n.class_dim});
    const Value picked = SumOver(b, b.Select(n.is_class, w, b.Zeros(w.dtype, w.sizes)), dims);
    n.weight = b.Select(n.counts, picked, b.Zeros(picked.dtype, picked.sizes));
  }
  return n;
}

// (self, target, weight, reduction, ignore_index) -> (loss, total_weight)
Values NllForward(Op& op) {
  Builder& b = op.b;
  const Nll n = Prepare(op, op.Tensor(0), 1, 2, op.Int(4));
  if (!op.ok()) return {n.x, n.x};
  const int64_t reduction = op.Int(3);
  const Value picked =
      SumOver(b, b.Select(n.is_class, n.x, b.Zeros(n.x.dtype, n.x.sizes)), {n.class_dim});
  // Not multiplied where ignored: a weight of 0 times -inf would be NaN.
  const Value loss =
      b.Select(n.counts, b.Neg(b.Mul(picked, n.weight)), b.Zeros(picked.dtype, picked.sizes));
  if (reduction == kNone) return {op.Out(loss), b.Zeros(op.ResultDType(1), op.ResultSizes(1))};
  const Sizes dims = AllDims(loss.rank());
  const Value total = SumOver(b, n.weight, dims), sum = SumOver(b, loss, dims);
  return {op.Out(reduction == kMean ? b.Div(sum, total) : sum), op.Out(total, 1)};
}

// (grad, self, target, weight, reduction, ignore_index, total_weight)
Values NllBackward(Op& op) {
  Builder& b = op.b;
  const Nll n = Prepare(op, op.Tensor(1), 2, 3, op.Int(5));
  if (!op.ok()) return {n.x};
  const int64_t reduction = op.Int(4);
  Value grad = b.Convert(op.Tensor(0), n.x.dtype);
  if (reduction == kMean)
    grad = b.Div(b.Reshape(grad, {}), b.Reshape(b.Convert(op.Tensor(6), n.x.dtype), {}));
  grad = reduction == kNone ? b.Reshape(grad, n.weight.sizes)
                            : b.Broadcast(b.Reshape(grad, {}), n.weight.sizes);
  const Value row =
      b.Select(n.counts, b.Neg(b.Mul(grad, n.weight)), b.Zeros(grad.dtype, grad.sizes));
  const Value spread = Spread(b, row, n.x.sizes, {n.class_dim});
  return {op.Out(b.Select(n.is_class, spread, b.Zeros(spread.dtype, spread.sizes)))};
}

// Elementwise losses: (self, target) -> loss before the reduction.
using Math = std::function<Value(Op& op, const Value& x, const Value& y)>;

Sizes BroadcastSizes(Op& op, const Value& a, const Value& b) {
  Sizes out(std::max(a.sizes.size(), b.sizes.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = a.dim(a.rank() - 1 - static_cast<int>(i)),
                  y = b.dim(b.rank() - 1 - static_cast<int>(i));
    if (x != y && x != 1 && y != 1) op.Invalid("operands do not broadcast");
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

LowerFn Loss(Math math) {
  return [math = std::move(math)](Op& op) -> Values {
    const Value x = op.Tensor(0), y = op.Tensor(1);
    const DType common = op.ResultDType(), wide = OpMath(common);
    const Sizes sizes = BroadcastSizes(op, x, y);
    if (!op.ok()) return {x};
    const Value loss =
        math(op, op.Operand(x, common, wide, sizes), op.Operand(y, common, wide, sizes));
    return {Reduced(op, loss, op.Int(2, kMean))};
  };
}

// (grad, self, target, reduction, ...) -> slope(self - target) * grad
LowerFn LossBackward(Math slope) {
  return [slope = std::move(slope)](Op& op) -> Values {
    const DType common = op.ResultDType(), wide = OpMath(common);
    const Sizes& sizes = op.ResultSizes();
    const Value x = op.Operand(op.Tensor(1), common, wide, sizes);
    const Value y = op.Operand(op.Tensor(2), common, wide, sizes);
    const Value s = slope(op, x, y);
    return {op.Out(op.b.Mul(s, Distributed(op, op.Tensor(0), op.Int(3), s)))};
  };
}

Value Squared(Op& op, const Value& x, const Value& y) {
  const Value d = op.b.Sub(x, y);
  return op.b.Mul(d, d);
}

Value TwiceDistance(Op& op, const Value& x, const Value& y) { return op.b.Mul(op.b.Sub(x, y), 2); }

// beta (smooth_l1) or delta (huber) is the argument after the reduction.
Value Huber(Op& op, const Value& x, const Value& y) {
  Builder& b = op.b;
  const double delta = op.Double(3, 1);
  const Value d = b.Unary("abs", b.Sub(x, y));
  const Value inner = b.Mul(b.Mul(d, d), 0.5), outer = b.Mul(b.Sub(d, 0.5 * delta), delta);
  return b.Select(b.Compare("LE", d, delta), inner, outer);
}

Value SmoothL1(Op& op, const Value& x, const Value& y) {
  Builder& b = op.b;
  const double beta = op.Double(3, 1);
  const Value d = b.Unary("abs", b.Sub(x, y));
  if (beta == 0) return d;
  return b.Select(b.Compare("LT", d, beta), b.Div(b.Mul(b.Mul(d, d), 0.5), beta),
                  b.Sub(d, 0.5 * beta));
}

Value ClampedSlope(Op& op, const Value& x, const Value& y, double width, double scale) {
  Builder& b = op.b;
  const Value d = b.Sub(x, y);
  const Value sign = b.Unary("sign", d);
  if (width == 0) return sign;
  return b.Select(b.Compare("LT", b.Unary("abs", d), width), b.Mul(d, scale / width),
                  b.Mul(sign, scale));
}

Value SmoothL1Slope(Op& op, const Value& x, const Value& y) {
  return ClampedSlope(op, x, y, op.Double(4), 1);
}

Value HuberSlope(Op& op, const Value& x, const Value& y) {
  return ClampedSlope(op, x, y, op.Double(4), op.Double(4));
}

// log is cut off at -100, as PyTorch does.
Value BinaryCrossEntropy(Op& op, const Value& x, const Value& y) {
  Builder& b = op.b;
  for (const auto& [name, v] : {std::pair("input", x), std::pair("target", y)}) {
    const Value outside = b.Not(b.And(b.Compare("GE", v, 0), b.Compare("LE", v, 1)));
    op.Check(ErrorKind::kRuntime, Cat("all elements of ", name, " should be between 0 and 1"),
             outside, b.Convert(outside, DType::kI64));
  }
  const Value floor = b.Fill(x.dtype, -100, x.sizes), one = b.Fill(x.dtype, 1, x.sizes);
  const Value log_x = b.Max(b.Unary("log", x), floor);
  const Value log_rest = b.Max(b.Unary("log_plus_one", b.Neg(x)), floor);
  return b.Sub(b.Mul(b.Sub(y, one), log_rest), b.Mul(y, log_x));
}

// (self, target, weight, reduction)
Values Bce(Op& op) {
  const DType common = op.ResultDType(), wide = OpMath(common);
  const Sizes sizes = op.Tensor(0).sizes;
  auto arg = [&](int i) { return op.Operand(op.Tensor(i), common, wide, sizes); };
  Value loss = BinaryCrossEntropy(op, arg(0), arg(1));
  if (op.Has(2)) loss = op.b.Mul(loss, arg(2));
  return {Reduced(op, loss, op.Int(3, kMean))};
}

// (grad, self, target, weight, reduction)
Values BceBackward(Op& op) {
  Builder& b = op.b;
  const DType common = op.ResultDType(), wide = OpMath(common);
  const Sizes& sizes = op.ResultSizes();
  auto arg = [&](int i) { return op.Operand(op.Tensor(i), common, wide, sizes); };
  const Value x = arg(1), y = arg(2), one = b.Fill(wide, 1, sizes);
  const Value room = b.Max(b.Mul(b.Sub(one, x), x), b.Fill(wide, 1e-12, sizes));
  Value out = b.Div(b.Sub(x, y), room);
  if (op.Has(3)) out = b.Mul(out, arg(3));
  return {op.Out(b.Mul(out, Distributed(op, op.Tensor(0), op.Int(4), out)))};
}

}  // namespace

void RegisterLoss(OpTable& t) {
  for (const char* name : {"nll_loss_forward", "nll_loss2d_forward"}) {
    t.Add(Cat("aten.", name, ".default"), NllForward);
  }
  for (const char* name : {"nll_loss_backward", "nll_loss2d_backward"}) {
    t.Add(Cat("aten.", name, ".default"), NllBackward);
  }
  t.Add("aten.mse_loss.default", Loss(Squared));
  t.Add("aten.mse_loss_backward.default", LossBackward(TwiceDistance));
  t.Add("aten.smooth_l1_loss.default", Loss(SmoothL1));
  t.Add("aten.smooth_l1_loss_backward.default", LossBackward(SmoothL1Slope));
  t.Add("aten.huber_loss.default", Loss(Huber));
  t.Add("aten.huber_loss_backward.default", LossBackward(HuberSlope));
  t.Add("aten.binary_cross_entropy.default", Bce);
  t.Add("aten.binary_cross_entropy_backward.default", BceBackward);
}

}  // namespace neurond::lowering
