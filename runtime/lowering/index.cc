// Indexing by tensors. Every index is checked against its range: StableHLO would clamp it in
// silence.
#include "runtime/lowering/index.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/reduce.h"

namespace neurond::lowering {

Value CheckedPosition(Op& op, const Value& index, int64_t size, std::string message,
                      ErrorKind kind) {
  Builder& b = op.b;
  const Value i = b.Convert(index, DType::kI64);
  const Value bad =
      b.Or(b.Compare("LT", i, 0), b.Compare("GE", i, b.Int(DType::kI64, size, i.sizes)));
  if (i.Elements() > 0) op.Check(kind, std::move(message), bad, i);
  return i;
}

GatherDims SliceDims(int rank, int dim) {
  GatherDims dims{{}, {dim}, {dim}, 1};
  for (int d = 0; d < rank; ++d) {
    if (d != dim) dims.offset_dims.push_back(d);
  }
  return dims;
}

namespace {

std::string OutOfBounds(int dim, int64_t size) {
  return Cat("index {value} is out of bounds for dimension ", dim, " with size ", size);
}

Builder::Body Keep() {
  return [](const Values& x) { return Values{x[1]}; };
}

Builder::Body With(Builder& b, std::string_view hlo) {
  return [&b, hlo](const Values& x) { return Values{b.Binary(hlo, x[0], x[1])}; };
}

// --- advanced indexing ---

// Index tensors (None: the whole dimension) over the leading dimensions of x, as one gather or
// scatter.
struct Advanced {
  Value vectors;  // [batch..., k]
  Sizes batch;    // broadcast sizes of the index tensors
  Sizes dims;     // the indexed dimensions
  Sizes result;   // sizes of x[indices]
  GatherDims numbers;
  Sizes slice;  // of one index vector
};

bool Sort(Op& op, const Value& x, const Values& indices, Advanced* a) {
  Builder& b = op.b;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!IsValid(indices[d].dtype)) continue;
    if (indices[d].dtype == DType::kBool || indices[d].dtype == DType::kU8) {
      op.Unimplemented("a mask as index: the size of the result depends on data");
      return false;
    }
    if (static_cast<int>(d) >= x.rank()) {
      op.Invalid(Cat("too many indices for tensor of dimension ", x.rank()));
      return false;
    }
    a->dims.push_back(static_cast<int64_t>(d));
    const Sizes& s = indices[d].sizes;
    if (s.size() > a->batch.size())
      a->batch.insert(a->batch.begin(), s.size() - a->batch.size(), 1);
    for (size_t i = 0; i < s.size(); ++i) {
      int64_t& size = a->batch[a->batch.size() - s.size() + i];
      if (size == 1) size = s[i];
    }
  }
  if (a->dims.empty()) {
    op.Unimplemented("no index tensors");
    return false;
  }
  Values parts;
  Sizes column = a->batch;
  column.push_back(1);
  for (int64_t d : a->dims) {
    // PyTorch counts the indexed dimensions only.
    const int64_t size = x.dim(static_cast<int>(d));
    const Value i =
        op.CheckedIndex(indices[d], size, OutOfBounds(static_cast<int>(parts.size()), size));
    parts.push_back(b.Reshape(b.Broadcast(i, a->batch), column));
  }
  a->vectors = b.Concatenate(parts, static_cast<int>(a->batch.size()));
  return op.ok();
}

// Where the batch dimensions stand in the result: in place of adjacent indexed dimensions, else in
// front.
void Place(const Value& x, Advanced* a) {
  const bool adjacent =
      a->dims.back() - a->dims.front() + 1 == static_cast<int64_t>(a->dims.size());
  const int64_t at = adjacent ? a->dims.front() : 0;
  a->slice = x.sizes;
  a->numbers = {{}, a->dims, a->dims, static_cast<int64_t>(a->batch.size())};
  int64_t next = 0;
  auto put_batch = [&] {
    a->result.insert(a->result.end(), a->batch.begin(), a->batch.end());
    next += static_cast<int64_t>(a->batch.size());
  };
  if (at == 0) put_batch();
  bool done = at == 0;
  for (int d = 0; d < x.rank(); ++d) {
    if (std::find(a->dims.begin(), a->dims.end(), d) != a->dims.end()) {
      a->slice[d] = 1;
      if (!done) {
        put_batch();
        done = true;
      }
      continue;
    }
    a->result.push_back(x.sizes[d]);
    a->numbers.offset_dims.push_back(next++);
  }
}

Values IndexTensor(Op& op) {
  const Value x = op.Tensor(0);
  Advanced a;
  if (!Sort(op, x, op.Tensors(1), &a)) return {x};
  Place(x, &a);
  if (x.Elements() == 0 || a.vectors.Elements() == 0) {
    return {op.b.Zeros(op.ResultDType(), op.ResultSizes())};
  }
  return {op.b.Gather(x, a.vectors, a.numbers, a.slice)};
}

// A scatter that adds in float32 beside half types; bool adds are ORs.
Value ScatterInto(Op& op, const Value& x, const Value& at, const Value& updates,
                  const GatherDims& dims, bool add) {
  Builder& b = op.b;
  if (!add) return b.Scatter(x, at, updates, dims, Keep(), false);
  const DType wide = OpMath(x.dtype);
  return b.Convert(
      b.Scatter(b.Convert(x, wide), at, b.Convert(updates, wide), dims, With(b, "add"), false),
      x.dtype);
}

// (self, indices, values, accumulate)
Values IndexPut(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0), values = op.Tensor(2);
  const Values indices = op.Tensors(1);
  const bool accumulate = op.Bool(3, false);
  Value masked;
  if (MaskedPut(op, x, indices, values, accumulate, &masked)) return {masked};
  Advanced a;
  if (!Sort(op, x, indices, &a)) return {x};
  Place(x, &a);
  const Value updates = b.Broadcast(b.Convert(values, x.dtype), a.result);
  if (updates.Elements() == 0 || x.Elements() == 0) return {x};
  return {ScatterInto(op, x, a.vectors, updates, a.numbers, accumulate)};
}

// --- along one dimension ---

// For each element of `index` the full coordinates of what it names along `dim`: [index..., rank].
Value Coordinates(Builder& b, const Value& index, int dim) {
  Values parts;
  Sizes column = index.sizes;
  column.push_back(1);
  for (int d = 0; d < index.rank(); ++d) {
    parts.push_back(b.Reshape(d == dim ? index : b.Iota(DType::kI64, index.sizes, d), column));
  }
  return b.Concatenate(parts, index.rank());
}

GatherDims FullCoordinates(int rank) {
  GatherDims dims{{}, AllDims(rank), AllDims(rank), rank};
  return dims;
}

Value AtLeastOneDim(Builder& b, const Value& v) { return v.rank() == 0 ? b.Reshape(v, {1}) : v; }

// (self, dim, index)
Values Gather(Op& op) {
  Builder& b = op.b;
  const Value x = AtLeastOneDim(b, op.Tensor(0)), raw = AtLeastOneDim(b, op.Tensor(2));
  const int dim = op.DimArg(1, x.rank());
  if (raw.Elements() == 0) return {b.Zeros(op.ResultDType(), op.ResultSizes())};
  if (raw.rank() != x.rank()) {
    op.Invalid("Index tensor must have the same number of dimensions as input tensor");
    return {x};
  }
  const Value index =
      CheckedPosition(op, raw, x.dim(dim), OutOfBounds(dim, x.dim(dim)), ErrorKind::kRuntime);
  if (x.Elements() == 0) return {b.Zeros(op.ResultDType(), op.ResultSizes())};
  const Value out =
      b.Gather(x, Coordinates(b, index, dim), FullCoordinates(x.rank()), Sizes(x.rank(), 1));
  return {b.Reshape(out, op.ResultSizes())};
}

struct ScatterArgs {
  Value x, at, src;
  bool empty = false;
};

// (self, dim, index, src or number): coordinates and updates of the index's sizes.
ScatterArgs LoadScatter(Op& op, DType dtype) {
  Builder& b = op.b;
  ScatterArgs s;
  s.x = AtLeastOneDim(b, b.Convert(op.Tensor(0), dtype));
  const Value raw = AtLeastOneDim(b, op.Tensor(2));
  const int dim = op.DimArg(1, s.x.rank());
  s.empty = raw.Elements() == 0;
  if (s.empty) return s;
  if (raw.rank() != s.x.rank()) {
    op.Invalid("Index tensor must have the same number of dimensions as self tensor");
    s.empty = true;
    return s;
  }
  const Value index =
      CheckedPosition(op, raw, s.x.dim(dim), OutOfBounds(dim, s.x.dim(dim)), ErrorKind::kRuntime);
  s.at = Coordinates(b, index, dim);
  const Value src = b.Convert(op.Tensor(3), dtype);
  if (src.rank() == 0 && (raw.rank() != 1 || raw.Elements() != 1 || !op.IsTensor(3))) {
    s.src = b.Broadcast(src, raw.sizes);
  } else {
    s.src = b.Slice(AtLeastOneDim(b, src), Sizes(raw.rank(), 0), raw.sizes, Sizes(raw.rank(), 1));
  }
  return s;
}

Values Finish(Op& op, const Value& v) { return {op.b.Reshape(op.Out(v), op.ResultSizes())}; }

Values Scatter(Op& op) {
  const ScatterArgs s = LoadScatter(op, op.ResultDType());
  if (s.empty) return Finish(op, s.x);
  return Finish(op, op.b.Scatter(s.x, s.at, s.src, FullCoordinates(s.x.rank()), Keep(), false));
}

Values ScatterAdd(Op& op) {
  const ScatterArgs s = LoadScatter(op, OpMath(op.ResultDType()));
  if (s.empty) return Finish(op, s.x);
  return Finish(
      op, op.b.Scatter(s.x, s.at, s.src, FullCoordinates(s.x.rank()), With(op.b, "add"), false));
}

Value ReduceIdentity(Builder& b, const std::string& reduce, const Value& like) {
  if (reduce == "prod") return b.Fill(like.dtype, 1, like.sizes);
  if (reduce == "amax") return b.Lowest(like.dtype, like.sizes);
  if (reduce == "amin") return b.Highest(like.dtype, like.sizes);
  return b.Zeros(like.dtype, like.sizes);
}

std::string_view ReduceOp(const std::string& reduce) {
  if (reduce == "prod" || reduce == "multiply") return "multiply";
  if (reduce == "amax") return "maximum";
  if (reduce == "amin") return "minimum";
  return "add";
}

// (self, dim, index, src, reduce, include_self)
Values ScatterReduce(Op& op) {
  Builder& b = op.b;
  const std::string reduce = op.String(4);
  const bool include_self = op.Bool(5, true);
  const ScatterArgs s = LoadScatter(op, OpMath(op.ResultDType()));
  if (s.empty) return Finish(op, s.x);
  const GatherDims dims = FullCoordinates(s.x.rank());
  const Value counts = b.Scatter(b.Int(DType::kI64, include_self ? 1 : 0, s.x.sizes), s.at,
                                 b.Int(DType::kI64, 1, s.src.sizes), dims, With(b, "add"), false);
  Value base = s.x;
  const Value untouched = b.Compare("EQ", counts, 0);
  if (!include_self) base = b.Select(untouched, s.x, ReduceIdentity(b, reduce, s.x));
  Value out = b.Scatter(base, s.at, s.src, dims, With(b, ReduceOp(reduce)), false);
  if (reduce == "mean") {
    const Value n = b.Max(counts, b.Int(DType::kI64, 1, counts.sizes));
    if (IsFloat(out.dtype)) {
      out = b.Div(out, b.Convert(n, out.dtype));
    } else {  // towards minus infinity
      const Value d = b.Convert(n, out.dtype), q = b.Div(out, d), r = b.Binary("remainder", out, d);
      out = IsUnsigned(out.dtype) ? q : b.Select(b.Compare("LT", r, 0), b.Sub(q, 1), q);
    }
  }
  return Finish(op, out);
}

// scatter with reduce= ("add", "multiply"): the old form.
Values ScatterOld(Op& op) {
  const std::string reduce = op.String(4);
  const ScatterArgs s = LoadScatter(op, OpMath(op.ResultDType()));
  if (s.empty) return Finish(op, s.x);
  return Finish(op, op.b.Scatter(s.x, s.at, s.src, FullCoordinates(s.x.rank()),
                                 With(op.b, ReduceOp(reduce)), false));
}

// (self, dim, index)
Values IndexSelect(Op& op) {
  Builder& b = op.b;
  const Value x = AtLeastOneDim(b, op.Tensor(0));
  const int dim = op.DimArg(1, x.rank());
  const Value raw = op.Tensor(2);
  // PyTorch's kernel for the second dimension has its own words.
  const bool second = dim == 1 && x.rank() > 1;
  const Value index = CheckedPosition(
      op, b.Reshape(raw, {raw.Elements()}), x.dim(dim),
      second ? Cat("INDICES element is out of DATA bounds, id={value} axis_dim=", x.dim(dim))
             : "index out of range in self",
      second ? ErrorKind::kRuntime : ErrorKind::kIndex);
  Sizes slice = x.sizes;
  slice[dim] = 1;
  if (index.Elements() == 0 || x.Elements() == 0)
    return {b.Zeros(op.ResultDType(), op.ResultSizes())};
  return {b.Reshape(b.Gather(x, index, SliceDims(x.rank(), dim), slice), op.ResultSizes())};
}

struct SliceUpdate {
  Value x, index, source;
  int dim = 0;
  bool empty = false;
};

SliceUpdate LoadSlices(Op& op, std::string message, ErrorKind kind) {
  Builder& b = op.b;
  SliceUpdate s;
  s.x = AtLeastOneDim(b, op.Tensor(0));
  s.dim = op.DimArg(1, s.x.rank());
  const Value raw = op.Tensor(2);
  s.index = CheckedPosition(op, b.Reshape(raw, {raw.Elements()}), s.x.dim(s.dim),
                            std::move(message), kind);
  Sizes sizes = s.x.sizes;
  sizes[s.dim] = s.index.Elements();
  const Value source = b.Convert(op.Tensor(3), s.x.dtype);
  s.source = source.Elements() == 1 && source.rank() == 0 ? b.Broadcast(source, sizes)
                                                          : b.Reshape(source, sizes);
  s.empty = s.source.Elements() == 0 || s.x.Elements() == 0;
  return s;
}

// (self, dim, index, source, alpha)
Values IndexAdd(Op& op) {
  Builder& b = op.b;
  const Value self = op.Tensor(0);
  const int dim = op.DimArg(1, self.rank());
  SliceUpdate s = self.rank() > 1
                      ? LoadSlices(op, OutOfBounds(dim, self.dim(dim)), ErrorKind::kRuntime)
                      : LoadSlices(op, "index out of range in self", ErrorKind::kIndex);
  if (s.empty) return Finish(op, s.x);
  if (op.Has(4) && !(op.IsNumber(4) && op.Double(4) == 1)) {
    s.source = b.Mul(s.source, op.Operand(op.Tensor(4), s.x.dtype, s.x.dtype, s.source.sizes));
  }
  return Finish(op, ScatterInto(op, s.x, s.index, s.source, SliceDims(s.x.rank(), s.dim), true));
}

Values IndexCopy(Op& op) {
  const Value self = op.Tensor(0);
  const int dim = op.DimArg(1, self.rank());
  const SliceUpdate s =
      LoadSlices(op, Cat("index_copy_(): ", OutOfBounds(dim, self.dim(dim))), ErrorKind::kIndex);
  if (s.empty) return Finish(op, s.x);
  return Finish(op, ScatterInto(op, s.x, s.index, s.source, SliceDims(s.x.rank(), s.dim), false));
}

// (self, dim, index, value); negative indices count from the end.
Values IndexFill(Op& op) {
  Builder& b = op.b;
  const Value x = AtLeastOneDim(b, op.Tensor(0)), raw = op.Tensor(2);
  const int dim = op.DimArg(1, x.rank());
  const Value index =
      op.CheckedIndex(b.Reshape(raw, {raw.Elements()}), x.dim(dim), OutOfBounds(dim, x.dim(dim)));
  Sizes sizes = x.sizes;
  sizes[dim] = index.Elements();
  const Value source = b.Broadcast(b.Reshape(b.Convert(op.Tensor(3), x.dtype), {}), sizes);
  if (source.Elements() == 0 || x.Elements() == 0) return Finish(op, x);
  return Finish(op, ScatterInto(op, x, index, source, SliceDims(x.rank(), dim), false));
}

// --- flat positions ---

// (self, index): flat positions, negative ones count from the end.
Values Take(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0), raw = op.Tensor(1);
  const int64_t n = x.Elements();
  const Value index = op.CheckedIndex(
      b.Reshape(raw, {raw.Elements(), 1}), n,
      Cat("out of range: tried to access index {value} on a tensor of ", n, " elements."));
  if (raw.Elements() == 0 || n == 0) return {b.Zeros(op.ResultDType(), op.ResultSizes())};
  return {b.Reshape(b.Gather(b.Reshape(x, {n}), index, {{}, {0}, {0}, 1}, {1}), op.ResultSizes())};
}

// (self, index, source, accumulate)
Values Put(Op& op) {
  Builder& b = op.b;
  const Value x = op.Tensor(0), raw = op.Tensor(1);
  const int64_t n = x.Elements(), k = raw.Elements();
  const Value index = op.CheckedIndex(
      b.Reshape(raw, {k, 1}), n,
      Cat("out of range: tried to access index {value} on a tensor of ", n, " elements."));
  if (k == 0 || n == 0) return {x};
  const Value source = b.Reshape(b.Convert(op.Tensor(2), x.dtype), {k});
  return {b.Reshape(
      ScatterInto(op, b.Reshape(x, {n}), index, source, {{}, {0}, {0}, 1}, op.Bool(3, false)),
      x.sizes)};
}

Values AssertAsync(Op& op) {
  const Value x = op.b.Convert(op.b.Convert(op.Tensor(0), DType::kBool), DType::kBool);
  const std::string message =
      op.Has(1) ? op.String(1) : "Expected Tensor with single nonzero value, but got zero";
  op.Check(ErrorKind::kRuntime, message, op.b.Not(x), op.b.Convert(x, DType::kI64));
  return Values(op.ResultCount());
}

}  // namespace

void RegisterIndex(OpTable& t) {
  t.Add("aten.index.Tensor", IndexTensor);
  t.Add("aten._unsafe_index.Tensor", IndexTensor);
  t.Add("aten.index_put.default", IndexPut);
  t.Add("aten._unsafe_index_put.default", IndexPut);
  t.Add("aten.gather.default", Gather);
  t.Add("aten.scatter.src", Scatter);
  t.Add("aten.scatter.value", Scatter);
  t.Add("aten.scatter.reduce", ScatterOld);
  t.Add("aten.scatter.value_reduce", ScatterOld);
  t.Add("aten.scatter_add.default", ScatterAdd);
  t.Add("aten.scatter_reduce.two", ScatterReduce);
  t.Add("aten.index_select.default", IndexSelect);
  t.Add("aten.index_add.default", IndexAdd);
  t.Add("aten.index_copy.default", IndexCopy);
  t.Add("aten.index_fill.int_Scalar", IndexFill);
  t.Add("aten.index_fill.int_Tensor", IndexFill);
  t.Add("aten.take.default", Take);
  t.Add("aten.put.default", Put);
  t.Add("aten._assert_async.default", AssertAsync);
  t.Add("aten._assert_async.msg", AssertAsync);
}

}  // namespace neurond::lowering
