// Batch normalization over dimension 1, in the functional forms: running statistics come in and go
// out as values.
#include <algorithm>

#include "runtime/lowering/families.h"
#include "runtime/lowering/norm.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {
namespace {

bool Channels(Op& op, const Value& input, Sizes* sizes) {
  if (input.rank() < 2) {
    op.Invalid("expected at least 2 dimensions");
    return false;
  }
  int64_t rest = 1;
  for (int d = 2; d < input.rank(); ++d) rest *= input.sizes[d];
  *sizes = {input.sizes[0], input.sizes[1], rest};
  return op.ok();
}

Value PerChannel(Op& op, const Value& v, DType dtype, const Sizes& sizes) {
  return op.b.BroadcastInDim(op.b.Reshape(op.b.Convert(v, dtype), {sizes[1]}), sizes, {1});
}

Value PerChannelArg(Op& op, int i, DType dtype, const Sizes& sizes) {
  return PerChannel(op, op.Tensor(i), dtype, sizes);
}

const Sizes kOthers = {0, 2};

struct Statistics {
  Value mean, variance;  // biased
};

Statistics Measure(Builder& b, const Value& x) {
  const Value mean = MeanOver(b, x, kOthers);
  const Value away = b.Sub(x, Spread(b, mean, x.sizes, kOthers));
  return {mean, MeanOver(b, b.Mul(away, away), kOthers)};
}

// (x - mean) * rstd * weight + bias
Value Apply(Op& op, const Value& x, const Value& mean, const Value& rstd, int weight, int bias) {
  Builder& b = op.b;
  Value y = b.Mul(b.Sub(x, PerChannel(op, mean, x.dtype, x.sizes)),
                  PerChannel(op, rstd, x.dtype, x.sizes));
  if (op.Has(weight)) y = b.Mul(y, PerChannelArg(op, weight, x.dtype, x.sizes));
  if (op.Has(bias)) y = b.Add(y, PerChannelArg(op, bias, x.dtype, x.sizes));
  return y;
}

// running * (1 - momentum) + momentum * seen
Value Moved(Op& op, int running, const Value& seen, int momentum_arg) {
  Builder& b = op.b;
  const Value old = b.Convert(op.Tensor(running), seen.dtype);
  const double momentum = op.Double(momentum_arg);
  return b.Add(b.Mul(old, 1 - momentum), b.Mul(seen, momentum));
}

struct Trained {
  Value y, mean, rstd, next_mean, next_variance;
};

// Arguments: input, weight, bias, ..., with running statistics at `running` (-1: none).
Trained Train(Op& op, const Value& x, int running, int momentum, double eps) {
  Builder& b = op.b;
  const Statistics s = Measure(b, x);
  Trained t;
  t.mean = s.mean;
  t.rstd = Rsqrt(b, s.variance, eps);
  t.y = Apply(op, x, s.mean, t.rstd, 1, 2);
  if (running >= 0) {
    const double n = static_cast<double>(x.dim(0) * x.dim(2));
    t.next_mean = Moved(op, running, s.mean, momentum);
    t.next_variance = Moved(op, running + 1, b.Mul(s.variance, n / (n - 1)), momentum);
  }
  return t;
}

Value EmptyOr(Op& op, int k, const Value& v) {
  return v.sizes == op.ResultSizes(k) ? op.Out(v, k)
                                      : op.b.Zeros(op.ResultDType(k), op.ResultSizes(k));
}

// (input, weight, bias, running_mean, running_var, training, momentum, eps) -> (out, mean, rstd,
// running_mean, running_var)
Values Functional(Op& op) {
  const Value input = op.Tensor(0);
  Sizes sizes;
  if (!Channels(op, input, &sizes)) return {};
  const Value x = op.b.Reshape(op.b.Convert(input, OpMath(input.dtype)), sizes);
  if (op.Bool(5)) {
    const Trained t = Train(op, x, 3, 6, op.Double(7));
    return {op.Out(op.b.Reshape(t.y, input.sizes)), op.Out(t.mean, 1), op.Out(t.rstd, 2),
            op.Out(t.next_mean, 3), op.Out(t.next_variance, 4)};
  }
  const Value mean = op.b.Convert(op.Tensor(3), x.dtype);
  const Value rstd = Rsqrt(op.b, op.b.Convert(op.Tensor(4), x.dtype), op.Double(7));
  const Value y = Apply(op, x, mean, rstd, 1, 2);
  return {op.Out(op.b.Reshape(y, input.sizes)), EmptyOr(op, 1, mean), EmptyOr(op, 2, rstd),
          op.Out(op.Tensor(3), 3), op.Out(op.Tensor(4), 4)};
}

// (input, weight, bias, training, momentum, eps): batch statistics, none kept.
Values NoStats(Op& op) {
  const Value input = op.Tensor(0);
  Sizes sizes;
  if (!Channels(op, input, &sizes)) return {};
  const Value x = op.b.Reshape(op.b.Convert(input, OpMath(input.dtype)), sizes);
  const Trained t = Train(op, x, -1, 4, op.Double(5));
  return {op.Out(op.b.Reshape(t.y, input.sizes)), op.Out(t.mean, 1), op.Out(t.rstd, 2)};
}

// (input, weight, bias, running_mean, running_var, momentum, eps) -> (out, empty, empty)
Values NoTraining(Op& op) {
  const Value input = op.Tensor(0);
  Sizes sizes;
  if (!Channels(op, input, &sizes)) return {};
  const Value x = op.b.Reshape(op.b.Convert(input, OpMath(input.dtype)), sizes);
  const Value mean = op.b.Convert(op.Tensor(3), x.dtype);
  const Value rstd = Rsqrt(op.b, op.b.Convert(op.Tensor(4), x.dtype), op.Double(6));
  const Value y = Apply(op, x, mean, rstd, 1, 2);
  return {op.Out(op.b.Reshape(y, input.sizes)), EmptyOr(op, 1, mean), EmptyOr(op, 2, rstd)};
}

// (input, weight, bias, running_mean, running_var, momentum, eps)
//   -> (out, mean, rstd, reserve, running_mean, running_var)
Values WithUpdate(Op& op) {
  const Value input = op.Tensor(0);
  Sizes sizes;
  if (!Channels(op, input, &sizes)) return {};
  const Value x = op.b.Reshape(op.b.Convert(input, OpMath(input.dtype)), sizes);
  const Trained t = Train(op, x, 3, 5, op.Double(6));
  return {op.Out(op.b.Reshape(t.y, input.sizes)),
          op.Out(t.mean, 1),
          op.Out(t.rstd, 2),
          op.b.Zeros(op.ResultDType(3), op.ResultSizes(3)),
          op.Out(t.next_mean, 4),
          op.Out(t.next_variance, 5)};
}

// (grad, input, weight, running_mean, running_var, mean, rstd, train, eps, mask)
Values Backward(Op& op) {
  Builder& b = op.b;
  const Value input = op.Tensor(1);
  Sizes sizes;
  if (!Channels(op, input, &sizes)) return {};
  const DType wide = OpMath(input.dtype);
  const Value g = b.Reshape(b.Convert(op.Tensor(0), wide), sizes);
  const Value x = b.Reshape(b.Convert(input, wide), sizes);
  const bool train = op.Bool(7);
  const Value mean = PerChannelArg(op, train ? 5 : 3, wide, sizes);
  const Value rstd =
      train ? PerChannelArg(op, 6, wide, sizes)
            : PerChannel(op, Rsqrt(b, b.Convert(op.Tensor(4), wide), op.Double(8)), wide, sizes);
  const Value normalized = b.Mul(b.Sub(x, mean), rstd);
  const Value sum = SumOver(b, g, kOthers), along = SumOver(b, b.Mul(g, normalized), kOthers);
  Values out(3);
  if (op.HasResult(0)) {
    Value dx = g;
    if (train) {
      const double n = static_cast<double>(sizes[0] * sizes[2]);
      const Value mean_g = Spread(b, b.Div(sum, n), sizes, kOthers);
      const Value mean_along = Spread(b, b.Div(along, n), sizes, kOthers);
      dx = b.Sub(b.Sub(g, mean_g), b.Mul(normalized, mean_along));
    }
    dx = b.Mul(dx, rstd);
    if (op.Has(2)) dx = b.Mul(dx, PerChannelArg(op, 2, wide, sizes));
    out[0] = op.Out(b.Reshape(dx, input.sizes), 0);
  }
  if (op.HasResult(1)) out[1] = op.Out(along, 1);
  if (op.HasResult(2)) out[2] = op.Out(sum, 2);
  return out;
}

}  // namespace

void RegisterBatchNorm(OpTable& t) {
  t.Add("aten._native_batch_norm_legit_functional.default", Functional);
  t.Add("aten._native_batch_norm_legit.no_stats", NoStats);
  t.Add("aten._native_batch_norm_legit_no_training.default", NoTraining);
  t.Add("aten._batch_norm_with_update_functional.default", WithUpdate);
  t.Add("aten.native_batch_norm_backward.default", Backward);
  // (.., update, eps, mask, reserve): the same arguments in the same places.
  t.Add("aten.batch_norm_backward.default", Backward);
}

}  // namespace neurond::lowering
