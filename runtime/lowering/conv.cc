// Convolutions of one, two and three spatial dimensions and their gradients, as
// stablehlo.convolution; transposed ones are convolutions of a dilated input with the flipped
// filter.
#include <algorithm>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {
namespace {

struct Conv {
  Sizes stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
  int spatial = 0;
};

// A list of one number stands for all dimensions.
Sizes PerDimension(Op& op, int i, int n) {
  Sizes list = op.Ints(i);
  if (list.size() == 1) list.assign(n, list[0]);
  if (static_cast<int>(list.size()) != n) {
    op.Invalid(
        Cat("argument ", i, " has ", list.size(), " entries for ", n, " spatial dimensions"));
    list.assign(n, 1);
  }
  for (int64_t& v : list) {
    if (v < 0 || v > (int64_t{1} << 20)) {
      op.Invalid(Cat("argument ", i, " holds ", v));
      v = 1;
    }
  }
  return list;
}

// Arguments stride, padding, dilation, transposed, output_padding, groups from `first` on.
bool Load(Op& op, int first, const Value& input, const Value& weight, Conv* c) {
  c->spatial = input.rank() - 2;
  if (c->spatial < 1 || c->spatial > 3 || weight.rank() != input.rank()) {
    op.Invalid(Cat("input of ", input.rank(), " and weight of ", weight.rank(), " dimensions"));
    return false;
  }
  c->stride = PerDimension(op, first, c->spatial);
  c->padding = PerDimension(op, first + 1, c->spatial);
  c->dilation = PerDimension(op, first + 2, c->spatial);
  c->transposed = op.Bool(first + 3);
  c->output_padding = PerDimension(op, first + 4, c->spatial);
  c->groups = op.Int(first + 5);
  const bool fits =
      c->groups > 0 && weight.dim(0) % c->groups == 0 && input.dim(1) % c->groups == 0 &&
      (c->transposed ? weight.dim(0) == input.dim(1) : weight.dim(1) * c->groups == input.dim(1)) &&
      *std::min_element(c->stride.begin(), c->stride.end()) > 0 &&
      *std::min_element(c->dilation.begin(), c->dilation.end()) > 0;
  if (!fits) op.Invalid("channels, groups, stride or dilation do not fit");
  return op.ok();
}

// "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]" with the two leading letters of each operand given.
std::string DimNumbers(int spatial, std::string_view lhs, std::string_view rhs,
                       std::string_view out) {
  std::string tail;
  for (int d = 0; d < spatial; ++d) Append(tail, ", ", d);
  auto one = [&](std::string_view pair) {
    return Cat("[", pair.substr(0, 1), ", ", pair.substr(1, 1), tail, "]");
  };
  return Cat(one(lhs), "x", one(rhs), "->", one(out));
}

Value ResultOf(const Value& like, const Sizes& sizes) {
  return {.name = "", .dtype = OpMath(like.dtype), .sizes = sizes};
}

Sizes SpatialDims(const Conv& c) {
  Sizes dims(c.spatial);
  std::iota(dims.begin(), dims.end(), 2);
  return dims;
}

// [g * a, b, k] -> [g * b, a, k]: swaps the channels of a filter within each group.
Value SwapChannels(Builder& b, const Value& w, int64_t groups) {
  const int64_t outer = w.dim(0) / groups, inner = w.dim(1);
  Sizes split{groups, outer, inner}, swapped{groups * inner, outer}, permutation{0, 2, 1};
  for (int d = 2; d < w.rank(); ++d) {
    split.push_back(w.sizes[d]);
    swapped.push_back(w.sizes[d]);
    permutation.push_back(d + 1);
  }
  return b.Reshape(b.Transpose(b.Reshape(w, split), permutation), swapped);
}

Value Forward(Op& op, const Conv& c, const Value& x, const Value& w, const Sizes& sizes) {
  Window window{{}, c.stride, Sizes(c.spatial, 1), c.dilation, c.padding, c.padding};
  for (int d = 0; d < c.spatial; ++d) {
    // An output padding of a stride or more: places that no input of the transposed one reached.
    const int64_t reach = c.dilation[d] * (w.dim(d + 2) - 1) + 1;
    const int64_t covered = (sizes[d + 2] - 1) * c.stride[d] + reach;
    const int64_t spare = x.dim(d + 2) + 2 * c.padding[d] - covered;
    if (spare >= c.stride[d]) window.high[d] -= spare;
  }
  return op.b.Convolution(x, w, DimNumbers(c.spatial, "bf", "oi", "bf"), window, c.groups, 1,
                          ResultOf(x, sizes), op.Precision());
}

// The gradient of Forward with respect to its input of `sizes`; also the transposed convolution. w:
// [O, I/g, k].
Value InputGrad(Op& op, const Conv& c, const Value& grad, const Value& w, const Sizes& sizes) {
  Builder& b = op.b;
  const Value flipped = b.Reverse(SwapChannels(b, w, c.groups), SpatialDims(c));
  Window window{{}, Sizes(c.spatial, 1), c.stride, c.dilation, {}, {}};
  for (int d = 0; d < c.spatial; ++d) {
    const int64_t reach = c.dilation[d] * (w.dim(d + 2) - 1);
    const int64_t low = reach - c.padding[d];
    const int64_t grown = grad.dim(d + 2) == 0 ? 0 : (grad.dim(d + 2) - 1) * c.stride[d] + 1;
    window.low.push_back(low);
    window.high.push_back(sizes[d + 2] + reach - grown - low);
  }
  return b.Convolution(grad, flipped, DimNumbers(c.spatial, "bf", "oi", "bf"), window, c.groups, 1,
                       ResultOf(grad, sizes), op.Precision());
}

// The gradient of Forward with respect to its filter of `sizes` [O, I/g, k]: the batch is
// contracted, channels become batch and features.
Value FilterGrad(Op& op, const Conv& c, const Value& x, const Value& grad, const Sizes& sizes) {
  Window window{{}, c.dilation, Sizes(c.spatial, 1), c.stride, c.padding, {}};
  for (int d = 0; d < c.spatial; ++d) {
    // Exactly sizes[d] results: the input that the last window never reached is cut off by a
    // negative pad.
    const int64_t reach = (grad.dim(d + 2) - 1) * c.stride[d] + 1;
    const int64_t needed = (sizes[d + 2] - 1) * c.dilation[d] + reach;
    window.high.push_back(needed - x.dim(d + 2) - c.padding[d]);
  }
  return op.b.Convolution(x, grad, DimNumbers(c.spatial, "fb", "io", "fb"), window, 1, c.groups,
                          ResultOf(x, sizes), op.Precision());
}

bool Empty(const Value& a, const Value& w) { return a.Elements() == 0 || w.Elements() == 0; }

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Values Convolution(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0), w = b.Convert(op.Tensor(1), x.dtype);
  const Sizes& sizes = op.ResultSizes();
  Conv c;
  if (!Load(op, 3, x, w, &c)) return {x};
  if (static_cast<int>(sizes.size()) != x.rank()) {
    op.Invalid("the result's rank is not the input's");
    return {x};
  }
  Value y;
  if (Empty(x, w)) {
    y = b.Zeros(OpMath(x.dtype), sizes);
  } else if (c.transposed) {
    y = InputGrad(op, c, x, w, sizes);
  } else {
    y = Forward(op, c, x, w, sizes);
  }
  if (op.Has(2)) y = b.Add(y, b.BroadcastInDim(b.Convert(op.Tensor(2), y.dtype), sizes, {1}));
  return {op.Out(y)};
}

// (grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
// output_mask)
Values ConvolutionBackward(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(1), w = b.Convert(op.Tensor(2), x.dtype),
              grad = b.Convert(op.Tensor(0), x.dtype);
  Conv c;
  Values out(3);
  if (!Load(op, 4, x, w, &c)) return out;
  if (grad.rank() != x.rank()) {
    op.Invalid("the gradient's rank is not the input's");
    return out;
  }
  const bool empty = Empty(x, w) || grad.Elements() == 0;
  if (op.HasResult(0)) {
    Value dx = b.Zeros(OpMath(x.dtype), x.sizes);
    if (!empty)
      dx = c.transposed ? Forward(op, c, grad, w, x.sizes) : InputGrad(op, c, grad, w, x.sizes);
    out[0] = op.Out(dx, 0);
  }
  if (op.HasResult(1)) {
    Value dw = b.Zeros(OpMath(x.dtype), w.sizes);
    if (!empty)
      dw = c.transposed ? FilterGrad(op, c, grad, x, w.sizes) : FilterGrad(op, c, x, grad, w.sizes);
    out[1] = op.Out(dw, 1);
  }
  if (op.HasResult(2)) {
    Sizes dims{0};
    for (int64_t d : SpatialDims(c)) dims.push_back(d);
    out[2] = op.Out(SumOver(b, b.Convert(grad, OpMath(grad.dtype)), dims), 2);
  }
  return out;
}

}  // namespace

void RegisterConv(OpTable& t) {
  t.Add("aten.convolution.default", Convolution);
  t.Add("aten.convolution_backward.default", ConvolutionBackward);
}

}  // namespace neurond::lowering
