// Random numbers: pure ops over (seed, offset) with a named algorithm, so that every plugin gives
// the same numbers.
//
// A draw of n elements owns n counter steps from offset + delta on; a Philox step gives two 64-bit
// words. 32-bit draws take four elements from a step, so they use less than they own and no two
// draws overlap.
#include <cmath>
#include <numbers>
#include <string>

#include "runtime/lowering/families.h"

namespace neurond::lowering {
namespace {

Values State(Op& op) {
  Builder& b = op.b;
  const Graph& g = op.graph();
  if (g.seed_word < 0) {
    op.Invalid("the program has no seed word");
    return {b.Zeros(op.ResultDType(), op.ResultSizes())};
  }
  return {b.Concatenate(
      {b.Reshape(op.Word(g.seed_word), {1}), b.Reshape(op.Word(g.offset_word), {1})}, 0)};
}

// (state, delta, sizes, dtype) -> at least `words` u32 words.
Value Words(Op& op, int64_t words) {
  Builder& b = op.b;
  const Value state = b.Convert(op.Tensor(0), DType::kI64);
  if (state.sizes != Sizes{2}) {
    op.Invalid("the state is not int64[2]");
    return b.Zeros(DType::kU32, {words});
  }
  const Value delta = b.Reshape(b.Convert(op.Tensor(1), DType::kI64), {1});
  const Value seed = b.Slice(state, {0}, {1}, {1});
  const Value counter = b.Add(b.Slice(state, {1}, {2}, {1}), delta);
  return b.RandomWords(b.BitcastConvert(b.Concatenate({seed, counter}, 0), DType::kU64, {2}),
                       words);
}

Value Words64(Op& op, int64_t n) {
  Builder& b = op.b;
  return b.BitcastConvert(b.Reshape(Words(op, 2 * n), {n, 2}), DType::kU64, {n});
}

int64_t Count(const Sizes& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

// The top `bits` of each word as a float in [0, 1). `bits` is the precision of the dtype, so that
// the value is exact.
Value Uniform(Op& op, DType dtype, int64_t n) {
  Builder& b = op.b;
  if (dtype == DType::kF64) {
    const Value bits = b.Binary("shift_right_logical", Words64(op, n), b.Int(DType::kU64, 11, {n}));
    return b.Mul(b.Convert(bits, DType::kF64), 0x1p-53);
  }
  const int precision = dtype == DType::kF16 ? 11 : dtype == DType::kBF16 ? 8 : 24;
  const Value bits =
      b.Binary("shift_right_logical", Words(op, n), b.Int(DType::kU32, 32 - precision, {n}));
  const Value unit = b.Mul(b.Convert(bits, DType::kF32), std::ldexp(1.0, -precision));
  return b.Convert(unit, dtype);
}

bool Drawable(Op& op) {
  if (IsFloat(op.ResultDType())) return true;
  op.Invalid("random numbers of this dtype");
  return false;
}

Values Rand(Op& op) {
  const Sizes& sizes = op.ResultSizes();
  if (Count(sizes) == 0 || !Drawable(op)) return {op.b.Zeros(op.ResultDType(), sizes)};
  return {op.b.Reshape(Uniform(op, op.ResultDType(), Count(sizes)), sizes)};
}

// Box-Muller: pairs of uniforms, the first of which is in (0, 1].
Values Randn(Op& op) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes();
  const int64_t n = Count(sizes), pairs = (n + 1) / 2;
  if (n == 0 || !Drawable(op)) return {b.Zeros(op.ResultDType(), sizes)};
  const DType wide = OpMath(op.ResultDType());
  const Value u = Uniform(op, wide, 2 * pairs);
  const Value first = b.Sub(b.Fill(wide, 1, {pairs}), b.Slice(u, {0}, {pairs}, {1}));
  const Value angle = b.Mul(b.Slice(u, {pairs}, {2 * pairs}, {1}), 2 * std::numbers::pi);
  const Value radius = b.Unary("sqrt", b.Mul(b.Unary("log", first), -2));
  const Value both = b.Concatenate(
      {b.Mul(radius, b.Unary("cosine", angle)), b.Mul(radius, b.Unary("sine", angle))}, 0);
  return {op.Out(b.Reshape(b.Slice(both, {0}, {n}, {1}), sizes))};
}

// 64 random bits an element, as int64.
Values RandomBits(Op& op) {
  Builder& b = op.b;
  const Sizes& sizes = op.ResultSizes();
  const int64_t n = Count(sizes);
  if (n == 0) return {b.Zeros(op.ResultDType(), sizes)};
  return {op.Out(b.Reshape(b.BitcastConvert(Words64(op, n), DType::kI64, {n}), sizes))};
}

}  // namespace

void RegisterRandom(OpTable& t) {
  for (const char* overload : {"", ".default"}) {
    t.Add(std::string("neuron.rng_state") + overload, State);
    t.Add(std::string("neuron.rand") + overload, Rand);
    t.Add(std::string("neuron.randn") + overload, Randn);
    t.Add(std::string("neuron.random_bits") + overload, RandomBits);
  }
}

}  // namespace neurond::lowering
