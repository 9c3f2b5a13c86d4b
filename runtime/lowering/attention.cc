// Scaled dot-product attention as one op: batches and heads become one batch dimension of plain
// dots, the softmax is float32, and the saved logsumexp lets the backward pass rebuild the
// probabilities.
#include <cmath>
#include <limits>

#include "runtime/lowering/families.h"
#include "runtime/lowering/matmul.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {
namespace {

struct Attention {
  Value q, k, v;  // [B*H, L, E], [B*H, S, E], [B*H, S, Ev], in the input's dtype
  int64_t batch, heads, l, s;
  int64_t kv_heads;
  Sizes scores;  // [B*H, L, S]
  double scale;
  bool causal;
};

// Heads of keys and values are shared by groups of query heads.
Value Heads(Op& op, const Value& x, int64_t heads) {
  Builder& b = op.b;
  Value v = x;
  if (x.dim(1) != heads) {
    const int64_t group = x.dim(1) == 0 ? 0 : heads / x.dim(1);
    v = b.BroadcastInDim(x, {x.dim(0), x.dim(1), group, x.dim(2), x.dim(3)}, {0, 1, 3, 4});
  }
  return b.Reshape(v, {x.dim(0) * heads, x.dim(2), x.dim(3)});
}

bool Load(Op& op, int first, double scale, bool causal, Attention* a) {
  const Value q = op.Tensor(first), k = op.Tensor(first + 1), v = op.Tensor(first + 2);
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && k.dim(1) == v.dim(1) &&
                    k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0 && q.dim(0) == k.dim(0) &&
                    q.dim(0) == v.dim(0) && q.dim(3) == k.dim(3) && k.dim(2) == v.dim(2) &&
                    q.dtype == k.dtype && q.dtype == v.dtype && IsFloat(q.dtype);
  if (!fits) {
    op.Invalid("query, key and value of these sizes or dtypes");
    return false;
  }
  a->batch = q.dim(0);
  a->heads = q.dim(1);
  a->kv_heads = k.dim(1);
  a->l = q.dim(2);
  a->s = k.dim(2);
  a->q = Heads(op, q, a->heads);
  a->k = Heads(op, k, a->heads);
  a->v = Heads(op, v, a->heads);
  a->scores = {a->batch * a->heads, a->l, a->s};
  a->scale = std::isnan(scale) ? 1.0 / std::sqrt(static_cast<double>(q.dim(3))) : scale;
  a->causal = causal;
  return op.ok();
}

// scale * q k^T + bias, -inf where masked; float32.
Value Scores(Op& op, const Attention& a, int bias_arg) {
  Builder& b = op.b;
  Value x = b.Mul(BatchDot(op, a.q, a.k, 2, 2), a.scale);
  if (op.Has(bias_arg)) {
    const Value bias = op.Tensor(bias_arg);
    const Sizes full{a.batch, a.heads, a.l, a.s};
    if (bias.dtype == DType::kBool) {
      const Value keep = b.Reshape(b.Broadcast(bias, full), a.scores);
      x = b.Select(keep, x, b.Fill(x.dtype, -std::numeric_limits<double>::infinity(), a.scores));
    } else {
      x = b.Add(x, b.Reshape(b.Broadcast(b.Convert(bias, x.dtype), full), a.scores));
    }
  }
  if (a.causal) {
    const Value keep =
        b.Compare("LE", b.Iota(DType::kI32, a.scores, 2), b.Iota(DType::kI32, a.scores, 1));
    x = b.Select(keep, x, b.Fill(x.dtype, -std::numeric_limits<double>::infinity(), a.scores));
  }
  return x;
}

double Scale(Op& op, int i) { return op.Double(i, std::numeric_limits<double>::quiet_NaN()); }

bool NoDropout(Op& op, int i) {
  if (op.Double(i) == 0) return true;
  op.Unimplemented("dropout inside the op");
  return false;
}

// Results that PyTorch's kernels return beside the output and that nobody reads here.
Value Unused(Op& op, int k, int64_t value) {
  if (!op.HasResult(k)) return {};
  return op.b.Fill(op.ResultDType(k), static_cast<double>(value), op.ResultSizes(k));
}

// (query, key, value, attn_bias, dropout_p, is_causal, return_debug_mask, scale)
//   -> (output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, philox_seed, philox_offset,
//   debug_attn_mask)
Values Forward(Op& op) {
  Builder& b = op.b;
  Attention a;
  Values out(op.ResultCount());
  if (!NoDropout(op, 4) || !Load(op, 0, Scale(op, 7), op.Bool(5), &a)) return out;
  const Value x = Scores(op, a, 3);
  Value top = MaxOver(b, x, {2});
  // A row that masks everything: exp(-inf - -inf) is NaN, exp(-inf - 0) is 0.
  const Value infinite = b.Compare("EQ", top, -std::numeric_limits<double>::infinity());
  const Value shift = b.Select(infinite, b.Zeros(top.dtype, top.sizes), top);
  const Value e = b.Unary("exponential", b.Sub(x, Spread(b, shift, a.scores, {2})));
  const Value sum = SumOver(b, e, {2});
  const Value one = b.Fill(sum.dtype, 1, sum.sizes);
  // Such a row gives zeros, as PyTorch's fused kernels give.
  const Value p = b.Div(e, Spread(b, b.Select(infinite, one, sum), a.scores, {2}));
  const Value y = BatchDot(op, b.Convert(p, a.v.dtype), a.v, 2, 1);
  out[0] = op.Out(b.Reshape(y, op.ResultSizes(0)), 0);
  if (op.HasResult(1)) {
    const Value lse = b.Add(b.Unary("log", sum), shift);
    out[1] = op.Out(b.Reshape(lse, op.ResultSizes(1)), 1);
  }
  for (int k = 2; k < op.ResultCount(); ++k)
    out[k] = Unused(op, k, k == 4 ? a.l : k == 5 ? a.s : 0);
  return out;
}

// Sums the gradients of the query heads that share a key head.
Value FoldHeads(Op& op, const Value& grad, const Attention& a, int k) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes(k);
  if (a.kv_heads == a.heads) return op.Out(b.Reshape(grad, sizes), k);
  const Value split =
      b.Reshape(grad, {a.batch, a.kv_heads, a.heads / a.kv_heads, grad.dim(1), grad.dim(2)});
  return op.Out(b.Reshape(SumOver(b, split, {2}), sizes), k);
}

// (grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k,
// max_q, max_k, dropout_p,
//  is_causal, philox_seed, philox_offset, scale) -> (grad_query, grad_key, grad_value,
//  grad_attn_bias)
Values Backward(Op& op) {
  Builder& b = op.b;
  Attention a;
  Values out(op.ResultCount());
  if (!NoDropout(op, 12) || !Load(op, 1, Scale(op, 16), op.Bool(13), &a)) return out;
  const DType type = a.q.dtype;
  const Value x = Scores(op, a, 4);
  const Value grad = b.Reshape(b.Convert(op.Tensor(0), type), {a.scores[0], a.l, a.v.dim(2)});
  const Value y = b.Reshape(b.Convert(op.Tensor(6), type), grad.sizes);
  const Value lse = b.Reshape(b.Convert(op.Tensor(7), x.dtype), {a.scores[0], a.l});
  const Value masked = b.Compare("EQ", lse, -std::numeric_limits<double>::infinity());
  const Value shift = b.Select(masked, b.Zeros(lse.dtype, lse.sizes), lse);
  const Value p = b.Unary("exponential", b.Sub(x, Spread(b, shift, a.scores, {2})));
  const Value p_narrow = b.Convert(p, type);
  // d = p * (grad v^T - rowsum(grad * y))
  const Value product = b.Mul(b.Convert(grad, x.dtype), b.Convert(y, x.dtype));
  const Value row = Spread(b, SumOver(b, product, {2}), a.scores, {2});
  const Value d = b.Mul(p, b.Sub(BatchDot(op, grad, a.v, 2, 2), row));
  const Value d_scaled = b.Convert(b.Mul(d, a.scale), type);
  if (op.HasResult(0))
    out[0] = op.Out(b.Reshape(BatchDot(op, d_scaled, a.k, 2, 1), op.ResultSizes(0)), 0);
  if (op.HasResult(1)) out[1] = FoldHeads(op, BatchDot(op, d_scaled, a.q, 1, 1), a, 1);
  if (op.HasResult(2)) out[2] = FoldHeads(op, BatchDot(op, p_narrow, grad, 1, 1), a, 2);
  if (op.ResultCount() > 3 && op.HasResult(3)) {
    // Summed over what the bias was repeated over.
    const Sizes& sizes = op.ResultSizes(3);
    Value full = b.Reshape(d, {a.batch, a.heads, a.l, a.s});
    Sizes dims;
    const int missing = 4 - static_cast<int>(sizes.size());
    for (int i = 0; i < 4; ++i) {
      if (i < missing || (sizes[i - missing] == 1 && full.dim(i) != 1)) dims.push_back(i);
    }
    out[3] = op.Out(b.Reshape(dims.empty() ? full : SumOver(b, full, dims), sizes), 3);
  }
  return out;
}

}  // namespace

void RegisterAttention(OpTable& t) {
  t.Add("aten._scaled_dot_product_fused_attention_overrideable.default", Forward);
  t.Add("aten._scaled_dot_product_fused_attention_overrideable_backward.default", Backward);
}

}  // namespace neurond::lowering
