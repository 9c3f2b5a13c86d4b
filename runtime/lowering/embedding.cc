// embedding and its gradient: whole rows of a table.
#include "runtime/lowering/families.h"
#include "runtime/lowering/index.h"

namespace neurond::lowering {
namespace {

// Whole rows of a [V, ...] value: indices [...] -> [..., rest].
Value TakeRows(Builder& b, const Value& table, const Value& index) {
  GatherDims dims{{}, {0}, {0}, index.rank()};
  Sizes slice = table.sizes;
  slice[0] = 1;
  for (int d = 1; d < table.rank(); ++d) dims.offset_dims.push_back(index.rank() + d - 1);
  return b.Gather(table, index, dims, slice);
}

Values Embedding(Op& op) {
  const Value table = op.Tensor(0);
  if (table.rank() != 2) {
    op.Invalid("'weight' must be 2-D");
    return {table};
  }
  const Value index = CheckedPosition(op, op.Tensor(1), table.dim(0), "index out of range in self");
  if (index.Elements() == 0 || table.Elements() == 0) {
    return {op.b.Zeros(op.ResultDType(), op.ResultSizes())};
  }
  return {TakeRows(op.b, table, index)};
}

// (grad, indices, num_weights, padding_idx, scale_grad_by_freq)
Values EmbeddingBackward(Op& op) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes();
  const Value index = b.Convert(op.Tensor(1), DType::kI64);
  const int64_t n = index.Elements();
  const DType wide = OpMath(op.ResultDType());
  if (n == 0 || sizes.size() != 2 || sizes[0] * sizes[1] == 0)
    return {b.Zeros(op.ResultDType(), sizes)};
  const Builder::Body add = [&b](const Values& x) { return Values{b.Add(x[0], x[1])}; };
  const Value at = b.Reshape(index, {n, 1}), flat = b.Reshape(index, {n});
  Value grad = b.Reshape(b.Convert(op.Tensor(0), wide), {n, sizes[1]});
  if (op.Bool(4)) {
    const Value counts = b.Scatter(b.Zeros(wide, {sizes[0]}), at, b.Fill(wide, 1, {n}),
                                   {{}, {0}, {0}, 1}, add, false);
    const Value mine = b.Gather(counts, at, {{}, {0}, {0}, 1}, {1});
    grad = b.Div(grad, b.BroadcastInDim(mine, grad.sizes, {0}));
  }
  const Value padding = b.Compare("EQ", flat, b.Int(DType::kI64, op.Int(3), {n}));
  grad = b.Select(b.BroadcastInDim(padding, grad.sizes, {0}), b.Zeros(wide, grad.sizes), grad);
  return {op.Out(b.Scatter(b.Zeros(wide, sizes), at, grad, {{1}, {0}, {0}, 1}, add, false))};
}

}  // namespace

void RegisterEmbedding(OpTable& t) {
  t.Add("aten.embedding.default", Embedding);
  t.Add("aten.embedding_dense_backward.default", EmbeddingBackward);
}

}  // namespace neurond::lowering
