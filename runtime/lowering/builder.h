// Builder: writes StableHLO text, one line per op, and knows the type of every Value it made.
//
// Errors are sticky: the first Fail() is kept, and every method goes on with a value of the type
// that was asked for, so that lowering functions need no error paths; the driver looks at status()
// after each node. Every method checks what it is given (ranks, bounds, element counts), since
// sizes come from clients.
//
// Element types follow the operands; nothing is converted unless Convert() is called. Where an op
// needs equal types or shapes and gets others, that is a failure (INTERNAL: the lowering function
// is wrong).
//
// Thread-safety: none; one Builder per Lower() call.

#ifndef NEUROND_RUNTIME_LOWERING_BUILDER_H_
#define NEUROND_RUNTIME_LOWERING_BUILDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/lowering/value.h"

namespace neurond::lowering {

// dimension numbers of gather and scatter, named as in the StableHLO specification.
struct GatherDims {
  Sizes offset_dims;           // scatter: update_window_dims
  Sizes collapsed_slice_dims;  // scatter: inserted_window_dims
  Sizes start_index_map;       // scatter: scatter_dims_to_operand_dims
  int64_t index_vector_dim = 0;
};

// A window over the dimensions of an operand, one entry per dimension (convolution: per spatial
// dimension).
struct Window {
  Sizes sizes, strides, base_dilations, dilations, low, high;
};

class Builder {
 public:
  using Body = std::function<Values(const Values&)>;

  // --- state ---
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status);
  std::string& text() { return text_; }
  // Lines of `v`'s definition, if it is a number, are written now.
  std::string Ref(const Value& v);
  static std::string Type(DType dtype, const Sizes& sizes);
  static std::string Type(const Value& v) { return Type(v.dtype, v.sizes); }

  // --- constants ---
  Value Int(DType dtype, int64_t value, const Sizes& sizes = {});
  Value Float(DType dtype, double value, const Sizes& sizes = {});
  // value as `dtype`, whatever it is: floats for float and complex, integers else.
  Value Fill(DType dtype, double value, const Sizes& sizes = {});
  Value Zeros(DType dtype, const Sizes& sizes = {}) { return Fill(dtype, 0, sizes); }
  // The smallest and largest value (infinities for floats).
  Value Lowest(DType dtype, const Sizes& sizes = {});
  Value Highest(DType dtype, const Sizes& sizes = {});
  Value Iota(DType dtype, const Sizes& sizes, int dim);
  // A one-dimensional int64 constant.
  Value Vector(const std::vector<int64_t>& values);

  // --- elementwise ---
  Value Unary(std::string_view op, const Value& a);                  // "tanh", "chlo.erf", "abs"
  Value UnaryTo(std::string_view op, const Value& a, DType result);  // "is_finite", "real"
  Value Binary(std::string_view op, const Value& a, const Value& b);
  Value Add(const Value& a, const Value& b) { return Binary("add", a, b); }
  Value Sub(const Value& a, const Value& b) { return Binary("subtract", a, b); }
  Value Mul(const Value& a, const Value& b) { return Binary("multiply", a, b); }
  Value Div(const Value& a, const Value& b) { return Binary("divide", a, b); }
  Value Max(const Value& a, const Value& b) { return Binary("maximum", a, b); }
  Value Min(const Value& a, const Value& b) { return Binary("minimum", a, b); }
  Value And(const Value& a, const Value& b) { return Binary("and", a, b); }
  Value Or(const Value& a, const Value& b) { return Binary("or", a, b); }
  Value Not(const Value& a) { return Unary("not", a); }
  Value Neg(const Value& a) { return Unary("negate", a); }
  // a op constant, of a's dtype and sizes.
  Value Add(const Value& a, double c) { return Add(a, Fill(a.dtype, c, a.sizes)); }
  Value Sub(const Value& a, double c) { return Sub(a, Fill(a.dtype, c, a.sizes)); }
  Value Mul(const Value& a, double c) { return Mul(a, Fill(a.dtype, c, a.sizes)); }
  Value Div(const Value& a, double c) { return Div(a, Fill(a.dtype, c, a.sizes)); }
  Value Compare(std::string_view direction, const Value& a, const Value& b);  // "LT" ...
  Value Compare(std::string_view direction, const Value& a, double c) {
    return Compare(direction, a, Fill(a.dtype, c, a.sizes));
  }
  Value IsNan(const Value& a) { return Compare("NE", a, a); }
  Value Select(const Value& pred, const Value& a, const Value& b);
  Value Clamp(const Value& low, const Value& a, const Value& high) {
    return Min(Max(a, low), high);
  }
  Value Complex(const Value& re, const Value& im);
  Value Conjugate(const Value& a);  // a itself unless it is complex
  // PyTorch's conversion: to bool is "!= 0", complex to real takes the real part.
  Value Convert(const Value& a, DType dtype);
  // A float value rounded to the precision and range of `dtype`, kept in its own dtype. Unlike two
  // conversions, which a plugin may leave out, this always rounds.
  Value RoundTo(const Value& a, DType dtype);
  Value BitcastConvert(const Value& a, DType dtype, const Sizes& sizes);

  // --- shape ---
  Value Reshape(const Value& a, const Sizes& sizes);
  Value Transpose(const Value& a, const Sizes& permutation);
  Value BroadcastInDim(const Value& a, const Sizes& sizes, const Sizes& dims);
  // PyTorch's broadcasting: trailing dimensions aligned, sizes of 1 repeated.
  Value Broadcast(const Value& a, const Sizes& sizes);
  Value Slice(const Value& a, const Sizes& starts, const Sizes& limits, const Sizes& strides);
  Value SliceDim(const Value& a, int dim, int64_t start, int64_t limit, int64_t stride = 1);
  Value DynamicSlice(const Value& a, const Values& starts, const Sizes& sizes);
  Value DynamicUpdateSlice(const Value& a, const Value& update, const Values& starts);
  Value Pad(const Value& a, const Value& with, const Sizes& low, const Sizes& high,
            const Sizes& interior = {});
  Value Concatenate(const Values& parts, int dim);
  Value Reverse(const Value& a, const Sizes& dims);

  // --- reductions and windows ---
  Values Reduce(const Values& operands, const Values& inits, const Sizes& dims, const Body& body);
  Value Reduce(std::string_view op, const Value& a, const Value& init, const Sizes& dims);
  Values ReduceWindow(const Values& operands, const Values& inits, const Window& window,
                      const Body& body);
  Values Sort(const Values& operands, int dim, bool stable, const Body& less);

  // --- indexing ---
  Value Gather(const Value& a, const Value& indices, const GatherDims& dims,
               const Sizes& slice_sizes);
  Value Scatter(const Value& a, const Value& indices, const Value& updates, const GatherDims& dims,
                const Body& body, bool unique);

  // --- contractions ---
  // precision: "DEFAULT", "HIGH", "HIGHEST".
  Value DotGeneral(const Value& a, const Value& b, const Sizes& batch_a, const Sizes& batch_b,
                   const Sizes& contract_a, const Sizes& contract_b, DType result,
                   std::string_view precision);
  // a: [N, C, spatial...]; w: [O, I, spatial...] -> `sizes` [N, O, spatial...]. The layouts are
  // given as StableHLO's dim_numbers, since the backward passes permute them.
  Value Convolution(const Value& a, const Value& w, std::string_view dim_numbers,
                    const Window& window, int64_t feature_groups, int64_t batch_groups,
                    const Value& result_type, std::string_view precision);

  // state: u64[2] {key, counter}; returns u32 words. Algorithm PHILOX.
  Value RandomWords(const Value& state, int64_t count);

  // One line; for ops used once.
  Value Line(DType dtype, const Sizes& sizes, std::string_view definition);
  std::string NewName();

 private:
  // `%name = ` ... with a region whose block takes 0-dim values of `types`.
  void Region(const Values& types, const Body& body);
  Values MultiResult(const std::string& name, const Values& types) const;
  bool Expect(bool condition, std::string_view op, const Values& values);

  std::string text_;
  int next_ = 0;
  absl::Status status_;
};

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_BUILDER_H_
