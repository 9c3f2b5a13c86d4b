// Reductions. Half types accumulate in float32; indices of extremes are the first ones, and NaN is
// larger than everything.
#include "runtime/lowering/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"

namespace neurond::lowering {
namespace {

// Above this many terms a float sum is taken in blocks.
constexpr int64_t kPlainSumTerms = 4096;
constexpr int64_t kSumBlock = 512;

bool Contains(const Sizes& dims, int d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

Value Barrier(Builder& b, const Value& x) {
  // Keeps a plugin from joining the two levels of a blocked sum.
  const std::string ref = b.Ref(x);
  return b.Line(x.dtype, x.sizes,
                Cat("stablehlo.optimization_barrier ", ref, " : ", Builder::Type(x)));
}

}  // namespace

int64_t CountOver(const Sizes& sizes, const Sizes& dims) {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d >= 0 && d < static_cast<int64_t>(sizes.size())) n *= sizes[d];
  }
  return n;
}

Sizes AllDims(int rank) {
  Sizes dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Value SumOver(Builder& b, const Value& x, const Sizes& dims) {
  const int64_t n = CountOver(x.sizes, dims);
  if ((!IsFloat(x.dtype) && !IsComplex(x.dtype)) || n <= kPlainSumTerms) {
    return b.Reduce("add", x, b.Zeros(x.dtype), dims);
  }
  // One block of the longest dimension at a time, in place: a transpose would cost more than the
  // sum.
  int64_t longest = dims[0];
  for (int64_t d : dims) longest = x.sizes[d] > x.sizes[longest] ? d : longest;
  const int64_t size = x.sizes[longest];
  if (size <= kSumBlock) {
    Sizes rest;
    for (int64_t d : dims) {
      if (d != longest) rest.push_back(d > longest ? d - 1 : d);
    }
    return SumOver(b, Barrier(b, b.Reduce("add", x, b.Zeros(x.dtype), {longest})), rest);
  }
  const int64_t blocks = (size + kSumBlock - 1) / kSumBlock;
  Sizes low(x.rank(), 0), high(x.rank(), 0), split = x.sizes;
  high[longest] = blocks * kSumBlock - size;
  split[longest] = blocks;
  split.insert(split.begin() + longest + 1, kSumBlock);
  const Value blocked = b.Reshape(b.Pad(x, b.Zeros(x.dtype), low, high), split);
  return SumOver(b, Barrier(b, b.Reduce("add", blocked, b.Zeros(x.dtype), {longest + 1})), dims);
}

Value MaxOver(Builder& b, const Value& x, const Sizes& dims) {
  return b.Reduce("maximum", x, b.Lowest(x.dtype), dims);
}

Value MinOver(Builder& b, const Value& x, const Sizes& dims) {
  return b.Reduce("minimum", x, b.Highest(x.dtype), dims);
}

Value Spread(Builder& b, const Value& reduced, const Sizes& sizes, const Sizes& dims) {
  Sizes kept;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    if (!Contains(dims, d)) kept.push_back(d);
  }
  return b.BroadcastInDim(reduced, sizes, kept);
}

Value MeanOver(Builder& b, const Value& x, const Sizes& dims) {
  return b.Div(SumOver(b, x, dims), static_cast<double>(CountOver(x.sizes, dims)));
}

namespace {

// dims at argument `i` (None and []: all); -1: all.
Sizes DimsOf(Op& op, int i, int rank) { return i < 0 ? AllDims(rank) : op.Dims(i, rank); }

Values Finish(Op& op, const Value& reduced, int k = 0) {
  return {op.b.Reshape(op.Out(reduced, k), op.ResultSizes(k))};
}

LowerFn Sum(int dim) {
  return [dim](Op& op) -> Values {
    const Value x = op.b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
    return Finish(op, SumOver(op.b, x, DimsOf(op, dim, x.rank())));
  };
}

Values Nansum(Op& op) {
  Builder& b = op.b;
  Value x = b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
  if (IsFloat(x.dtype)) x = b.Select(b.IsNan(x), b.Zeros(x.dtype, x.sizes), x);
  return Finish(op, SumOver(b, x, DimsOf(op, 1, x.rank())));
}

LowerFn Mean(int dim) {
  return [dim](Op& op) -> Values {
    const Value x = op.b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
    return Finish(op, MeanOver(op.b, x, DimsOf(op, dim, x.rank())));
  };
}

LowerFn Prod(bool has_dim) {
  return [has_dim](Op& op) -> Values {
    const Value x = op.b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
    Sizes dims = AllDims(x.rank());
    if (has_dim && x.rank() > 0) dims = {op.DimArg(1, x.rank())};
    return Finish(op, op.b.Reduce("multiply", x, op.b.Fill(x.dtype, 1), dims));
  };
}

LowerFn Extreme(bool maximum, int dim) {
  return [maximum, dim](Op& op) -> Values {
    const Value x = op.Tensor(0);
    const Sizes dims = DimsOf(op, dim, x.rank());
    return Finish(op, maximum ? MaxOver(op.b, x, dims) : MinOver(op.b, x, dims));
  };
}

LowerFn Logical(bool any, int dim) {
  return [any, dim](Op& op) -> Values {
    const Value x = op.b.Convert(op.Tensor(0), DType::kBool);
    return Finish(op, op.b.Reduce(any ? "or" : "and", x, op.b.Int(DType::kBool, !any),
                                  DimsOf(op, dim, x.rank())));
  };
}

Values CountNonzero(Op& op) {
  const Value x = op.b.Convert(op.b.Convert(op.Tensor(0), DType::kBool), DType::kI64);
  return Finish(op, SumOver(op.b, x, DimsOf(op, 1, x.rank())));
}

// Value and first index of the extreme along one dim.
struct Found {
  Value value, index;
};

Found FindExtreme(Op& op, const Value& x, int dim, bool maximum) {
  Builder& b = op.b;
  if (x.rank() == 0) return {x, b.Int(DType::kI64, 0)};
  const Sizes dims{dim};
  const Value best = maximum ? MaxOver(b, x, dims) : MinOver(b, x, dims);
  Value hit = b.Compare("EQ", x, Spread(b, best, x.sizes, dims));
  if (IsFloat(x.dtype)) hit = b.Or(hit, b.IsNan(x));
  const Value at = b.Iota(DType::kI64, x.sizes, dim);
  const Value none = b.Int(DType::kI64, x.dim(dim), x.sizes);
  return {best, MinOver(b, b.Select(hit, at, none), dims)};
}

LowerFn ExtremeWithIndex(bool maximum) {
  return [maximum](Op& op) -> Values {
    const Value x = op.Tensor(0);
    const Found f = FindExtreme(op, x, op.DimArg(1, x.rank()), maximum);
    return {Finish(op, f.value, 0)[0], Finish(op, f.index, 1)[0]};
  };
}

LowerFn ArgExtreme(bool maximum) {
  return [maximum](Op& op) -> Values {
    Value x = op.Tensor(0);
    int dim = 0;
    if (op.Has(1)) {
      dim = op.DimArg(1, x.rank());
    } else {
      x = op.b.Reshape(x, {x.Elements()});
    }
    if (x.dim(dim) == 0) {
      op.Invalid("Expected reduction dim to be specified for input.numel() == 0");
      return {op.b.Zeros(op.ResultDType(), op.ResultSizes())};
    }
    return Finish(op, FindExtreme(op, x, dim, maximum).index);
  };
}

Values Aminmax(Op& op) {
  const Value x = op.Tensor(0);
  const Sizes dims = op.Has(1) && x.rank() > 0 ? Sizes{op.DimArg(1, x.rank())} : AllDims(x.rank());
  return {Finish(op, MinOver(op.b, x, dims), 0)[0], Finish(op, MaxOver(op.b, x, dims), 1)[0]};
}

struct Moments {
  Value mean, variance;
};

// Two passes: the mean, then the squared distances from it, divided by n - correction (at least 0).
Moments Variance(Op& op, const Value& x, const Sizes& dims, double correction) {
  Builder& b = op.b;
  const Value mean = MeanOver(b, x, dims);
  const Value away = b.Sub(x, Spread(b, mean, x.sizes, dims));
  const double n = static_cast<double>(CountOver(x.sizes, dims));
  return {mean, b.Div(SumOver(b, b.Mul(away, away), dims), std::max(0.0, n - correction))};
}

// form: 'c' (self, dim, correction, keepdim), 'd' (self, dim, unbiased, keepdim), 'a' (self,
// unbiased).
LowerFn VarOf(char form, bool root, bool with_mean) {
  return [=](Op& op) -> Values {
    const Value x = op.b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
    if (IsComplex(op.Tensor(0).dtype)) {
      op.Unimplemented("complex input");
      return {x};
    }
    const Sizes dims = form == 'a' ? AllDims(x.rank()) : op.Dims(1, x.rank());
    const double correction = form == 'c'   ? op.Double(2, 1)
                              : form == 'd' ? (op.Bool(2, true) ? 1.0 : 0.0)
                                            : (op.Bool(1, true) ? 1.0 : 0.0);
    Moments m = Variance(op, x, dims, correction);
    if (root) m.variance = op.b.Unary("sqrt", m.variance);
    Values out = Finish(op, m.variance, 0);
    if (with_mean) out.push_back(Finish(op, m.mean, 1)[0]);
    return out;
  };
}

Values LogSumExp(Op& op) {
  Builder& b = op.b;
  const Value x = b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
  if (IsComplex(x.dtype)) {
    op.Unimplemented("complex numbers");
    return {x};
  }
  const Sizes dims = op.Dims(1, x.rank());
  Value top = MaxOver(b, x, dims);
  top = b.Select(b.UnaryTo("is_finite", top, DType::kBool), top, b.Zeros(x.dtype, top.sizes));
  const Value sum =
      SumOver(b, b.Unary("exponential", b.Sub(x, Spread(b, top, x.sizes, dims))), dims);
  return Finish(op, b.Add(b.Unary("log", sum), top));
}

Value VectorNorm(Op& op, const Value& input, double p, const Sizes& dims) {
  Builder& b = op.b;
  Value x = IsComplex(input.dtype) ? b.Unary("abs", input) : input;
  x = b.Convert(x, OpMath(op.ResultDType()));
  if (p == 2.0) return b.Unary("sqrt", SumOver(b, b.Mul(x, x), dims));
  x = b.Unary("abs", x);
  if (p == 1.0) return SumOver(b, x, dims);
  if (p == 0.0) return SumOver(b, b.Convert(b.Compare("NE", x, 0), x.dtype), dims);
  if (p == std::numeric_limits<double>::infinity()) {
    return b.Reduce("maximum", x, b.Zeros(x.dtype), dims);
  }
  if (p == -std::numeric_limits<double>::infinity()) return MinOver(b, x, dims);
  const Value sum = SumOver(b, b.Binary("power", x, b.Fill(x.dtype, p, x.sizes)), dims);
  return b.Binary("power", sum, b.Fill(x.dtype, 1.0 / p, sum.sizes));
}

// (self, p, dim): the argument `dim` is -1 where all are meant.
LowerFn Norm(int dim) {
  return [dim](Op& op) -> Values {
    const Value x = op.Tensor(0);
    return Finish(op, VectorNorm(op, x, op.Double(1, 2), DimsOf(op, dim, x.rank())));
  };
}

Values Trace(Op& op) {
  Builder& b = op.b;
  const Value x = b.Convert(op.Tensor(0), OpMath(op.ResultDType()));
  if (x.rank() != 2) {
    op.Invalid("trace: expected a matrix");
    return {x};
  }
  const Value on =
      b.Compare("EQ", b.Iota(DType::kI64, x.sizes, 0), b.Iota(DType::kI64, x.sizes, 1));
  return Finish(op, SumOver(b, b.Select(on, x, b.Zeros(x.dtype, x.sizes)), {0, 1}));
}

}  // namespace

void RegisterReduce(OpTable& t) {
  t.Add("aten.sum.default", Sum(-1));
  t.Add("aten.sum.dim_IntList", Sum(1));
  t.Add("aten.nansum.default", Nansum);
  t.Add("aten.mean.default", Mean(-1));
  t.Add("aten.mean.dim", Mean(1));
  t.Add("aten.prod.default", Prod(false));
  t.Add("aten.prod.dim_int", Prod(true));
  t.Add("aten.amax.default", Extreme(true, 1));
  t.Add("aten.amin.default", Extreme(false, 1));
  t.Add("aten.max.default", Extreme(true, -1));
  t.Add("aten.min.default", Extreme(false, -1));
  t.Add("aten.max.dim", ExtremeWithIndex(true));
  t.Add("aten.min.dim", ExtremeWithIndex(false));
  t.Add("aten.argmax.default", ArgExtreme(true));
  t.Add("aten.argmin.default", ArgExtreme(false));
  t.Add("aten.aminmax.default", Aminmax);
  t.Add("aten.any.default", Logical(true, -1));
  t.Add("aten.any.dim", Logical(true, 1));
  t.Add("aten.any.dims", Logical(true, 1));
  t.Add("aten.all.default", Logical(false, -1));
  t.Add("aten.all.dim", Logical(false, 1));
  t.Add("aten.all.dims", Logical(false, 1));
  t.Add("aten.count_nonzero.default", CountNonzero);
  t.Add("aten.count_nonzero.dim_IntList", CountNonzero);
  static constexpr struct {
    const char* name;
    bool root, with_mean;
  } kVariances[] = {{"var", false, false},
                    {"std", true, false},
                    {"var_mean", false, true},
                    {"std_mean", true, true}};
  for (const auto& v : kVariances) {
    t.Add(Cat("aten.", v.name, ".correction"), VarOf('c', v.root, v.with_mean));
    t.Add(Cat("aten.", v.name, ".dim"), VarOf('d', v.root, v.with_mean));
    t.Add(Cat("aten.", v.name, ".default"), VarOf('a', v.root, v.with_mean));
  }
  t.Add("aten.logsumexp.default", LogSumExp);
  t.Add("aten.linalg_vector_norm.default", Norm(2));
  t.Add("aten.norm.Scalar", Norm(-1));
  t.Add("aten.norm.ScalarOpt_dim", Norm(2));
  t.Add("aten.norm.ScalarOpt_dim_dtype", Norm(2));
  t.Add("aten.norm.ScalarOpt_dtype", Norm(-1));
  t.Add("aten.trace.default", Trace);
}

}  // namespace neurond::lowering
