// Ops that only rearrange elements. Sizes of results come from the trace, so a view is one reshape.
#include "runtime/lowering/shape.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/view.h"

namespace neurond::lowering {

Value ConcatenateAlong(Op& op, Values parts, int dim) {
  Values kept;
  for (Value& part : parts) {
    if (part.dim(dim) > 0 || parts.size() == 1) kept.push_back(std::move(part));
  }
  if (kept.empty()) return op.b.Zeros(op.ResultDType(), op.ResultSizes());
  return op.b.Concatenate(kept, dim);
}

namespace {

Values ReshapeToResult(Op& op) { return {op.b.Reshape(op.Tensor(0), op.ResultSizes())}; }
Values Same(Op& op) { return {op.b.Convert(op.Tensor(0), op.ResultDType())}; }

Values Expand(Op& op) { return {op.b.Broadcast(op.Tensor(0), op.ResultSizes())}; }

Values Permute(Op& op) {
  const Value x = op.Tensor(0);
  Sizes dims = op.Ints(1);
  for (int64_t& d : dims) d = op.Dim(d, x.rank());
  if (x.rank() == 0) dims.clear();
  return {op.b.Transpose(x, dims)};
}

Value SwapDims(Op& op, const Value& x, int d0, int d1) {
  Sizes permutation(x.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (x.rank() > 0) std::swap(permutation[d0], permutation[d1]);
  return op.b.Transpose(x, permutation);
}

Values TransposeInt(Op& op) {
  const Value x = op.Tensor(0);
  return {SwapDims(op, x, op.DimArg(1, x.rank()), op.DimArg(2, x.rank()))};
}

Values T(Op& op) {
  const Value x = op.Tensor(0);
  return {x.rank() < 2 ? x : SwapDims(op, x, 0, 1)};
}

Values SelectInt(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0);
  const int dim = op.DimArg(1, x.rank());
  if (x.rank() == 0) {
    op.Invalid("select() cannot be applied to a 0-dim tensor.");
    return {x};
  }
  const int64_t size = x.dim(dim);
  if (!op.IsTensor(2)) {
    int64_t index = op.Int(2);
    if (index < -size || index >= size) {
      op.Invalid(Cat("select(): index ", index, " out of range for tensor of size [", Join(x.sizes),
                     "] at dimension ", dim));
      return {x};
    }
    if (index < 0) index += size;
    return {b.Reshape(b.SliceDim(x, dim, index, index + 1), op.ResultSizes())};
  }
  const Value index =
      op.CheckedIndex(op.Tensor(2), size,
                      Cat("select(): index {value} out of range for tensor of size [",
                          Join(x.sizes), "] at dimension ", dim));
  Values starts(x.rank(), b.Int(DType::kI64, 0));
  starts[dim] = index;
  Sizes sizes = x.sizes;
  sizes[dim] = 1;
  return {b.Reshape(b.DynamicSlice(x, starts, sizes), op.ResultSizes())};
}

// [start, end) of a Python slice over `size` elements.
void ClampRange(int64_t size, int64_t* start, int64_t* end) {
  if (*start < 0) *start += size;
  if (*end < 0) *end += size;
  *start = std::clamp<int64_t>(*start, 0, size);
  *end = std::clamp<int64_t>(*end, *start, size);
}

struct Range {
  int dim;
  int64_t start, end, step;
};

Range SliceRange(Op& op, const Value& x, int first) {
  Range r{op.Has(first) ? op.DimArg(first, x.rank()) : 0, op.Int(first + 1, 0),
          op.Int(first + 2, x.dim(0)), op.Int(first + 3, 1)};
  const int64_t size = x.dim(r.dim);
  r.end = op.Int(first + 2, size);
  ClampRange(size, &r.start, &r.end);
  if (r.step <= 0 || x.rank() == 0) {
    op.Invalid("slice step must be positive");
    r.step = 1;
  }
  return r;
}

Values SliceTensor(Op& op) {
  const Value x = op.Tensor(0);
  const Range r = SliceRange(op, x, 1);
  if (!op.ok()) return {x};
  return {op.b.SliceDim(x, r.dim, r.start, r.end, r.step)};
}

// `src` put into x[start:end:step] along dim.
Value PutRange(Builder& b, const Value& x, const Value& src, const Range& r) {
  Value update = src;
  if (r.step == 1) {
    Values starts(x.rank(), b.Int(DType::kI64, 0));
    starts[r.dim] = b.Int(DType::kI64, r.start);
    return b.DynamicUpdateSlice(x, update, starts);
  }
  Sizes low(x.rank(), 0), high(x.rank(), 0), interior(x.rank(), 0);
  const int64_t n = src.dim(r.dim), reach = n == 0 ? 0 : (n - 1) * r.step + 1;
  low[r.dim] = r.start;
  high[r.dim] = x.dim(r.dim) - r.start - reach;
  interior[r.dim] = r.step - 1;
  const Value spread = b.Pad(src, b.Zeros(src.dtype), low, high, interior);
  const Value mask =
      b.Pad(b.Int(DType::kBool, 1, src.sizes), b.Int(DType::kBool, 0), low, high, interior);
  return b.Select(mask, spread, x);
}

Values SliceScatter(Op& op) {
  const Value x = op.Tensor(0);
  const Range r = SliceRange(op, x, 2);
  if (!op.ok()) return {x};
  Sizes sizes = x.sizes;
  sizes[r.dim] = (r.end - r.start + r.step - 1) / r.step;
  const Value src = op.b.Broadcast(op.b.Convert(op.Tensor(1), x.dtype), sizes);
  return {PutRange(op.b, x, src, r)};
}

Values SelectScatter(Op& op) {
  const Value x = op.Tensor(0);
  const int dim = op.DimArg(2, x.rank());
  int64_t index = op.Int(3);
  if (index < 0) index += x.dim(dim);
  Sizes sizes = x.sizes;
  if (x.rank() == 0 || index < 0 || index >= x.dim(dim)) {
    op.Invalid("index out of range");
    return {x};
  }
  sizes[dim] = 1;
  const Value src = op.b.Reshape(op.b.Convert(op.Tensor(1), x.dtype), sizes);
  return {PutRange(op.b, x, src, {dim, index, index + 1, 1})};
}

Values Split(Op& op, const Sizes& lengths, int dim) {
  const Value x = op.Tensor(0);
  Values out;
  int64_t at = 0;
  for (int64_t n : lengths) {
    if (n < 0 || n > x.dim(dim) - at) {
      op.Invalid("the lengths of a split are more than the dimension has");
      return {x};
    }
    out.push_back(op.b.SliceDim(x, dim, at, at + n));
    at += n;
  }
  return out;
}

Values SplitTensor(Op& op) {
  const Value x = op.Tensor(0);
  const int dim = op.Has(2) ? op.DimArg(2, x.rank()) : 0;
  const int64_t size = op.Int(1), total = x.dim(dim);
  Sizes lengths;
  if (size <= 0) {
    lengths.push_back(total);
  } else {
    for (int64_t at = 0; at < total && lengths.size() < 65536; at += size) {
      lengths.push_back(std::min(size, total - at));
    }
  }
  if (lengths.empty()) lengths.push_back(0);
  return Split(op, lengths, dim);
}

Values SplitWithSizes(Op& op) {
  const Value x = op.Tensor(0);
  return Split(op, op.Ints(1), op.Has(2) ? op.DimArg(2, x.rank()) : 0);
}

Values Unbind(Op& op) {
  const Value x = op.Tensor(0);
  const int dim = op.Has(1) ? op.DimArg(1, x.rank()) : 0;
  Values out;
  for (int64_t i = 0; i < x.dim(dim) && i < 65536; ++i) {
    out.push_back(op.b.Reshape(op.b.SliceDim(x, dim, i, i + 1),
                               op.ResultSizes(static_cast<int>(out.size()))));
  }
  return out;
}

Values Cat_(Op& op) {
  Values parts;
  for (const Value& v : op.Tensors(0)) {
    // PyTorch lets one-dimensional empty tensors stand among tensors of any rank.
    if (v.rank() == 1 && v.sizes[0] == 0 && op.ResultSizes().size() != 1) continue;
    parts.push_back(op.b.Convert(v, op.ResultDType()));
  }
  if (!op.ok() || parts.empty()) return {op.b.Zeros(op.ResultDType(), op.ResultSizes())};
  return {ConcatenateAlong(op, parts, op.Has(1) ? op.DimArg(1, parts[0].rank()) : 0)};
}

Values Stack(Op& op) {
  const int dim = op.Has(1) ? op.DimArg(1, static_cast<int>(op.ResultSizes().size())) : 0;
  Values parts;
  for (const Value& v : op.Tensors(0)) {
    Sizes sizes = v.sizes;
    sizes.insert(sizes.begin() + std::min<int>(dim, v.rank()), 1);
    parts.push_back(op.b.Reshape(op.b.Convert(v, op.ResultDType()), sizes));
  }
  if (!op.ok() || parts.empty()) return {op.b.Zeros(op.ResultDType(), op.ResultSizes())};
  return {ConcatenateAlong(op, parts, dim)};
}

Values Flip(Op& op) {
  const Value x = op.Tensor(0);
  return {x.rank() == 0 || !op.Has(1) || op.Ints(1).empty()
              ? x
              : op.b.Reverse(x, op.Dims(1, x.rank()))};
}

Value RollDim(Builder& b, const Value& x, int64_t shift, int dim) {
  const int64_t n = x.dim(dim);
  if (n == 0) return x;
  const int64_t at = (n - shift % n) % n;
  if (at == 0) return x;
  return b.Concatenate({b.SliceDim(x, dim, at, n), b.SliceDim(x, dim, 0, at)}, dim);
}

Values Roll(Op& op) {
  Value x = op.Tensor(0);
  const Sizes sizes = x.sizes, shifts = op.Ints(1), dims = op.Ints(2);
  if (x.Elements() == 0 || x.rank() == 0) return {x};
  if (dims.empty()) {
    const Value flat = op.b.Reshape(x, {x.Elements()});
    return {op.b.Reshape(RollDim(op.b, flat, shifts.empty() ? 0 : shifts[0], 0), sizes)};
  }
  for (size_t i = 0; i < dims.size() && i < shifts.size(); ++i) {
    x = RollDim(op.b, x, shifts[i], op.Dim(dims[i], x.rank()));
  }
  return {x};
}

Values Repeat(Op& op) {
  const Value x = op.Tensor(0);
  const Sizes repeats = op.Ints(1);
  if (repeats.size() < x.sizes.size()) {
    op.Invalid(
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
        "tensor");
    return {x};
  }
  Sizes grown(repeats.size() - x.sizes.size(), 1), spread, dims;
  grown.insert(grown.end(), x.sizes.begin(), x.sizes.end());
  for (size_t d = 0; d < repeats.size(); ++d) {
    spread.push_back(repeats[d]);
    dims.push_back(static_cast<int64_t>(spread.size()));
    spread.push_back(grown[d]);
  }
  const Value wide = op.b.BroadcastInDim(op.b.Reshape(x, grown), spread, dims);
  return {op.b.Reshape(wide, op.ResultSizes())};
}

Sizes DenseStrides(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (int d = static_cast<int>(sizes.size()) - 2; d >= 0; --d) {
    strides[d] = strides[d + 1] * std::max<int64_t>(sizes[d + 1], 1);
  }
  return strides;
}

// A dense value read with other sizes and strides.
Value Restride(Op& op, const Value& x, const Sizes& sizes, const Sizes& strides, int64_t offset) {
  Builder& b = op.b;
  const View view{x.dtype, sizes, strides, -1};
  if (strides.size() != sizes.size()) {
    op.Invalid("sizes and strides of different lengths");
    return x;
  }
  for (int64_t s : strides) {
    if (s < 0) op.Invalid("negative strides");
  }
  for (int64_t s : sizes) {
    if (s < 0) op.Invalid("negative sizes");
  }
  if (!op.ok() || view.Elements() == 0) return b.Zeros(x.dtype, sizes);
  if (offset < 0 || offset + view.Span() > x.Elements()) {
    op.Invalid("setStorage: the view reaches beyond the tensor");
    return b.Zeros(x.dtype, sizes);
  }
  const Value flat = b.Slice(b.Reshape(x, {x.Elements()}), {offset}, {x.Elements()}, {1});
  return ReadStrided(b, flat, sizes, strides,
                     {.name = "", .dtype = DType::kI64, .sizes = {}, .number = int64_t{0}});
}

Values AsStrided(Op& op) {
  return {Restride(op, op.Tensor(0), op.Ints(1), op.Ints(2), op.Int(3, 0))};
}

Values Unfold(Op& op) {
  const Value x = op.Tensor(0);
  const int dim = op.DimArg(1, x.rank());
  const int64_t step = op.Int(3);
  Sizes strides = DenseStrides(x.sizes);
  if (x.rank() == 0) return {op.b.Reshape(x, op.ResultSizes())};
  strides.push_back(strides[dim]);
  if (step <= 0) {
    op.Invalid("an unfold by no step");
    return {x};
  }
  strides[dim] *= std::min(step, x.dim(dim));  // a longer step has one window
  return {Restride(op, x, op.ResultSizes(), strides, 0)};
}

// Position and stride of a diagonal: sizes of `x` without dim1 and dim2, then the diagonal.
struct DiagonalOf {
  Sizes sizes, strides;
  int64_t offset = 0;
};

DiagonalOf FindDiagonal(Op& op, const Value& x, int first) {
  const int d1 = op.Dim(op.Int(first + 1, 0), x.rank()),
            d2 = op.Dim(op.Int(first + 2, 1), x.rank());
  const int64_t offset = op.Int(first, 0);
  DiagonalOf out;
  if (x.rank() < 2 || d1 == d2) {
    op.Invalid("diagonal dimensions cannot be identical");
    return out;
  }
  const Sizes strides = DenseStrides(x.sizes);
  for (int d = 0; d < x.rank(); ++d) {
    if (d == d1 || d == d2) continue;
    out.sizes.push_back(x.sizes[d]);
    out.strides.push_back(strides[d]);
  }
  const int64_t length = offset >= 0 ? std::min(x.sizes[d1], x.sizes[d2] - offset)
                                     : std::min(x.sizes[d1] + offset, x.sizes[d2]);
  out.sizes.push_back(std::max<int64_t>(length, 0));
  out.strides.push_back(strides[d1] + strides[d2]);
  if (length > 0) out.offset = offset >= 0 ? offset * strides[d2] : -offset * strides[d1];
  return out;
}

Values Diagonal(Op& op) {
  const Value x = op.Tensor(0);
  const DiagonalOf d = FindDiagonal(op, x, 1);
  return {Restride(op, x, d.sizes, d.strides, d.offset)};
}

// `src` written into a strided part of dense `x`.
Value StridedScatter(Op& op, const Value& x, const Value& src, const Sizes& sizes,
                     const Sizes& strides, int64_t offset) {
  Builder& b = op.b;
  const View view{x.dtype, sizes, strides, -1};
  if (!op.ok() || strides.size() != sizes.size() || offset < 0 ||
      (view.Elements() > 0 && offset + view.Span() > x.Elements())) {
    op.Invalid("the view reaches beyond the tensor");
    return x;
  }
  if (view.Elements() == 0) return x;
  const Value flat = b.Reshape(x, {x.Elements()});
  return b.Reshape(
      WriteStridedAt(b, flat, sizes, strides, offset, b.Broadcast(b.Convert(src, x.dtype), sizes)),
      x.sizes);
}

Values DiagonalScatter(Op& op) {
  const Value x = op.Tensor(0);
  const DiagonalOf d = FindDiagonal(op, x, 2);
  return {StridedScatter(op, x, op.Tensor(1), d.sizes, d.strides, d.offset)};
}

Values AsStridedScatter(Op& op) {
  return {StridedScatter(op, op.Tensor(0), op.Tensor(1), op.Ints(2), op.Ints(3), op.Int(4, 0))};
}

// The sum of what unfold spread.
Values UnfoldBackward(Op& op) {
  Builder& b = op.b;
  const Value grad = op.Tensor(0);
  const Sizes sizes = op.Ints(1);
  const int dim = op.Dim(op.Int(2), static_cast<int>(sizes.size()));
  const int64_t length = op.Int(3), step = op.Int(4);
  if (!op.ok() || sizes.empty() || length > 4096 || step <= 0) {
    op.Unimplemented("this window");
    return {b.Zeros(op.ResultDType(), op.ResultSizes())};
  }
  Value sum = b.Zeros(grad.dtype, op.ResultSizes());
  for (int64_t k = 0; k < length; ++k) {
    Value part = b.SliceDim(grad, grad.rank() - 1, k, k + 1);
    part = b.Reshape(part, Sizes(grad.sizes.begin(), grad.sizes.end() - 1));
    Sizes low(part.rank(), 0), high(part.rank(), 0), interior(part.rank(), 0);
    low[dim] = k;
    interior[dim] = step - 1;
    high[dim] = sizes[dim] - k - (part.dim(dim) == 0 ? 0 : (part.dim(dim) - 1) * step + 1);
    sum = b.Add(sum, b.Pad(part, b.Zeros(part.dtype), low, high, interior));
  }
  return {sum};
}

LowerFn Triangle(bool upper) {
  return [upper](Op& op) -> Values {
    Builder& b = op.b;
    const Value x = op.Tensor(0);
    if (x.rank() < 2) {
      op.Invalid("input tensor must have at least 2 dimensions");
      return {x};
    }
    const Value row = b.Add(b.Iota(DType::kI64, x.sizes, x.rank() - 2),
                            op.Operand(op.Tensor(1), DType::kI64, DType::kI64, x.sizes));
    const Value column = b.Iota(DType::kI64, x.sizes, x.rank() - 1);
    return {b.Select(b.Compare(upper ? "GE" : "LE", column, row), x, b.Zeros(x.dtype, x.sizes))};
  };
}

}  // namespace

void RegisterShape(OpTable& t) {
  for (const char* name :
       {"view.default", "_unsafe_view.default", "reshape.default", "view_copy.default",
        "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "flatten.using_ints",
        "_reshape_alias.default", "unflatten.int", "squeeze_copy.dims", "unsqueeze_copy.default",
        "_reshape_copy.default", "expand_copy.default"}) {
    t.Add(Cat("aten.", name), ReshapeToResult);
  }
  for (const char* name : {"alias.default", "clone.default", "detach.default", "lift_fresh.default",
                           "lift_fresh_copy.default", "contiguous.default", "alias_copy.default",
                           "detach_copy.default", "lift.default"}) {
    t.Add(Cat("aten.", name), Same);
  }
  for (const char* name : {"expand.default", "expand_copy.default", "broadcast_to.default"}) {
    t.Add(Cat("aten.", name), Expand);
  }
  t.Add("aten.permute.default", Permute);
  t.Add("aten.permute_copy.default", Permute);
  t.Add("aten.transpose.int", TransposeInt);
  t.Add("aten.t.default", T);
  t.Add("aten.select.int", SelectInt);
  t.Add("aten.select_copy.int", SelectInt);
  t.Add("aten.slice.Tensor", SliceTensor);
  t.Add("aten.slice_copy.Tensor", SliceTensor);
  t.Add("aten.slice_scatter.default", SliceScatter);
  t.Add("aten.select_scatter.default", SelectScatter);
  t.Add("aten.split.Tensor", SplitTensor);
  t.Add("aten.split_copy.Tensor", SplitTensor);
  t.Add("aten.split_with_sizes.default", SplitWithSizes);
  t.Add("aten.split_with_sizes_copy.default", SplitWithSizes);
  t.Add("aten.unbind.int", Unbind);
  t.Add("aten.cat.default", Cat_);
  t.Add("aten.stack.default", Stack);
  t.Add("aten.flip.default", Flip);
  t.Add("aten.roll.default", Roll);
  t.Add("aten.repeat.default", Repeat);
  t.Add("aten.as_strided.default", AsStrided);
  t.Add("aten.as_strided_copy.default", AsStrided);
  t.Add("aten.as_strided_scatter.default", AsStridedScatter);
  t.Add("aten.unfold.default", Unfold);
  t.Add("aten.unfold_copy.default", Unfold);
  t.Add("aten.unfold_backward.default", UnfoldBackward);
  t.Add("aten.diagonal.default", Diagonal);
  t.Add("aten.diagonal_copy.default", Diagonal);
  t.Add("aten.diagonal_scatter.default", DiagonalScatter);
  t.Add("aten.tril.default", Triangle(false));
  t.Add("aten.triu.default", Triangle(true));
  for (const char* name : {"resolve_conj", "resolve_neg"})
    t.Add(Cat("aten.", name, ".default"), Same);
}

}  // namespace neurond::lowering
