#include "runtime/lowering/view.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/base/text.h"

namespace neurond::lowering {
namespace {

// A scatter visits elements one by one; rewriting the whole region between the first and the last
// touched element is faster until the region is this many times larger than the View.
constexpr int64_t kRegionPerElement = 16;

// A View without its trivial dimensions, outermost stride first, with dimensions merged that are
// one run.
struct Layout {
  Sizes order;           // dimensions of the View that were kept, in order of descending stride
  Sizes sizes, strides;  // of those
  Sizes merged_sizes, merged_strides;
  bool nests = true;  // each step lies within one step of the dimension outside it
  int64_t span = 1;
};

Layout Analyze(const Sizes& sizes, const Sizes& strides) {
  Layout l;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && strides[d] != 0) l.order.push_back(static_cast<int64_t>(d));
  }
  std::stable_sort(l.order.begin(), l.order.end(),
                   [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  for (int64_t d : l.order) {
    l.sizes.push_back(sizes[d]);
    l.strides.push_back(strides[d]);
    l.span += (sizes[d] - 1) * strides[d];
  }
  int64_t inner_span = 1;
  for (size_t k = l.sizes.size(); k-- > 0;) {
    l.nests = l.nests && inner_span <= l.strides[k];
    inner_span += (l.sizes[k] - 1) * l.strides[k];
  }
  for (size_t k = 0; k < l.sizes.size(); ++k) {
    if (!l.merged_sizes.empty() && l.merged_strides.back() == l.sizes[k] * l.strides[k]) {
      l.merged_sizes.back() *= l.sizes[k];
      l.merged_strides.back() = l.strides[k];
    } else {
      l.merged_sizes.push_back(l.sizes[k]);
      l.merged_strides.push_back(l.strides[k]);
    }
  }
  return l;
}

// Flat positions of the kept dimensions, [elements, 1].
Value Positions(Builder& b, const Layout& l, const Value& offset) {
  Value at = b.Broadcast(offset, l.sizes);
  for (size_t k = 0; k < l.sizes.size(); ++k) {
    const Value step = b.Iota(DType::kI64, l.sizes, static_cast<int>(k));
    at = b.Add(at, b.Mul(step, b.Int(DType::kI64, l.strides[k], l.sizes)));
  }
  return b.Reshape(at, {at.Elements(), 1});
}

const GatherDims kFlatGather = {{}, {0}, {0}, 1};

// Cuts `flat` at the steps of each dimension: [.., n] -> [.., size, stride] and the first of each
// step is kept.
Value ReadNested(Builder& b, const Value& flat, const Layout& l, const Value& offset,
                 bool zero_offset) {
  const int64_t n = flat.Elements();
  Value cur;
  if (zero_offset) {
    const int64_t wanted =
        l.merged_sizes.empty() ? 1 : std::min(n, l.merged_sizes[0] * l.merged_strides[0]);
    cur = b.Slice(flat, {0}, {wanted}, {1});
  } else {
    cur = b.DynamicSlice(flat, {offset}, {l.span});
  }
  Sizes outer;
  for (size_t k = 0; k < l.merged_sizes.size(); ++k) {
    const int last = cur.rank() - 1;
    const int64_t have = cur.dim(last), need = l.merged_sizes[k] * l.merged_strides[k];
    if (have > need) cur = b.SliceDim(cur, last, 0, need);
    if (have < need) {
      Sizes low(cur.rank(), 0), high(cur.rank(), 0);
      high[last] = need - have;
      cur = b.Pad(cur, b.Zeros(cur.dtype), low, high);
    }
    outer.push_back(l.merged_sizes[k]);
    Sizes split = outer;
    if (l.merged_strides[k] > 1) split.push_back(l.merged_strides[k]);
    cur = b.Reshape(cur, split);
  }
  const bool stepped = l.merged_strides.empty() || l.merged_strides.back() > 1;
  if (stepped) cur = b.SliceDim(cur, cur.rank() - 1, 0, 1);
  return b.Reshape(cur, l.sizes);
}

Value WriteScatter(Builder& b, const Value& flat, const Layout& l, const Value& offset,
                   const Value& sorted) {
  return b.Scatter(
      flat, Positions(b, l, offset), b.Reshape(sorted, {sorted.Elements()}), kFlatGather,
      [](const Values& x) { return Values{x[1]}; }, false);
}

// Rewrites everything between the first and the last touched element.
Value WriteRegion(Builder& b, const Value& flat, const Layout& l, const Value& offset,
                  const Value& sorted) {
  // Spread the value over the region: holes get zeros and are masked below.
  Value spread = b.Reshape(sorted, l.merged_sizes);
  const Value zero = b.Zeros(spread.dtype);
  for (size_t k = l.merged_sizes.size(); k-- > 0;) {
    const int last = spread.rank() - 1;
    Sizes low(spread.rank(), 0), high(spread.rank(), 0), interior(spread.rank(), 0);
    if (k + 1 == l.merged_sizes.size()) {
      interior[last] = l.merged_strides[k] - 1;
      spread = b.Pad(spread, zero, low, high, interior);
      continue;
    }
    high[last] = l.merged_strides[k] - spread.dim(last);
    spread = b.Pad(spread, zero, low, high);
    Sizes joined(spread.sizes.begin(), spread.sizes.end() - 2);
    joined.push_back(spread.dim(last - 1) * spread.dim(last));
    spread = b.Reshape(spread, joined);
    spread = b.SliceDim(spread, spread.rank() - 1, 0, joined.back() - high[last]);
  }
  const DType index = l.span < std::numeric_limits<int32_t>::max() ? DType::kI32 : DType::kI64;
  Value rest = b.Iota(index, {l.span}, 0);
  Value mask = b.Int(DType::kBool, 1, {l.span});
  for (size_t k = 0; k < l.merged_sizes.size(); ++k) {
    const Value stride = b.Int(index, l.merged_strides[k], {l.span});
    const Value step = b.Div(rest, stride);
    if (k > 0) {
      mask = b.And(mask, b.Compare("LT", step, b.Int(index, l.merged_sizes[k], {l.span})));
    }
    rest = b.Sub(rest, b.Mul(step, stride));
  }
  mask = b.And(mask, b.Compare("EQ", rest, b.Int(index, 0, {l.span})));
  const Value old = b.DynamicSlice(flat, {offset}, {l.span});
  return b.DynamicUpdateSlice(flat, b.Select(mask, spread, old), {offset});
}

// The steps of the View divide the buffer's, so that the buffer is a grid and the View a box in it.
// With a run-time offset a box could wrap around the end of a row, which only a View of one
// dimension cannot.
bool IsBox(const Layout& l, int64_t n, bool zero_offset) {
  if (!zero_offset && l.merged_sizes.size() != 1) return false;
  int64_t outer = n;
  for (size_t k = 0; k < l.merged_sizes.size(); ++k) {
    if (outer % l.merged_strides[k] != 0 || outer / l.merged_strides[k] < l.merged_sizes[k]) {
      return false;
    }
    outer = l.merged_strides[k];
  }
  return true;
}

Value WriteBox(Builder& b, const Value& flat, const Layout& l, const Value& offset,
               const Value& sorted) {
  Sizes grid, box = l.merged_sizes;
  Values starts;
  int64_t outer = flat.Elements();
  Value rest = offset;
  for (int64_t stride : l.merged_strides) {
    grid.push_back(outer / stride);
    const Value step = b.Int(DType::kI64, stride);
    starts.push_back(b.Div(rest, step));
    rest = b.Binary("remainder", rest, step);
    outer = stride;
  }
  grid.push_back(outer);
  box.push_back(1);
  starts.push_back(rest);
  const Value next = b.DynamicUpdateSlice(b.Reshape(flat, grid), b.Reshape(sorted, box), starts);
  return b.Reshape(next, flat.sizes);
}

Value WriteStrided(Builder& b, const Value& flat, const View& view, const Value& value,
                   const Value& offset) {
  const Layout l = Analyze(view.sizes, view.strides);
  // Where elements share a place (stride 0), writes apply in order: the last one stays.
  Value sorted = value;
  for (int d = 0; d < value.rank(); ++d) {
    if (view.strides[d] == 0 && value.sizes[d] > 1) {
      sorted = b.SliceDim(sorted, d, value.sizes[d] - 1, value.sizes[d]);
    }
  }
  Sizes permutation = l.order;
  for (int d = 0; d < value.rank(); ++d) {
    if (std::find(l.order.begin(), l.order.end(), d) == l.order.end()) permutation.push_back(d);
  }
  sorted = b.Transpose(sorted, permutation);
  const int64_t elements = sorted.Elements();
  const bool zero_offset = view.offset_word < 0;
  if (!l.nests) return WriteScatter(b, flat, l, offset, sorted);
  if (l.span == elements) {
    const Value run = b.Reshape(sorted, {elements});
    if (elements == flat.Elements()) return run;
    return b.DynamicUpdateSlice(flat, run, {offset});
  }
  if (IsBox(l, flat.Elements(), zero_offset)) return WriteBox(b, flat, l, offset, sorted);
  if (l.span > kRegionPerElement * elements) return WriteScatter(b, flat, l, offset, sorted);
  return WriteRegion(b, flat, l, offset, sorted);
}

Value Offset(Module& m, const View& view) {
  return view.offset_word < 0 ? m.b.Int(DType::kI64, 0) : m.Word(view.offset_word);
}

Value Interleave(Builder& b, const Value& a) {
  const DType part = RealOf(a.dtype);
  const Sizes column{a.Elements(), 1};
  const Value pair = b.Concatenate({b.Reshape(b.UnaryTo("real", a, part), column),
                                    b.Reshape(b.UnaryTo("imag", a, part), column)},
                                   1);
  return b.Reshape(pair, {2 * a.Elements()});
}

}  // namespace

Value BitcastFlat(Builder& b, const Value& flat, DType dtype) {
  if (flat.dtype == dtype) return flat;
  if (IsComplex(flat.dtype)) return BitcastFlat(b, Interleave(b, flat), dtype);
  if (flat.dtype == DType::kBool) return BitcastFlat(b, b.Convert(flat, DType::kU8), dtype);
  if (dtype == DType::kBool) return b.Convert(BitcastFlat(b, flat, DType::kU8), dtype);
  const int64_t n = flat.Elements();
  if (IsComplex(dtype)) {
    const Value parts = BitcastFlat(b, flat, RealOf(dtype));
    const int64_t even = parts.Elements() / 2 * 2;
    return b.Complex(b.Slice(parts, {0}, {even}, {2}),
                     b.Slice(parts, {std::min<int64_t>(1, even)}, {even}, {2}));
  }
  const int64_t from = DTypeBytes(flat.dtype), to = DTypeBytes(dtype);
  if (from == to) return b.BitcastConvert(flat, dtype, {n});
  if (from > to) {
    const int64_t ratio = from / to;
    return b.Reshape(b.BitcastConvert(flat, dtype, {n, ratio}), {n * ratio});
  }
  const int64_t ratio = to / from, whole = n / ratio;
  const Value cut = b.Slice(flat, {0}, {whole * ratio}, {1});
  return b.BitcastConvert(b.Reshape(cut, {whole, ratio}), dtype, {whole});
}

Value ReadStrided(Builder& b, const Value& flat, const Sizes& sizes, const Sizes& strides,
                  const Value& offset) {
  const Layout l = Analyze(sizes, strides);
  Value sorted;
  if (l.nests) {
    const bool zero = offset.name.empty();
    sorted = ReadNested(b, flat, l, offset, zero);
  } else {
    sorted = b.Reshape(b.Gather(flat, Positions(b, l, offset), kFlatGather, {1}), l.sizes);
  }
  // Back to the View's order, then the dropped dimensions.
  Sizes kept = l.order;
  std::sort(kept.begin(), kept.end());
  Sizes permutation;
  for (int64_t d : kept) {
    permutation.push_back(std::find(l.order.begin(), l.order.end(), d) - l.order.begin());
  }
  const Value ordered = b.Transpose(sorted, permutation);
  bool only_ones = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    only_ones = only_ones && (sizes[d] == 1 || strides[d] != 0);
  }
  return only_ones ? b.Reshape(ordered, sizes) : b.BroadcastInDim(ordered, sizes, kept);
}

Value WriteStridedAt(Builder& b, const Value& flat, const Sizes& sizes, const Sizes& strides,
                     int64_t offset, const Value& value) {
  const View view{flat.dtype, sizes, strides, offset == 0 ? -1 : 0};
  return WriteStrided(b, flat, view, value, b.Int(DType::kI64, offset));
}

Value ReadView(Module& m, const Value& flat, const View& view) {
  if (view.Elements() == 0) return m.b.Zeros(view.dtype, view.sizes);
  const Value base = BitcastFlat(m.b, flat, view.dtype);
  Value offset{.name = "", .dtype = DType::kI64, .sizes = {}, .number = int64_t{0}};
  if (view.offset_word >= 0) offset = m.Word(view.offset_word);
  return ReadStrided(m.b, base, view.sizes, view.strides, offset);
}

Value WriteView(Module& m, const Value& flat, const View& view, const Value& value) {
  Builder& b = m.b;
  if (value.dtype != view.dtype || value.sizes != view.sizes ||
      view.strides.size() != view.sizes.size()) {
    b.Fail(
        absl::InvalidArgumentError(Cat("a write of ", Builder::Type(value), " through a View of ",
                                       Builder::Type(view.dtype, view.sizes))));
    return flat;
  }
  if (view.Elements() == 0) return flat;
  const Value offset = Offset(m, view);
  if (flat.dtype == view.dtype) return WriteStrided(b, flat, view, value, offset);
  const Value base = BitcastFlat(b, flat, view.dtype);
  const Value next = BitcastFlat(b, WriteStrided(b, base, view, value, offset), flat.dtype);
  const int64_t done = next.Elements();
  if (done == flat.Elements()) return next;
  return b.Concatenate({next, b.Slice(flat, {done}, {flat.Elements()}, {1})}, 0);
}

Value FlattenAs(Module& m, const Value& value, const Sizes& strides) {
  if (strides.size() != value.sizes.size()) {
    m.b.Fail(absl::InvalidArgumentError(
        Cat("an output of ", value.rank(), " dimensions has ", strides.size(), " strides")));
    return m.b.Reshape(value, {value.Elements()});
  }
  const Layout l = Analyze(value.sizes, strides);
  if (!l.nests || l.span != value.Elements()) {
    m.b.Fail(absl::InvalidArgumentError(Cat("strides [", Join(strides),
                                            "] are not a dense permutation of sizes [",
                                            Join(value.sizes), "]")));
    return m.b.Reshape(value, {value.Elements()});
  }
  Sizes permutation = l.order;
  for (int d = 0; d < value.rank(); ++d) {
    if (std::find(l.order.begin(), l.order.end(), d) == l.order.end()) permutation.push_back(d);
  }
  return m.b.Reshape(m.b.Transpose(value, permutation), {value.Elements()});
}

}  // namespace neurond::lowering
