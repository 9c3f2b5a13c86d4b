// Builder: ops with regions (reductions, windows, sort, scatter), gather, contractions and random
// words.
#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/lowering/builder.h"

namespace neurond::lowering {
namespace {

std::string List(const Sizes& sizes) { return Cat("[", Join(sizes), "]"); }
std::string Array(const Sizes& sizes) {
  return sizes.empty() ? "array<i64>" : Cat("array<i64: ", Join(sizes), ">");
}

std::string TypeList(const Values& values) {
  std::string out;
  for (const Value& v : values) Append(out, out.empty() ? "" : ", ", Builder::Type(v));
  return out;
}

bool In(const Sizes& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

}  // namespace

void Builder::Region(const Values& types, const Body& body) {
  Values args;
  Append(text_, "({\n    ^bb0(");
  for (const Value& t : types) {
    Value arg{.name = NewName(), .dtype = t.dtype, .sizes = {}};
    Append(text_, args.empty() ? "" : ", ", arg.name, ": ", Type(arg));
    args.push_back(arg);
  }
  Append(text_, "):\n");
  const Values results = body(args);
  std::string refs;
  for (const Value& r : results) Append(refs, refs.empty() ? "" : ", ", Ref(r));
  Append(text_, "    stablehlo.return ", refs, " : ", TypeList(results), "\n    })");
}

Values Builder::MultiResult(const std::string& name, const Values& types) const {
  Values results = types;
  for (size_t i = 0; i < types.size(); ++i) {
    results[i].name = types.size() == 1 ? name : Cat(name, "#", i);
  }
  return results;
}

Values Builder::Reduce(const Values& operands, const Values& inits, const Sizes& dims,
                       const Body& body) {
  bool fits = !operands.empty() && operands.size() == inits.size();
  for (size_t i = 0; fits && i < operands.size(); ++i) {
    fits = operands[i].sizes == operands[0].sizes && inits[i].sizes.empty() &&
           inits[i].dtype == operands[i].dtype;
  }
  if (!Expect(fits, "reduce", operands)) return operands;
  Values results, types = inits;
  types.insert(types.end(), inits.begin(), inits.end());
  Sizes sizes;
  for (int d = 0; d < operands[0].rank(); ++d) {
    if (!In(dims, d)) sizes.push_back(operands[0].sizes[d]);
  }
  std::string refs;
  Values all = operands;
  all.insert(all.end(), inits.begin(), inits.end());
  for (const Value& v : all) Append(refs, refs.empty() ? "" : ", ", Ref(v));
  for (const Value& v : operands) results.push_back({.name = "", .dtype = v.dtype, .sizes = sizes});
  const std::string name = NewName();
  Append(text_, "    ", name, results.size() > 1 ? Cat(":", results.size()) : "",
         " = \"stablehlo.reduce\"(", refs, ") <{dimensions = ", Array(dims), "}> ");
  Region(types, body);
  Append(text_, " : (", TypeList(all), ") -> (", TypeList(results), ")\n");
  return MultiResult(name, results);
}

Value Builder::Reduce(std::string_view op, const Value& a, const Value& init, const Sizes& dims) {
  if (dims.empty()) return a;
  return Reduce({a}, {init}, dims,
                [&](const Values& x) { return Values{Binary(op, x[0], x[1])}; })[0];
}

Values Builder::ReduceWindow(const Values& operands, const Values& inits, const Window& window,
                             const Body& body) {
  const size_t rank = operands.empty() ? 0 : operands[0].sizes.size();
  bool fits = !operands.empty() && operands.size() == inits.size() && window.sizes.size() == rank;
  if (!Expect(fits, "reduce_window", operands)) return operands;
  const Sizes ones(rank, 1), zeros(rank, 0);
  auto either = [](const Sizes& given, const Sizes& otherwise) {
    return given.empty() ? otherwise : given;
  };
  const Sizes strides = either(window.strides, ones), dilations = either(window.dilations, ones),
              base = either(window.base_dilations, ones), low = either(window.low, zeros),
              high = either(window.high, zeros);
  Sizes sizes;
  std::string padding;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t in = operands[0].sizes[d];
    const int64_t grown = (in == 0 ? 0 : (in - 1) * base[d] + 1) + low[d] + high[d];
    const int64_t reach = (window.sizes[d] - 1) * dilations[d] + 1;
    if (!Expect(strides[d] > 0 && window.sizes[d] > 0 && dilations[d] > 0 && base[d] > 0,
                "reduce_window", operands)) {
      return operands;
    }
    sizes.push_back(grown < reach ? 0 : (grown - reach) / strides[d] + 1);
    Append(padding, d == 0 ? "" : ", ", "[", low[d], ", ", high[d], "]");
  }
  std::string refs;
  Values all = operands, results, types = inits;
  all.insert(all.end(), inits.begin(), inits.end());
  types.insert(types.end(), inits.begin(), inits.end());
  for (const Value& v : all) Append(refs, refs.empty() ? "" : ", ", Ref(v));
  for (const Value& v : operands) results.push_back({.name = "", .dtype = v.dtype, .sizes = sizes});
  const std::string name = NewName();
  Append(text_, "    ", name, results.size() > 1 ? Cat(":", results.size()) : "",
         " = \"stablehlo.reduce_window\"(", refs, ") <{window_dimensions = ", Array(window.sizes),
         ", window_strides = ", Array(strides), ", base_dilations = ", Array(base),
         ", window_dilations = ", Array(dilations), ", padding = dense<[", padding, "]> : tensor<",
         rank, "x2xi64>}> ");
  Region(types, body);
  Append(text_, " : (", TypeList(all), ") -> (", TypeList(results), ")\n");
  return MultiResult(name, results);
}

Values Builder::Sort(const Values& operands, int dim, bool stable, const Body& less) {
  bool fits = !operands.empty() && dim >= 0 && dim < operands[0].rank();
  for (size_t i = 0; fits && i < operands.size(); ++i)
    fits = operands[i].sizes == operands[0].sizes;
  if (!Expect(fits, "sort", operands)) return operands;
  std::string refs;
  Values types, results = operands;
  for (const Value& v : operands) {
    Append(refs, refs.empty() ? "" : ", ", Ref(v));
    types.push_back(v);
    types.push_back(v);
  }
  const std::string name = NewName();
  Append(text_, "    ", name, results.size() > 1 ? Cat(":", results.size()) : "",
         " = \"stablehlo.sort\"(", refs, ") <{dimension = ", dim, " : i64, is_stable = ", stable,
         "}> ");
  Region(types, less);
  Append(text_, " : (", TypeList(operands), ") -> (", TypeList(operands), ")\n");
  return MultiResult(name, results);
}

Value Builder::Gather(const Value& a, const Value& indices, const GatherDims& dims,
                      const Sizes& slice_sizes) {
  bool fits = slice_sizes.size() == a.sizes.size() && dims.index_vector_dim >= 0 &&
              dims.index_vector_dim <= indices.rank();
  for (size_t d = 0; fits && d < slice_sizes.size(); ++d) fits = slice_sizes[d] <= a.sizes[d];
  if (!Expect(fits, "gather", {a, indices})) return a;
  Sizes batch = indices.sizes, kept;
  if (dims.index_vector_dim < indices.rank()) batch.erase(batch.begin() + dims.index_vector_dim);
  for (size_t d = 0; d < slice_sizes.size(); ++d) {
    if (!In(dims.collapsed_slice_dims, static_cast<int64_t>(d))) kept.push_back(slice_sizes[d]);
  }
  if (!Expect(kept.size() == dims.offset_dims.size(), "gather", {a, indices})) return a;
  Sizes sizes;
  size_t next_batch = 0, next_kept = 0;
  for (size_t d = 0; d < batch.size() + kept.size(); ++d) {
    const bool offset = In(dims.offset_dims, static_cast<int64_t>(d));
    if (!Expect(offset ? next_kept < kept.size() : next_batch < batch.size(), "gather",
                {a, indices})) {
      return a;
    }
    sizes.push_back(offset ? kept[next_kept++] : batch[next_batch++]);
  }
  const std::string x = Ref(a), i = Ref(indices);
  return Line(
      a.dtype, sizes,
      Cat("\"stablehlo.gather\"(", x, ", ", i,
          ") <{dimension_numbers = #stablehlo.gather<offset_dims = ", List(dims.offset_dims),
          ", collapsed_slice_dims = ", List(dims.collapsed_slice_dims), ", start_index_map = ",
          List(dims.start_index_map), ", index_vector_dim = ", dims.index_vector_dim,
          ">, slice_sizes = ", Array(slice_sizes), ", indices_are_sorted = false}> : (", Type(a),
          ", ", Type(indices), ") -> ", Type(a.dtype, sizes)));
}

Value Builder::Scatter(const Value& a, const Value& indices, const Value& updates,
                       const GatherDims& dims, const Body& body, bool unique) {
  if (!Expect(a.dtype == updates.dtype, "scatter", {a, indices, updates})) return a;
  const std::string x = Ref(a), i = Ref(indices), u = Ref(updates), name = NewName();
  Append(text_, "    ", name, " = \"stablehlo.scatter\"(", x, ", ", i, ", ", u,
         ") <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = ",
         List(dims.offset_dims), ", inserted_window_dims = ", List(dims.collapsed_slice_dims),
         ", scatter_dims_to_operand_dims = ", List(dims.start_index_map),
         ", index_vector_dim = ", dims.index_vector_dim,
         ">, indices_are_sorted = false, unique_indices = ", unique, "}> ");
  Region({a, a}, body);
  Append(text_, " : (", Type(a), ", ", Type(indices), ", ", Type(updates), ") -> ", Type(a), "\n");
  return {.name = name, .dtype = a.dtype, .sizes = a.sizes};
}

Value Builder::DotGeneral(const Value& a, const Value& b, const Sizes& batch_a,
                          const Sizes& batch_b, const Sizes& contract_a, const Sizes& contract_b,
                          DType result, std::string_view precision) {
  bool fits = batch_a.size() == batch_b.size() && contract_a.size() == contract_b.size() &&
              a.dtype == b.dtype;
  for (size_t i = 0; fits && i < batch_a.size(); ++i) {
    fits = a.dim(static_cast<int>(batch_a[i])) == b.dim(static_cast<int>(batch_b[i]));
  }
  for (size_t i = 0; fits && i < contract_a.size(); ++i) {
    fits = a.dim(static_cast<int>(contract_a[i])) == b.dim(static_cast<int>(contract_b[i]));
  }
  if (!Expect(fits, "dot_general", {a, b})) return a;
  Sizes sizes;
  for (int64_t d : batch_a) sizes.push_back(a.dim(static_cast<int>(d)));
  for (int d = 0; d < a.rank(); ++d) {
    if (!In(batch_a, d) && !In(contract_a, d)) sizes.push_back(a.sizes[d]);
  }
  for (int d = 0; d < b.rank(); ++d) {
    if (!In(batch_b, d) && !In(contract_b, d)) sizes.push_back(b.sizes[d]);
  }
  const std::string x = Ref(a), y = Ref(b);
  const std::string batching =
      batch_a.empty() ? "" : Cat("batching_dims = ", List(batch_a), " x ", List(batch_b), ", ");
  return Line(result, sizes,
              Cat("stablehlo.dot_general ", x, ", ", y, ", ", batching, "contracting_dims = ",
                  List(contract_a), " x ", List(contract_b), ", precision = [", precision, ", ",
                  precision, "] : (", Type(a), ", ", Type(b), ") -> ", Type(result, sizes)));
}

Value Builder::Convolution(const Value& a, const Value& w, std::string_view dim_numbers,
                           const Window& window, int64_t feature_groups, int64_t batch_groups,
                           const Value& result_type, std::string_view precision) {
  if (!Expect(a.dtype == w.dtype && a.rank() == w.rank(), "convolution", {a, w})) return a;
  const std::string x = Ref(a), y = Ref(w);
  std::string padding;
  for (size_t d = 0; d < window.low.size(); ++d) {
    Append(padding, d == 0 ? "" : ", ", "[", window.low[d], ", ", window.high[d], "]");
  }
  return Line(
      result_type.dtype, result_type.sizes,
      Cat("stablehlo.convolution(", x, ", ", y, ") dim_numbers = ", dim_numbers,
          ", window = {stride = ", List(window.strides), ", pad = [", padding, "], lhs_dilate = ",
          List(window.base_dilations), ", rhs_dilate = ", List(window.dilations),
          "} {batch_group_count = ", batch_groups, " : i64, feature_group_count = ", feature_groups,
          " : i64, precision_config = [#stablehlo<precision ", precision,
          ">, #stablehlo<precision ", precision, ">]} : (", Type(a), ", ", Type(w), ") -> ",
          Type(result_type)));
}

Value Builder::RandomWords(const Value& state, int64_t count) {
  if (!Expect(state.dtype == DType::kU64 && state.sizes == Sizes{2}, "rng_bit_generator",
              {state})) {
    return Zeros(DType::kU32, {count});
  }
  const std::string s = Ref(state), name = NewName();
  const std::string type = Type(DType::kU32, {count});
  Append(text_, "    ", name, ":2 = \"stablehlo.rng_bit_generator\"(", s,
         ") <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}> : (", Type(state), ") -> (",
         Type(state), ", ", type, ")\n");
  return {.name = Cat(name, "#1"), .dtype = DType::kU32, .sizes = {count}};
}

}  // namespace neurond::lowering
