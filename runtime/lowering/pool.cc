// Pooling. Windows are small, so max pooling walks over the places of the window: one strided slice
// and one select each, which fuse, where a windowed reduction of (value, index) pairs would run
// element by element.
#include <algorithm>
#include <limits>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/index.h"
#include "runtime/lowering/limits.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {
namespace {

// Windows over the last n dimensions.

struct Pool {
  int n = 0;      // spatial dimensions
  int first = 0;  // the first of them
  Sizes kernel, stride, padding, dilation;
  Sizes in, out;  // spatial sizes
  int64_t places = 1;
};

Sizes PerDimension(Op& op, int i, int n, const Sizes& otherwise) {
  Sizes list = op.Ints(i);
  if (list.empty()) return otherwise;
  if (list.size() == 1) list.assign(n, list[0]);
  if (static_cast<int>(list.size()) != n) {
    op.Invalid(Cat("argument ", i, " has ", list.size(), " entries for ", n, " dimensions"));
    list.assign(n, 1);
  }
  return list;
}

// Arguments kernel, stride, padding from `first` on, dilation at `dilation` (-1: none). out: sizes
// of the pooled value.
bool Load(Op& op, const Value& x, const Sizes& out, int n, int first, int dilation, Pool* p) {
  p->n = n;
  p->first = x.rank() - n;
  if (p->first < 0 || static_cast<int>(out.size()) != x.rank()) {
    op.Invalid(Cat("input of ", x.rank(), " dimensions"));
    return false;
  }
  p->kernel = PerDimension(op, first, n, Sizes(n, 1));
  p->stride = PerDimension(op, first + 1, n, p->kernel);
  p->padding = PerDimension(op, first + 2, n, Sizes(n, 0));
  p->dilation = dilation < 0 ? Sizes(n, 1) : PerDimension(op, dilation, n, Sizes(n, 1));
  for (int d = 0; d < n; ++d) {
    const int64_t most = int64_t{1} << 20;
    if (p->kernel[d] <= 0 || p->stride[d] <= 0 || p->dilation[d] <= 0 || p->padding[d] < 0 ||
        p->kernel[d] > most || out[p->first + d] > most || p->stride[d] > most ||
        p->dilation[d] > most || p->padding[d] > most) {
      op.Invalid("kernel, stride, padding or dilation");
      return false;
    }
    p->places = p->places > kPlacesMax ? p->places : p->places * p->kernel[d];
    p->in.push_back(x.dim(p->first + d));
    p->out.push_back(out[p->first + d]);
  }
  return op.ok();
}

// Padding after the last element, so that the last window fits (or a cut, where windows don't reach
// the end).
int64_t High(const Pool& p, int d) {
  return (p.out[d] - 1) * p.stride[d] + p.dilation[d] * (p.kernel[d] - 1) + 1 - p.in[d] -
         p.padding[d];
}

Value PadInput(Builder& b, const Pool& p, const Value& x, const Value& fill) {
  Sizes low(x.rank(), 0), high(x.rank(), 0);
  for (int d = 0; d < p.n; ++d) {
    low[p.first + d] = p.padding[d];
    high[p.first + d] = High(p, d);
  }
  return b.Pad(x, fill, low, high);
}

Sizes Place(const Pool& p, int64_t index) {
  Sizes at(p.n);
  for (int d = p.n - 1; d >= 0; --d) {
    at[d] = index % p.kernel[d];
    index /= p.kernel[d];
  }
  return at;
}

// Input position (flat within the spatial dimensions) that each output looks at in one place of its
// window, and whether it is inside the input; [out...] of the spatial sizes.
struct Looked {
  Value flat, inside;
};

Looked Look(Builder& b, const Pool& p, const Sizes& place) {
  Value flat = b.Int(DType::kI64, 0, p.out), inside = b.Int(DType::kBool, 1, p.out);
  for (int d = 0; d < p.n; ++d) {
    const Value at = b.Add(b.Mul(b.Iota(DType::kI64, p.out, d), static_cast<double>(p.stride[d])),
                           static_cast<double>(place[d] * p.dilation[d] - p.padding[d]));
    inside = b.And(
        inside, b.And(b.Compare("GE", at, 0), b.Compare("LT", at, static_cast<double>(p.in[d]))));
    flat = b.Add(b.Mul(flat, static_cast<double>(p.in[d])), at);
  }
  return {flat, inside};
}

Value OverOuter(Builder& b, const Pool& p, const Value& v, const Sizes& sizes) {
  Sizes dims;
  for (int d = 0; d < p.n; ++d) dims.push_back(p.first + d);
  return b.BroadcastInDim(v, sizes, dims);
}

// (self, kernel, stride, padding, dilation, ceil_mode) -> (values, indices)
LowerFn MaxPool(int n) {
  return [n](Op& op) -> Values {
    Builder& b = op.b;
    const Value x = op.Tensor(0);
    const Sizes& sizes = op.ResultSizes(0);
    Pool p;
    if (!Load(op, x, sizes, n, 1, 4, &p)) return {x, x};
    if (p.places > kPlacesMax) {
      op.Unimplemented("a window of this size");
      return {x, x};
    }
    const Value lowest = b.Lowest(x.dtype);
    const Value padded = PadInput(b, p, x, lowest);
    Value best = b.Broadcast(lowest, sizes), index = b.Int(DType::kI64, -1, sizes);
    for (int64_t k = 0; k < p.places; ++k) {
      const Sizes place = Place(p, k);
      Sizes starts(x.rank(), 0), limits = padded.sizes, strides(x.rank(), 1);
      for (int d = 0; d < n; ++d) {
        starts[p.first + d] = place[d] * p.dilation[d];
        limits[p.first + d] = starts[p.first + d] + (p.out[d] - 1) * p.stride[d] + 1;
        strides[p.first + d] = p.stride[d];
      }
      const Value seen = b.Slice(padded, starts, limits, strides);
      const Looked at = Look(b, p, place);
      // The first place inside counts even if it is -inf; a NaN always wins.
      Value better = b.Or(b.Compare("GT", seen, best), b.Compare("LT", index, 0));
      if (IsFloat(x.dtype)) better = b.Or(better, b.IsNan(seen));
      better = b.And(better, OverOuter(b, p, at.inside, sizes));
      best = b.Select(better, seen, best);
      index = b.Select(better, OverOuter(b, p, at.flat, sizes), index);
    }
    return {best, index};
  };
}

// Adds `part` (per output) into the padded input at one place of each window.
Value Deposit(Builder& b, const Pool& p, const Value& part, const Sizes& padded,
              const Sizes& place) {
  Sizes low(part.rank(), 0), high(part.rank(), 0), interior(part.rank(), 0);
  for (int d = 0; d < p.n; ++d) {
    low[p.first + d] = place[d] * p.dilation[d];
    interior[p.first + d] = p.stride[d] - 1;
    const int64_t reach =
        part.dim(p.first + d) == 0 ? 0 : (part.dim(p.first + d) - 1) * p.stride[d] + 1;
    high[p.first + d] = padded[p.first + d] - low[p.first + d] - reach;
  }
  return b.Pad(part, b.Zeros(part.dtype), low, high, interior);
}

// Undoes PadInput's padding, for gradients.
Value Unpad(Builder& b, const Pool& p, const Value& padded) {
  Sizes low(padded.rank(), 0), high(padded.rank(), 0);
  for (int d = 0; d < p.n; ++d) {
    low[p.first + d] = -p.padding[d];
    high[p.first + d] = -High(p, d);
  }
  return b.Pad(padded, b.Zeros(padded.dtype), low, high);
}

Sizes PaddedSizes(const Pool& p, const Value& x) {
  Sizes sizes = x.sizes;
  for (int d = 0; d < p.n; ++d) sizes[p.first + d] += p.padding[d] + High(p, d);
  return sizes;
}

// (grad, self, kernel, stride, padding, dilation, ceil_mode, indices)
LowerFn MaxPoolBackward(int n) {
  return [n](Op& op) -> Values {
    Builder& b = op.b;
    const Value x = op.Tensor(1), grad = b.Convert(op.Tensor(0), OpMath(x.dtype)),
                indices = op.Tensor(7);
    Pool p;
    if (!Load(op, x, grad.sizes, n, 2, 5, &p)) return {x};
    if (p.places > kPlacesMax || indices.sizes != grad.sizes) {
      op.Unimplemented("a window of this size");
      return {x};
    }
    const Sizes padded = PaddedSizes(p, x);
    Value sum = b.Zeros(grad.dtype, padded);
    const Value zero = b.Zeros(grad.dtype, grad.sizes);
    for (int64_t k = 0; k < p.places; ++k) {
      const Sizes place = Place(p, k);
      const Looked at = Look(b, p, place);
      Value hit = b.Compare("EQ", indices, OverOuter(b, p, at.flat, grad.sizes));
      hit = b.And(hit, OverOuter(b, p, at.inside, grad.sizes));
      sum = b.Add(sum, Deposit(b, p, b.Select(hit, grad, zero), padded, place));
    }
    return {op.Out(Unpad(b, p, sum))};
  };
}

// How many elements each window counts, along one dimension.
std::vector<int64_t> WindowCounts(const Pool& p, int d, bool include_pad) {
  std::vector<int64_t> counts;
  for (int64_t o = 0; o < p.out[d]; ++o) {
    const int64_t start = o * p.stride[d] - p.padding[d];
    const int64_t end = std::min(start + p.kernel[d], p.in[d] + p.padding[d]);
    counts.push_back(include_pad ? end - start
                                 : std::min(end, p.in[d]) - std::max<int64_t>(start, 0));
  }
  return counts;
}

// What the sums of the windows are divided by, [out...].
Value Divisor(Op& op, const Pool& p, DType dtype, bool include_pad, int override_arg) {
  Builder& b = op.b;
  if (op.Has(override_arg)) return b.Fill(dtype, static_cast<double>(op.Int(override_arg)), p.out);
  Value out = b.Fill(dtype, 1, p.out);
  for (int d = 0; d < p.n; ++d) {
    const std::vector<int64_t> counts = WindowCounts(p, d, include_pad);
    const bool uniform =
        std::all_of(counts.begin(), counts.end(), [&](int64_t c) { return c == counts[0]; });
    const Value along = uniform && !counts.empty()
                            ? b.Fill(dtype, static_cast<double>(counts[0]), p.out)
                            : b.BroadcastInDim(b.Convert(b.Vector(counts), dtype), p.out, {d});
    out = b.Mul(out, along);
  }
  return out;
}

Window SumWindow(const Pool& p, int rank) {
  Window w{Sizes(rank, 1), Sizes(rank, 1), {}, {}, {}, {}};
  for (int d = 0; d < p.n; ++d) {
    w.sizes[p.first + d] = p.kernel[d];
    w.strides[p.first + d] = p.stride[d];
  }
  return w;
}

Values AddBody(Builder& b, const Values& x) { return {b.Add(x[0], x[1])}; }

// (self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
LowerFn AvgPool(int n) {
  return [n](Op& op) -> Values {
    Builder& b = op.b;
    const Value x = b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
    const Sizes& sizes = op.ResultSizes();
    Pool p;
    if (!Load(op, x, sizes, n, 1, -1, &p)) return {x};
    const Value padded = PadInput(b, p, x, b.Zeros(x.dtype));
    const Value sum = b.ReduceWindow({padded}, {b.Zeros(x.dtype)}, SumWindow(p, x.rank()),
                                     [&](const Values& v) { return AddBody(b, v); })[0];
    const Value divisor = OverOuter(b, p, Divisor(op, p, x.dtype, op.Bool(5, true), 6), sizes);
    return {op.Out(b.Div(sum, divisor))};
  };
}

// (grad, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
LowerFn AvgPoolBackward(int n) {
  return [n](Op& op) -> Values {
    Builder& b = op.b;
    const Value x = op.Tensor(1), grad = b.Convert(op.Tensor(0), OpMath(x.dtype));
    Pool p;
    if (!Load(op, x, grad.sizes, n, 2, -1, &p)) return {x};
    if (p.places > kPlacesMax) {
      op.Unimplemented("a window of this size");
      return {x};
    }
    const Value share =
        b.Div(grad, OverOuter(b, p, Divisor(op, p, grad.dtype, op.Bool(6, true), 7), grad.sizes));
    const Sizes padded = PaddedSizes(p, x);
    Value sum = b.Zeros(grad.dtype, padded);
    for (int64_t k = 0; k < p.places; ++k) {
      sum = b.Add(sum, Deposit(b, p, share, padded, Place(p, k)));
    }
    return {op.Out(Unpad(b, p, sum))};
  };
}

// The windows of adaptive pooling along one dimension, and, turned round, the outputs that an input
// element is in.
struct Spans {
  std::vector<int64_t> starts, ends;
  int64_t Widest() const {
    int64_t widest = 0;
    for (size_t i = 0; i < starts.size(); ++i) widest = std::max(widest, ends[i] - starts[i]);
    return widest;
  }
};

Spans AdaptiveSpans(int64_t in, int64_t out) {
  Spans spans;
  for (int64_t o = 0; o < out; ++o) {
    spans.starts.push_back(o * in / out);
    spans.ends.push_back(((o + 1) * in + out - 1) / out);
  }
  return spans;
}

Spans Turned(const Spans& spans, int64_t in) {
  Spans turned;
  size_t first = 0, past = 0;
  for (int64_t i = 0; i < in; ++i) {
    while (first < spans.ends.size() && spans.ends[first] <= i) ++first;
    while (past < spans.starts.size() && spans.starts[past] <= i) ++past;
    turned.starts.push_back(static_cast<int64_t>(first));
    turned.ends.push_back(static_cast<int64_t>(past));
  }
  return turned;
}

// The sums along `dim` over each span. What is outside a span does not reach its sum, whatever it
// is: a matrix of shares would make NaN of zero times infinity.
Value SumsOver(Builder& b, const Value& x, int dim, const Spans& spans) {
  const auto count = static_cast<int64_t>(spans.starts.size());
  const int64_t widest = spans.Widest();
  const Sizes grid{count, widest};
  const Value at =
      b.Add(b.BroadcastInDim(b.Vector(spans.starts), grid, {0}), b.Iota(DType::kI64, grid, 1));
  const Value inside = b.Compare("LT", at, b.BroadcastInDim(b.Vector(spans.ends), grid, {0}));
  const Value last = b.Int(DType::kI64, x.dim(dim) - 1, grid);
  Sizes slice = x.sizes;
  slice[static_cast<size_t>(dim)] = 1;
  const Value taken =
      b.Gather(x, b.Reshape(b.Min(at, last), {count * widest, 1}), SliceDims(x.rank(), dim), slice);
  Sizes split = x.sizes;
  split[static_cast<size_t>(dim)] = count;
  split.insert(split.begin() + dim + 1, widest);
  const Value parts = b.Select(b.BroadcastInDim(inside, split, {dim, dim + 1}),
                               b.Reshape(taken, split), b.Zeros(x.dtype, split));
  return SumOver(b, parts, {dim + 1});
}

// x divided by the length of each span along `dim`.
Value OverLengths(Builder& b, const Value& x, int dim, const Spans& spans) {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < spans.starts.size(); ++i) {
    lengths.push_back(spans.ends[i] - spans.starts[i]);
  }
  return b.Div(x, b.BroadcastInDim(b.Convert(b.Vector(lengths), x.dtype), x.sizes, {dim}));
}

LowerFn AdaptiveAvg(int n, bool backward) {
  return [n, backward](Op& op) -> Values {
    const Value input = op.Tensor(0);
    Value x = op.b.Convert(input, OpMath(input.dtype));
    const Sizes& sizes = op.ResultSizes();
    if (x.rank() < n || static_cast<int>(sizes.size()) != x.rank()) {
      op.Invalid("the input's dimensions");
      return {x};
    }
    if (x.Elements() == 0) return {op.b.Zeros(op.ResultDType(), sizes)};
    for (int d = x.rank() - n; d < x.rank(); ++d) {
      if (x.dim(d) > (1 << 20) || sizes[d] > (1 << 20)) {
        op.Unimplemented("windows over this many elements");
        return {x};
      }
      if (backward) {
        const Spans spans = AdaptiveSpans(sizes[d], x.dim(d));
        x = SumsOver(op.b, OverLengths(op.b, x, d, spans), d, Turned(spans, sizes[d]));
      } else {
        const Spans spans = AdaptiveSpans(x.dim(d), sizes[d]);
        x = OverLengths(op.b, SumsOver(op.b, x, d, spans), d, spans);
      }
    }
    return {op.Out(x)};
  };
}

}  // namespace

void RegisterPool(OpTable& t) {
  for (int n : {2, 3}) {
    t.Add(Cat("aten.max_pool", n, "d_with_indices.default"), MaxPool(n));
    t.Add(Cat("aten.max_pool", n, "d_with_indices_backward.default"), MaxPoolBackward(n));
    t.Add(Cat("aten.avg_pool", n, "d_backward.default"), AvgPoolBackward(n));
    t.Add(Cat("aten._adaptive_avg_pool", n, "d.default"), AdaptiveAvg(n, false));
    t.Add(Cat("aten._adaptive_avg_pool", n, "d_backward.default"), AdaptiveAvg(n, true));
  }
  for (int n : {1, 2, 3}) t.Add(Cat("aten.avg_pool", n, "d.default"), AvgPool(n));
  t.Add("aten.adaptive_avg_pool1d.default", AdaptiveAvg(1, false));
}

}  // namespace neurond::lowering
