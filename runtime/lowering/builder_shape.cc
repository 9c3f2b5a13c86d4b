// Builder: ops that move elements.
#include <algorithm>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/lowering/builder.h"

namespace neurond::lowering {
namespace {

std::string List(const Sizes& sizes) { return Cat("[", Join(sizes), "]"); }

}  // namespace

Value Builder::Reshape(const Value& a, const Sizes& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  if (!Expect(n == a.Elements(), Cat("reshape to ", List(sizes)), {a})) {
    return Zeros(a.dtype, sizes);
  }
  const std::string x = Ref(a);
  if (sizes == a.sizes) {
    Value same = a;
    same.name = x;
    return same;
  }
  return Line(a.dtype, sizes,
              Cat("stablehlo.reshape ", x, " : (", Type(a), ") -> ", Type(a.dtype, sizes)));
}

Value Builder::Transpose(const Value& a, const Sizes& permutation) {
  Sizes sorted = permutation, identity(a.sizes.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(identity.begin(), identity.end(), 0);
  if (!Expect(sorted == identity, Cat("transpose ", List(permutation)), {a})) return a;
  const std::string x = Ref(a);
  if (permutation == identity) {
    Value same = a;
    same.name = x;
    return same;
  }
  Sizes sizes;
  for (int64_t d : permutation) sizes.push_back(a.sizes[d]);
  return Line(a.dtype, sizes,
              Cat("stablehlo.transpose ", x, ", dims = ", List(permutation), " : (", Type(a),
                  ") -> ", Type(a.dtype, sizes)));
}

Value Builder::BroadcastInDim(const Value& a, const Sizes& sizes, const Sizes& dims) {
  bool fits = dims.size() == a.sizes.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) {
    fits = dims[i] >= 0 && dims[i] < static_cast<int64_t>(sizes.size()) &&
           (i == 0 || dims[i] > dims[i - 1]) && (a.sizes[i] == 1 || a.sizes[i] == sizes[dims[i]]);
  }
  if (!Expect(fits, Cat("broadcast_in_dim to ", List(sizes)), {a})) return Zeros(a.dtype, sizes);
  if (a.name.empty() && a.sizes.empty()) {
    if (const auto* i = std::get_if<int64_t>(&a.number)) return Int(a.dtype, *i, sizes);
    if (const auto* d = std::get_if<double>(&a.number)) return Float(a.dtype, *d, sizes);
  }
  const std::string x = Ref(a);
  return Line(a.dtype, sizes,
              Cat("stablehlo.broadcast_in_dim ", x, ", dims = ", List(dims), " : (", Type(a),
                  ") -> ", Type(a.dtype, sizes)));
}

Value Builder::Broadcast(const Value& a, const Sizes& sizes) {
  if (a.sizes == sizes) {
    Value same = a;
    same.name = Ref(a);
    return same;
  }
  if (!Expect(a.sizes.size() <= sizes.size(), Cat("broadcast to ", List(sizes)), {a})) {
    return Zeros(a.dtype, sizes);
  }
  Sizes dims(a.sizes.size());
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(sizes.size() - a.sizes.size()));
  return BroadcastInDim(a, sizes, dims);
}

Value Builder::Slice(const Value& a, const Sizes& starts, const Sizes& limits,
                     const Sizes& strides) {
  const size_t rank = a.sizes.size();
  bool fits = starts.size() == rank && limits.size() == rank && strides.size() == rank;
  Sizes sizes;
  bool whole = true;
  std::string ranges;
  for (size_t d = 0; fits && d < rank; ++d) {
    fits = 0 <= starts[d] && starts[d] <= limits[d] && limits[d] <= a.sizes[d] && strides[d] > 0;
    if (!fits) break;
    sizes.push_back((limits[d] - starts[d] + strides[d] - 1) / strides[d]);
    whole = whole && sizes[d] == a.sizes[d];
    Append(ranges, d == 0 ? "" : ", ", starts[d], ":", limits[d]);
    if (strides[d] != 1) Append(ranges, ":", strides[d]);
  }
  if (!Expect(fits, Cat("slice ", List(starts), " to ", List(limits)), {a})) return a;
  const std::string x = Ref(a);
  if (whole) {
    Value same = a;
    same.name = x;
    return same;
  }
  return Line(
      a.dtype, sizes,
      Cat("stablehlo.slice ", x, " [", ranges, "] : (", Type(a), ") -> ", Type(a.dtype, sizes)));
}

Value Builder::SliceDim(const Value& a, int dim, int64_t start, int64_t limit, int64_t stride) {
  if (!Expect(dim >= 0 && dim < a.rank(), "slice", {a})) return a;
  Sizes starts(a.rank(), 0), limits = a.sizes, strides(a.rank(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  strides[dim] = stride;
  return Slice(a, starts, limits, strides);
}

Value Builder::DynamicSlice(const Value& a, const Values& starts, const Sizes& sizes) {
  bool fits = starts.size() == a.sizes.size() && sizes.size() == a.sizes.size();
  for (size_t d = 0; fits && d < sizes.size(); ++d) fits = sizes[d] >= 0 && sizes[d] <= a.sizes[d];
  if (!Expect(fits, Cat("dynamic_slice of sizes ", List(sizes)), {a})) return Zeros(a.dtype, sizes);
  const std::string x = Ref(a);
  std::string refs, types;
  for (const Value& s : starts) {
    Append(refs, Ref(s), ", ");
    Append(types, ", ", Type(s));
  }
  return Line(a.dtype, sizes,
              Cat("stablehlo.dynamic_slice ", x, ", ", refs, "sizes = ", List(sizes), " : (",
                  Type(a), types, ") -> ", Type(a.dtype, sizes)));
}

Value Builder::DynamicUpdateSlice(const Value& a, const Value& update, const Values& starts) {
  bool fits = starts.size() == a.sizes.size() && update.sizes.size() == a.sizes.size() &&
              update.dtype == a.dtype;
  for (size_t d = 0; fits && d < a.sizes.size(); ++d) fits = update.sizes[d] <= a.sizes[d];
  if (!Expect(fits, "dynamic_update_slice", {a, update})) return a;
  const std::string x = Ref(a), u = Ref(update);
  std::string refs, types;
  for (const Value& s : starts) {
    Append(refs, ", ", Ref(s));
    Append(types, ", ", Type(s));
  }
  return Line(a.dtype, a.sizes,
              Cat("stablehlo.dynamic_update_slice ", x, ", ", u, refs, " : (", Type(a), ", ",
                  Type(update), types, ") -> ", Type(a)));
}

Value Builder::Pad(const Value& a, const Value& with, const Sizes& low, const Sizes& high,
                   const Sizes& interior) {
  const size_t rank = a.sizes.size();
  const Sizes inner = interior.empty() ? Sizes(rank, 0) : interior;
  bool fits = low.size() == rank && high.size() == rank && inner.size() == rank &&
              with.dtype == a.dtype && with.sizes.empty();
  Sizes sizes;
  bool same_size = true;
  for (size_t d = 0; fits && d < rank; ++d) {
    fits = inner[d] >= 0;
    const int64_t grown = a.sizes[d] + std::max<int64_t>(a.sizes[d] - 1, 0) * inner[d];
    sizes.push_back(low[d] + grown + high[d]);
    fits = fits && sizes[d] >= 0;
    same_size = same_size && low[d] == 0 && high[d] == 0 && sizes[d] == a.sizes[d];
  }
  if (!Expect(fits, Cat("pad ", List(low), " ", List(high)), {a, with})) return a;
  const std::string x = Ref(a);
  if (same_size) {
    Value same = a;
    same.name = x;
    return same;
  }
  const std::string w = Ref(with);
  return Line(a.dtype, sizes,
              Cat("stablehlo.pad ", x, ", ", w, ", low = ", List(low), ", high = ", List(high),
                  ", interior = ", List(inner), " : (", Type(a), ", ", Type(with), ") -> ",
                  Type(a.dtype, sizes)));
}

Value Builder::Concatenate(const Values& parts, int dim) {
  bool fits = !parts.empty() && dim >= 0 && dim < parts[0].rank();
  if (!Expect(fits, "concatenate", parts)) return parts.empty() ? Zeros(DType::kF32) : parts[0];
  Sizes sizes = parts[0].sizes;
  sizes[dim] = 0;
  std::string refs, types;
  for (const Value& p : parts) {
    fits = fits && p.dtype == parts[0].dtype && p.rank() == parts[0].rank();
    for (int d = 0; fits && d < p.rank(); ++d) fits = d == dim || p.sizes[d] == sizes[d];
    if (!Expect(fits, "concatenate", parts)) return parts[0];
    sizes[dim] += p.sizes[dim];
    Append(refs, Ref(p), ", ");
    Append(types, types.empty() ? "" : ", ", Type(p));
  }
  if (parts.size() == 1) return parts[0];
  return Line(parts[0].dtype, sizes,
              Cat("stablehlo.concatenate ", refs, "dim = ", dim, " : (", types, ") -> ",
                  Type(parts[0].dtype, sizes)));
}

Value Builder::Reverse(const Value& a, const Sizes& dims) {
  if (dims.empty()) return a;
  const std::string x = Ref(a);
  return Line(a.dtype, a.sizes,
              Cat("stablehlo.reverse ", x, ", dims = ", List(dims), " : ", Type(a)));
}

}  // namespace neurond::lowering
