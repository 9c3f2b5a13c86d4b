// layer, RMS and group normalization. Statistics are float32 beside half types.
#include "runtime/lowering/norm.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {

Value Rsqrt(Builder& b, const Value& variance, double eps) {
  return b.Unary("rsqrt", b.Add(variance, eps));
}

namespace {

Value None() { return {}; }

bool SplitRows(Op& op, const Value& x, int shape_arg, Sizes* flat) {
  const size_t n = op.Ints(shape_arg).size();
  if (n > x.sizes.size() ||
      !std::equal(x.sizes.end() - n, x.sizes.end(), op.Ints(shape_arg).begin())) {
    op.Invalid("the input does not end in normalized_shape");
    return false;
  }
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < x.sizes.size(); ++d) {
    (d < x.sizes.size() - n ? outer : inner) *= x.sizes[d];
  }
  *flat = {outer, inner};
  return op.ok();
}

// An affine parameter over the inner dimension, spread over the rows.
Value Inner(Op& op, int i, const Value& rows) {
  const Value w = op.b.Convert(op.Tensor(i), rows.dtype);
  return op.b.BroadcastInDim(op.b.Reshape(w, {rows.dim(1)}), rows.sizes, {1});
}

Values LayerNorm(Op& op) {
  Builder& b = op.b;
  const Value input = op.Tensor(0);
  Sizes flat;
  if (!SplitRows(op, input, 1, &flat)) return {input, input, input};
  const Value x = b.Reshape(b.Convert(input, OpMath(input.dtype)), flat);
  const Value mean = MeanOver(b, x, {1});
  const Value away = b.Sub(x, Spread(b, mean, flat, {1}));
  const Value rstd = Rsqrt(b, MeanOver(b, b.Mul(away, away), {1}), op.Double(4));
  Value y = b.Mul(away, Spread(b, rstd, flat, {1}));
  if (op.Has(2)) y = b.Mul(y, Inner(op, 2, y));
  if (op.Has(3)) y = b.Add(y, Inner(op, 3, y));
  return {op.Out(b.Reshape(y, input.sizes), 0), op.Out(b.Reshape(mean, op.ResultSizes(1)), 1),
          op.Out(b.Reshape(rstd, op.ResultSizes(2)), 2)};
}

// rstd * (g - mean(g) - normalized * mean(g * normalized)), means over the inner dimension.
Value NormGrad(Builder& b, const Value& g, const Value& normalized, const Value& rstd,
               bool centered) {
  const Sizes& flat = g.sizes;
  const Value along = Spread(b, MeanOver(b, b.Mul(g, normalized), {1}), flat, {1});
  Value out = b.Sub(g, b.Mul(normalized, along));
  if (centered) out = b.Sub(out, Spread(b, MeanOver(b, g, {1}), flat, {1}));
  return b.Mul(out, rstd);
}

Values LayerNormBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = op.Tensor(0), input = op.Tensor(1);
  Sizes flat;
  if (!SplitRows(op, input, 2, &flat)) return {input, input, input};
  const DType wide = OpMath(input.dtype);
  const Value g = b.Reshape(b.Convert(grad, wide), flat),
              x = b.Reshape(b.Convert(input, wide), flat);
  auto stat = [&](int i) {
    return Spread(b, b.Reshape(b.Convert(op.Tensor(i), wide), {flat[0]}), flat, {1});
  };
  const Value rstd = stat(4), normalized = b.Mul(b.Sub(x, stat(3)), rstd);
  Values out(3, None());
  if (op.HasResult(0)) {
    const Value weighted = op.Has(5) ? b.Mul(g, Inner(op, 5, g)) : g;
    out[0] = op.Out(b.Reshape(NormGrad(b, weighted, normalized, rstd, true), input.sizes), 0);
  }
  if (op.HasResult(1)) {
    out[1] = op.Out(b.Reshape(SumOver(b, b.Mul(g, normalized), {0}), op.ResultSizes(1)), 1);
  }
  if (op.HasResult(2)) out[2] = op.Out(b.Reshape(SumOver(b, g, {0}), op.ResultSizes(2)), 2);
  return out;
}

Values RmsNorm(Op& op) {
  Builder& b = op.b;
  const Value input = op.Tensor(0);
  Sizes flat;
  if (!SplitRows(op, input, 1, &flat)) return {input, input};
  const Value x = b.Reshape(b.Convert(input, OpMath(input.dtype)), flat);
  const double eps =
      op.Double(3, input.dtype == DType::kF64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  const Value rstd = Rsqrt(b, MeanOver(b, b.Mul(x, x), {1}), eps);
  Value y = b.Mul(x, Spread(b, rstd, flat, {1}));
  if (op.Has(2)) y = b.Mul(y, Inner(op, 2, y));
  Values out{op.Out(b.Reshape(y, input.sizes), 0)};
  if (op.ResultCount() > 1) out.push_back(op.Out(b.Reshape(rstd, op.ResultSizes(1)), 1));
  return out;
}

Values RmsNormBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = op.Tensor(0), input = op.Tensor(1);
  Sizes flat;
  if (!SplitRows(op, input, 2, &flat)) return {input, input};
  const DType wide = OpMath(input.dtype);
  const Value g = b.Reshape(b.Convert(grad, wide), flat),
              x = b.Reshape(b.Convert(input, wide), flat);
  const Value rstd = Spread(b, b.Reshape(b.Convert(op.Tensor(3), wide), {flat[0]}), flat, {1});
  const Value normalized = b.Mul(x, rstd);
  Values out(2, None());
  if (op.HasResult(0)) {
    const Value weighted = op.Has(4) ? b.Mul(g, Inner(op, 4, g)) : g;
    out[0] = op.Out(b.Reshape(NormGrad(b, weighted, normalized, rstd, false), input.sizes), 0);
  }
  if (op.HasResult(1)) {
    out[1] = op.Out(b.Reshape(SumOver(b, b.Mul(g, normalized), {0}), op.ResultSizes(1)), 1);
  }
  return out;
}

// Group normalization sees [N * G, C / G * HxW].
struct Groups {
  int64_t n, c, hw, groups;
  Sizes flat, channels;  // [N*G, C/G*HW] and [N, C, HW]
};

bool GroupSizes(Op& op, const Value& x, int first, Groups* g) {
  *g = {op.Int(first), op.Int(first + 1), op.Int(first + 2), op.Int(first + 3), {}, {}};
  const bool fits = g->n >= 0 && g->c >= 0 && g->hw >= 0 && g->groups > 0 &&
                    g->c % g->groups == 0 && x.Elements() == g->n * g->c * g->hw;
  if (!fits) op.Invalid("sizes do not fit the input");
  if (!op.ok()) return false;
  g->flat = {g->n * g->groups, g->c / g->groups * g->hw};
  g->channels = {g->n, g->c, g->hw};
  return true;
}

Value Channel(Op& op, int i, const Value& like, const Groups& g) {
  const Value w = op.b.Convert(op.Tensor(i), like.dtype);
  return op.b.BroadcastInDim(op.b.Reshape(w, {g.c}), g.channels, {1});
}

Values GroupNorm(Op& op) {
  Builder& b = op.b;
  const Value input = op.Tensor(0);
  Groups g;
  if (!GroupSizes(op, input, 3, &g)) return {input, input, input};
  const Value x = b.Reshape(b.Convert(input, OpMath(input.dtype)), g.flat);
  const Value mean = MeanOver(b, x, {1});
  const Value away = b.Sub(x, Spread(b, mean, g.flat, {1}));
  const Value rstd = Rsqrt(b, MeanOver(b, b.Mul(away, away), {1}), op.Double(7));
  Value y = b.Reshape(b.Mul(away, Spread(b, rstd, g.flat, {1})), g.channels);
  if (op.Has(1)) y = b.Mul(y, Channel(op, 1, y, g));
  if (op.Has(2)) y = b.Add(y, Channel(op, 2, y, g));
  return {op.Out(b.Reshape(y, input.sizes), 0), op.Out(b.Reshape(mean, op.ResultSizes(1)), 1),
          op.Out(b.Reshape(rstd, op.ResultSizes(2)), 2)};
}

Values GroupNormBackward(Op& op) {
  Builder& b = op.b;
  const Value input = op.Tensor(1);
  Groups g;
  if (!GroupSizes(op, input, 5, &g)) return {input, input, input};
  const DType wide = OpMath(input.dtype);
  const Value grad = b.Reshape(b.Convert(op.Tensor(0), wide), g.channels);
  const Value x = b.Reshape(b.Convert(input, wide), g.flat);
  auto stat = [&](int i) {
    return Spread(b, b.Reshape(b.Convert(op.Tensor(i), wide), {g.flat[0]}), g.flat, {1});
  };
  const Value rstd = stat(3), normalized = b.Mul(b.Sub(x, stat(2)), rstd);
  Values out(3, None());
  if (op.HasResult(0)) {
    const Value weighted = op.Has(4) ? b.Mul(grad, Channel(op, 4, grad, g)) : grad;
    const Value dx = NormGrad(b, b.Reshape(weighted, g.flat), normalized, rstd, true);
    out[0] = op.Out(b.Reshape(dx, input.sizes), 0);
  }
  if (op.HasResult(1)) {
    const Value product = b.Mul(grad, b.Reshape(normalized, g.channels));
    out[1] = op.Out(SumOver(b, product, {0, 2}), 1);
  }
  if (op.HasResult(2)) out[2] = op.Out(SumOver(b, grad, {0, 2}), 2);
  return out;
}

}  // namespace

void RegisterNorm(OpTable& t) {
  t.Add("aten.native_layer_norm.default", LayerNorm);
  t.Add("aten.native_layer_norm_backward.default", LayerNormBackward);
  t.Add("aten._fused_rms_norm.default", RmsNorm);
  t.Add("aten.rms_norm.default", RmsNorm);
  t.Add("aten._fused_rms_norm_backward.default", RmsNormBackward);
  t.Add("aten.native_group_norm.default", GroupNorm);
  t.Add("aten.native_group_norm_backward.default", GroupNormBackward);
}

}  // namespace neurond::lowering
