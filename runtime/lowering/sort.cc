// Ops that order elements. NaN is larger than everything, equal elements keep their order.
#include <limits>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {
namespace {

struct Sorted {
  Value values, indices;
};

Sorted SortBy(Builder& b, const Value& x, int dim, bool descending) {
  if (x.rank() == 0) return {x, b.Int(DType::kI64, 0)};
  if (x.Elements() == 0) return {x, b.Int(DType::kI64, 0, x.sizes)};
  const bool floats = IsFloat(x.dtype);
  const Values out =
      b.Sort({x, b.Iota(DType::kI64, x.sizes, dim)}, dim, true, [&](const Values& v) {
        Value before = b.Compare(descending ? "GT" : "LT", v[0], v[1]);
        if (floats) {
          const Value nan0 = b.IsNan(v[0]), nan1 = b.IsNan(v[1]);
          before = b.Or(before, descending ? b.And(nan0, b.Not(nan1)) : b.And(b.Not(nan0), nan1));
        }
        return Values{before};
      });
  return {out[0], out[1]};
}

// sort(self, dim, descending) and sort.stable(self, stable, dim, descending)
LowerFn Sort(int dim_arg) {
  return [dim_arg](Op& op) -> Values {
    const Value x = op.Tensor(0);
    const int dim = op.Dim(op.Int(dim_arg, -1), x.rank());
    const Sorted s = SortBy(op.b, x, dim, op.Bool(dim_arg + 1, false));
    if (op.ResultCount() == 1) return {s.indices};  // argsort
    return {s.values, s.indices};
  };
}

// (self, k, dim, largest, sorted)
Values TopK(Op& op) {
  const Value x = op.Tensor(0);
  const int dim = op.Dim(op.Int(2, -1), x.rank());
  const int64_t k = op.Int(1);
  if (k < 0 || k > x.dim(dim)) {
    op.Invalid("selected index k out of range");
    return {x, x};
  }
  const Sorted s = SortBy(op.b, x, dim, op.Bool(3, true));
  if (x.rank() == 0) return {s.values, s.indices};
  return {op.b.SliceDim(s.values, dim, 0, k), op.b.SliceDim(s.indices, dim, 0, k)};
}

Values PickSorted(Op& op, const Sorted& s, int dim, int64_t at) {
  Builder& b = op.b;
  if (s.values.rank() == 0) return {s.values, s.indices};
  return {b.Reshape(b.SliceDim(s.values, dim, at, at + 1), op.ResultSizes(0)),
          b.Reshape(b.SliceDim(s.indices, dim, at, at + 1), op.ResultSizes(1))};
}

// (self, k, dim, keepdim)
Values KthValue(Op& op) {
  const Value x = op.Tensor(0);
  const int dim = op.Dim(op.Int(2, -1), x.rank());
  const int64_t k = op.Int(1);
  if (k < 1 || k > x.dim(dim)) {
    op.Invalid("selected number k out of range for dimension");
    return {x, x};
  }
  return PickSorted(op, SortBy(op.b, x, dim, false), dim, k - 1);
}

// (self, dim, keepdim): the lower median; the first NaN where there is one.
Values MedianDim(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0);
  const int dim = op.DimArg(1, x.rank());
  if (x.dim(dim) == 0) {
    op.Invalid("median(): Expected reduction dim to have non-zero size.");
    return {x, x};
  }
  const Sorted s = SortBy(b, x, dim, false);
  Values out = PickSorted(op, s, dim, (x.dim(dim) - 1) / 2);
  if (!IsFloat(x.dtype) || x.rank() == 0) return out;
  const Value nan = b.IsNan(x);
  const Value none = b.Int(DType::kI64, x.dim(dim), x.sizes);
  const Value first = MinOver(b, b.Select(nan, b.Iota(DType::kI64, x.sizes, dim), none), {dim});
  const Value any = b.Compare("LT", first, static_cast<double>(x.dim(dim)));
  auto shaped = [&](const Value& v) { return b.Reshape(v, op.ResultSizes(0)); };
  const Value is_nan = shaped(any);
  return {b.Select(is_nan, b.Fill(x.dtype, std::numeric_limits<double>::quiet_NaN(), out[0].sizes),
                   out[0]),
          b.Select(is_nan, shaped(first), out[1])};
}

Values Median(Op& op) {
  Builder& b = op.b;
  const Value x = op.b.Reshape(op.Tensor(0), {op.Tensor(0).Elements()});
  if (x.Elements() == 0) return {b.Fill(x.dtype, std::numeric_limits<double>::quiet_NaN())};
  const Sorted s = SortBy(b, x, 0, false);
  const int64_t n = x.Elements();
  const Value middle = b.Reshape(b.Slice(s.values, {(n - 1) / 2}, {(n - 1) / 2 + 1}, {1}), {});
  if (!IsFloat(x.dtype)) return {middle};
  const Value last = b.Reshape(b.Slice(s.values, {n - 1}, {n}, {1}), {});  // NaN sorts last
  return {b.Select(b.IsNan(last), last, middle)};
}

// How many of `bounds` ([n] or [..., n]) lie before each of `values`.
Value CountBefore(Op& op, const Value& bounds, const Value& values, bool right) {
  Builder& b = op.b;
  const DType common = Op::Promote({bounds, values});
  const int64_t n = bounds.dim(bounds.rank() - 1);
  Sizes pairs = values.sizes;
  pairs.push_back(n);
  Sizes value_dims(values.rank());
  for (int d = 0; d < values.rank(); ++d) value_dims[d] = d;
  Value grid;
  const Value wide = b.Convert(bounds, common);
  if (bounds.rank() == 1) {
    grid = b.BroadcastInDim(wide, pairs, {values.rank()});
  } else {
    // Rows of bounds belong to rows of values.
    Sizes dims(bounds.rank());
    for (int d = 0; d < bounds.rank() - 1; ++d) dims[d] = d;
    dims[bounds.rank() - 1] = values.rank();
    grid = b.BroadcastInDim(wide, pairs, dims);
  }
  const Value spread = b.BroadcastInDim(b.Convert(values, common), pairs, value_dims);
  Value before = b.Compare(right ? "LE" : "LT", grid, spread);
  if (IsFloat(common)) {  // NaN is larger than everything
    const Value nan =
        b.And(b.IsNan(spread), right ? b.Int(DType::kBool, 1, pairs) : b.Not(b.IsNan(grid)));
    before = b.Or(before, nan);
  }
  return op.Out(SumOver(b, b.Convert(before, DType::kI64), {values.rank()}));
}

// searchsorted(sorted, self, out_int32, right, side, sorter)
Values SearchSorted(Op& op) {
  if (op.Has(5)) op.Unimplemented("a sorter");
  const Value bounds = op.Tensor(0), values = op.Tensor(1);
  if (bounds.rank() < 1 || (bounds.rank() > 1 && bounds.rank() != values.rank())) {
    op.Invalid("boundaries and values of these ranks");
    return {values};
  }
  return {CountBefore(op, bounds, values, op.Bool(3, false) || op.String(4, "left") == "right")};
}

// bucketize(self, boundaries, out_int32, right)
Values Bucketize(Op& op) {
  const Value bounds = op.Tensor(1);
  if (bounds.rank() != 1) {
    op.Invalid("boundaries tensor must be 1 dimension");
    return {bounds};
  }
  return {CountBefore(op, bounds, op.Tensor(0), op.Bool(3, false))};
}

// isin(elements, test_elements, assume_unique, invert)
Values IsIn(Op& op) {
  Builder& b = op.b;
  const Value elements = op.Tensor(0);
  Value tests = op.Tensor(1);
  const DType common = Op::Promote({elements, tests});
  tests = b.Reshape(b.Convert(tests, common), {tests.Elements()});
  Sizes pairs = elements.sizes, dims(elements.rank());
  pairs.push_back(tests.Elements());
  for (int d = 0; d < elements.rank(); ++d) dims[d] = d;
  const Value same = b.Compare("EQ", b.BroadcastInDim(b.Convert(elements, common), pairs, dims),
                               b.BroadcastInDim(tests, pairs, {elements.rank()}));
  const Value found = b.Reduce("or", same, b.Int(DType::kBool, 0), {elements.rank()});
  return {op.Bool(3, false) ? b.Not(found) : found};
}

}  // namespace

void RegisterSort(OpTable& t) {
  t.Add("aten.sort.default", Sort(1));
  t.Add("aten.sort.stable", Sort(2));
  t.Add("aten.argsort.default", Sort(1));
  t.Add("aten.argsort.stable", Sort(2));
  t.Add("aten.topk.default", TopK);
  t.Add("aten.kthvalue.default", KthValue);
  t.Add("aten.median.default", Median);
  t.Add("aten.median.dim", MedianDim);
  t.Add("aten.searchsorted.Tensor", SearchSorted);
  t.Add("aten.searchsorted.Scalar", SearchSorted);
  t.Add("aten.bucketize.Tensor", Bucketize);
  t.Add("aten.bucketize.Scalar", Bucketize);
  for (const char* form : {"Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"}) {
    t.Add(Cat("aten.isin.", form), IsIn);
  }
}

}  // namespace neurond::lowering
