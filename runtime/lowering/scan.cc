// Running sums, products and extremes. A scan is taken in blocks: within each block by a short
// window, then over the blocks' totals by the same rule, so that the work stays linear (a window as
// long as the dimension would be quadratic).
#include <limits>

#include "runtime/lowering/families.h"
#include "runtime/lowering/index.h"

namespace neurond::lowering {
namespace {

constexpr int64_t kBlock = 32;

// An associative step on tuples of values; the identities stand in front of the first element.
struct Step {
  Values identities;
  Builder::Body body;
};

// Inclusive scan of [rows, n] values along dimension 1.
Values ScanRows(Builder& b, const Values& x, const Step& step) {
  const int64_t rows = x[0].dim(0), n = x[0].dim(1);
  if (n <= kBlock) {
    Window w{{1, n}, {}, {}, {}, {0, n - 1}, {0, 0}};
    return b.ReduceWindow(x, step.identities, w, step.body);
  }
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  Values split;
  for (size_t i = 0; i < x.size(); ++i) {
    const Value padded = b.Pad(x[i], step.identities[i], {0, 0}, {0, blocks * kBlock - n});
    split.push_back(b.Reshape(padded, {rows * blocks, kBlock}));
  }
  const Values inner = ScanRows(b, split, step);
  Values totals;
  for (const Value& v : inner)
    totals.push_back(b.Reshape(b.SliceDim(v, 1, kBlock - 1, kBlock), {rows, blocks}));
  const Values outer = ScanRows(b, totals, step);
  // Each block starts from the total of those before it.
  Values before, joined;
  for (size_t i = 0; i < outer.size(); ++i) {
    const Value shifted = b.Pad(outer[i], step.identities[i], {0, 1}, {0, -1});
    before.push_back(b.BroadcastInDim(b.Reshape(shifted, {rows * blocks}), inner[i].sizes, {0}));
  }
  Values both = before;
  both.insert(both.end(), inner.begin(), inner.end());
  for (const Value& v : step.body(both)) {
    joined.push_back(b.SliceDim(b.Reshape(v, {rows, blocks * kBlock}), 1, 0, n));
  }
  return joined;
}

Sizes ToLast(int rank, int dim) {
  Sizes p;
  for (int d = 0; d < rank; ++d) {
    if (d != dim) p.push_back(d);
  }
  p.push_back(dim);
  return p;
}

Values Scan(Builder& b, const Values& x, int dim, const Step& step) {
  const Sizes& sizes = x[0].sizes;
  if (x[0].rank() == 0 || x[0].Elements() == 0) return x;
  const Sizes to_last = ToLast(x[0].rank(), dim);
  Sizes back(to_last.size());
  for (size_t d = 0; d < to_last.size(); ++d) back[to_last[d]] = static_cast<int64_t>(d);
  Values rows, out;
  Sizes moved;
  for (int64_t d : to_last) moved.push_back(sizes[d]);
  for (const Value& v : x) {
    rows.push_back(b.Reshape(b.Transpose(v, to_last), {v.Elements() / sizes[dim], sizes[dim]}));
  }
  for (const Value& v : ScanRows(b, rows, step))
    out.push_back(b.Transpose(b.Reshape(v, moved), back));
  return out;
}

// (self, dim, dtype)
LowerFn Running(std::string_view hlo, double identity) {
  return [hlo, identity](Op& op) -> Values {
    Builder& b = op.b;
    const Value x = b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
    const Step step{{b.Fill(x.dtype, identity)},
                    [&b, hlo](const Values& v) { return Values{b.Binary(hlo, v[0], v[1])}; }};
    return {op.Out(Scan(b, {x}, op.DimArg(1, x.rank()), step)[0])};
  };
}

// (self, dim) -> (values, indices): the last of equal extremes; a NaN stays.
LowerFn RunningExtreme(bool maximum) {
  return [maximum](Op& op) -> Values {
    Builder& b = op.b;
    const Value x = op.Tensor(0);
    const int dim = op.DimArg(1, x.rank());
    if (x.rank() == 0 || x.Elements() == 0) return {x, b.Int(DType::kI64, 0, x.sizes)};
    const Step step{{maximum ? b.Lowest(x.dtype) : b.Highest(x.dtype), b.Int(DType::kI64, 0)},
                    [&b, maximum, &x](const Values& v) {
                      Value take = b.Compare(maximum ? "GE" : "LE", v[2], v[0]);
                      if (IsFloat(x.dtype)) take = b.Or(take, b.IsNan(v[2]));
                      return Values{b.Select(take, v[2], v[0]), b.Select(take, v[3], v[1])};
                    }};
    return Scan(b, {x, b.Iota(DType::kI64, x.sizes, dim)}, dim, step);
  };
}

Values LogCumSumExp(Op& op) {
  Builder& b = op.b;
  const Value x = b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
  const double infinity = std::numeric_limits<double>::infinity();
  const Step step{{b.Fill(x.dtype, -infinity)}, [&](const Values& v) {
                    const Value big = b.Max(v[0], v[1]), small = b.Min(v[0], v[1]);
                    const Value sum = b.Add(
                        big, b.Unary("log_plus_one", b.Unary("exponential", b.Sub(small, big))));
                    const Value infinite = b.Compare("EQ", b.Unary("abs", big), infinity);
                    return Values{b.Select(infinite, big, sum)};
                  }};
  return {op.Out(Scan(b, {x}, op.DimArg(1, x.rank()), step)[0])};
}

}  // namespace

Value RunningSum(Builder& b, const Value& x, int dim) {
  const Step step{{b.Zeros(x.dtype)}, [&b](const Values& v) { return Values{b.Add(v[0], v[1])}; }};
  return Scan(b, {x}, dim, step)[0];
}

void RegisterScan(OpTable& t) {
  t.Add("aten.cumsum.default", Running("add", 0));
  t.Add("aten.cumprod.default", Running("multiply", 1));
  t.Add("aten.cummax.default", RunningExtreme(true));
  t.Add("aten.cummin.default", RunningExtreme(false));
  t.Add("aten.logcumsumexp.default", LogCumSumExp);
}

}  // namespace neurond::lowering
