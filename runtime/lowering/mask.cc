// Masks that pick or fill places: selects, and the running count of true places where a list of
// values is dealt out to them.
#include <algorithm>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/lowering/families.h"
#include "runtime/lowering/index.h"

namespace neurond::lowering {
namespace {

// How a list of values is dealt out to a mask's true places, in order.
struct Deal {
  Value at;     // int64 [places]: which value a true place takes; any valid one elsewhere
  Value count;  // int64 []: true places
};

// `mask` has at least one place.
Deal DealOut(Builder& b, const Value& mask) {
  const int64_t places = mask.Elements();
  const Value count = RunningSum(b, b.Reshape(b.Convert(mask, DType::kI64), {places}), 0);
  return {b.Max(b.Sub(count, 1), b.Int(DType::kI64, 0, {places})),
          b.Reshape(b.SliceDim(count, 0, places - 1, places), {})};
}

// For every place of x the value that x[..., mask, ...] = values puts there, if the mask is true:
// x's dimensions are [before..., mask..., after...], those of the values, which are aligned at the
// end, [before..., count of true places, after...]. A count of 1 is for all places.
Value SpreadByMask(Op& op, const Value& x, const Value& mask, int before, Value values) {
  Builder& b = op.b;
  const int after = x.rank() - before - mask.rank(), rank = before + 1 + after;
  Sizes padded(std::max(rank - values.rank(), 0), 1);
  padded.insert(padded.end(), values.sizes.begin(), values.sizes.end());
  values = b.Reshape(values, padded);
  const int64_t given = values.dim(before), places = mask.Elements();
  Sizes flat(x.sizes.begin(), x.sizes.begin() + before);
  flat.push_back(given);
  flat.insert(flat.end(), x.sizes.end() - after, x.sizes.end());
  values = b.Broadcast(values, flat);
  flat[before] = places;
  if (given == 1) return b.Reshape(b.Broadcast(values, flat), x.sizes);
  const Deal deal = DealOut(b, mask);
  std::vector<std::string> result;
  for (int d = 0; d < rank; ++d) result.push_back(d == before ? "{value}" : Cat(flat[d]));
  op.Check(ErrorKind::kRuntime,
           Cat("shape mismatch: value tensor of shape [", Join(op.Tensor(2).sizes),
               "] cannot be broadcast to indexing result of shape [", Join(result), "]"),
           b.Compare("NE", deal.count, static_cast<double>(given)), deal.count);
  if (given == 0) return x;
  Sizes slice = values.sizes;
  slice[before] = 1;
  return b.Reshape(b.Gather(values, deal.at, SliceDims(rank, before), slice), x.sizes);
}

// (self, mask, value)
Values MaskedFill(Op& op) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes();
  const Value mask = b.Broadcast(b.Convert(op.Tensor(1), DType::kBool), sizes);
  const DType dtype = op.ResultDType();
  return {b.Select(mask, op.Operand(op.Tensor(2), dtype, dtype, sizes),
                   op.Operand(op.Tensor(0), dtype, dtype, sizes))};
}

// The k-th true place takes the k-th element of source.
Values MaskedScatter(Op& op) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes();
  const Value x = b.Broadcast(op.Tensor(0), sizes);
  const Value mask = b.Broadcast(b.Convert(op.Tensor(1), DType::kBool), sizes);
  const Value source = b.Convert(op.Tensor(2), x.dtype);
  const int64_t n = x.Elements(), m = source.Elements();
  if (n == 0) return {x};
  const Deal deal = DealOut(b, mask);
  op.Check(ErrorKind::kRuntime, "Number of elements of source < number of ones in mask",
           b.Compare("GT", deal.count, static_cast<double>(m)), deal.count);
  if (m == 0) return {x};
  const Value taken = b.Gather(b.Reshape(source, {m}), deal.at, SliceDims(1, 0), {1});
  return {b.Select(mask, b.Reshape(taken, sizes), x)};
}

}  // namespace

bool MaskedPut(Op& op, const Value& x, const Values& indices, const Value& values, bool accumulate,
               Value* out) {
  Builder& b = op.b;
  if (indices.empty()) return false;
  const int before = static_cast<int>(indices.size()) - 1;
  for (int d = 0; d < before; ++d) {
    if (IsValid(indices[d].dtype)) return false;
  }
  const Value& raw = indices.back();
  if ((raw.dtype != DType::kBool && raw.dtype != DType::kU8) || raw.rank() == 0 ||
      before + raw.rank() > x.rank() || op.LogicalDType(0) != op.LogicalDType(2) ||
      !std::equal(raw.sizes.begin(), raw.sizes.end(), x.sizes.begin() + before)) {
    return false;
  }
  if (x.Elements() == 0) return false;
  const Value mask = b.Convert(raw, DType::kBool);
  const Value put = SpreadByMask(op, x, mask, before, values);
  Sizes dims(mask.rank());
  std::iota(dims.begin(), dims.end(), before);
  *out = b.Select(b.BroadcastInDim(mask, x.sizes, dims), accumulate ? b.Add(x, put) : put, x);
  return true;
}

void RegisterMask(OpTable& t) {
  t.Add("aten.masked_fill.Scalar", MaskedFill);
  t.Add("aten.masked_fill.Tensor", MaskedFill);
  t.Add("aten.masked_scatter.default", MaskedScatter);
}

}  // namespace neurond::lowering
