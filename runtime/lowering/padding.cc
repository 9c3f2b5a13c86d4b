// Padding, and the shuffles between channels and pixels.
#include <cstdint>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"

namespace neurond::lowering {
namespace {

// PyTorch lists pads from the last dimension, (low, high) each.
bool Pads(Op& op, int i, int rank, Sizes* low, Sizes* high) {
  const Sizes pad = op.Ints(i);
  low->assign(rank, 0);
  high->assign(rank, 0);
  if (pad.size() % 2 != 0 || pad.size() / 2 > static_cast<size_t>(rank)) {
    op.Invalid("Length of pad must be even and at most twice the number of dimensions");
    return false;
  }
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    (*low)[rank - 1 - k] = pad[2 * k];
    (*high)[rank - 1 - k] = pad[2 * k + 1];
  }
  return op.ok();
}

Values ConstantPad(Op& op) {
  const Value x = op.Tensor(0);
  Sizes low, high;
  if (!Pads(op, 1, x.rank(), &low, &high)) return {x};
  const Value fill = op.Has(2) ? op.b.Convert(op.Tensor(2), x.dtype) : op.b.Zeros(x.dtype);
  return {op.b.Pad(x, fill, low, high)};
}

Value EdgeDim(Op& op, const Value& x, int dim, int64_t low, int64_t high, bool reflect) {
  Builder& b = op.b;
  const int64_t n = x.dim(dim);
  if (low < 0 || high < 0 || n == 0 || (reflect && (low >= n || high >= n))) {
    op.Unimplemented("this padding");
    return x;
  }
  Values parts;
  auto edge = [&](int64_t count, int64_t reflect_start, int64_t copy) {
    if (count == 0) return;
    if (reflect) {
      parts.push_back(b.Reverse(b.SliceDim(x, dim, reflect_start, reflect_start + count), {dim}));
      return;
    }
    Sizes sizes = x.sizes, dims(x.rank());
    std::iota(dims.begin(), dims.end(), 0);
    sizes[dim] = count;
    parts.push_back(b.BroadcastInDim(b.SliceDim(x, dim, copy, copy + 1), sizes, dims));
  };
  edge(low, 1, 0);
  parts.push_back(x);
  edge(high, n - 1 - high, n - 1);
  return b.Concatenate(parts, dim);
}

LowerFn EdgePad(bool reflect) {
  return [reflect](Op& op) -> Values {
    Value x = op.Tensor(0);
    Sizes low, high;
    if (!Pads(op, 1, x.rank(), &low, &high)) return {x};
    for (int d = 0; d < x.rank(); ++d) {
      if (low[d] != 0 || high[d] != 0) x = EdgeDim(op, x, d, low[d], high[d], reflect);
    }
    return {x};
  };
}

// [.., c r^2, h, w] -> [.., c, h r, w r].
Values PixelShuffle(Op& op) {
  const Value x = op.Tensor(0);
  const int64_t r = op.Int(1);
  const int n = x.rank();
  if (n < 3 || r <= 0 || x.dim(n - 3) % (r * r) != 0) {
    op.Invalid("pixel_shuffle of these sizes");
    return {x};
  }
  Sizes split(x.sizes.begin(), x.sizes.end() - 3);
  const int64_t outer = static_cast<int64_t>(split.size());
  split.insert(split.end(), {x.dim(n - 3) / (r * r), r, r, x.dim(n - 2), x.dim(n - 1)});
  Sizes permutation(outer);
  std::iota(permutation.begin(), permutation.end(), 0);
  for (int64_t d : {0, 3, 1, 4, 2}) permutation.push_back(outer + d);
  return {op.b.Reshape(op.b.Transpose(op.b.Reshape(x, split), permutation), op.ResultSizes())};
}

Values PixelUnshuffle(Op& op) {
  const Value x = op.Tensor(0);
  const int64_t r = op.Int(1);
  const int n = x.rank();
  if (n < 3 || r <= 0 || x.dim(n - 1) % r != 0 || x.dim(n - 2) % r != 0) {
    op.Invalid("pixel_unshuffle of these sizes");
    return {x};
  }
  Sizes split(x.sizes.begin(), x.sizes.end() - 3);
  const int64_t outer = static_cast<int64_t>(split.size());
  split.insert(split.end(), {x.dim(n - 3), x.dim(n - 2) / r, r, x.dim(n - 1) / r, r});
  Sizes permutation(outer);
  std::iota(permutation.begin(), permutation.end(), 0);
  for (int64_t d : {0, 2, 4, 1, 3}) permutation.push_back(outer + d);
  return {op.b.Reshape(op.b.Transpose(op.b.Reshape(x, split), permutation), op.ResultSizes())};
}

}  // namespace

void RegisterPadding(OpTable& t) {
  t.Add("aten.constant_pad_nd.default", ConstantPad);
  t.Add("aten.pixel_shuffle.default", PixelShuffle);
  t.Add("aten.pixel_unshuffle.default", PixelUnshuffle);
  for (const char* n : {"1", "2", "3"}) {
    t.Add(Cat("aten.reflection_pad", n, "d.default"), EdgePad(true));
    t.Add(Cat("aten.replication_pad", n, "d.default"), EdgePad(false));
  }
}

}  // namespace neurond::lowering
