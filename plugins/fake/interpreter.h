// Interpreter: runs an HloModule on host memory, one element at a time. Made to be right and small,
// not fast.
//
// Ops: constant, iota; add, subtract, multiply, divide, remainder, maximum, minimum, power, and,
// or, xor; abs, negate, not, sign, floor, ceil, sqrt, rsqrt, exponential, log, tanh, logistic,
// cosine, sine, is_finite, real, imag; compare, select, convert, bitcast_convert; reshape,
// broadcast_in_dim, transpose, slice, dynamic_slice, dynamic_update_slice, concatenate. Of these,
// floats and complex numbers where StableHLO has them, except complex beyond add, subtract,
// multiply, negate, compare EQ/NE, real and imag.
//
// Thread-safety: pure functions.

#ifndef NEUROND_PLUGINS_FAKE_INTERPRETER_H_
#define NEUROND_PLUGINS_FAKE_INTERPRETER_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "plugins/fake/hlo_module.h"

namespace neurond::fake {

// UNIMPLEMENTED naming an op that the interpreter lacks; INVALID_ARGUMENT for operands of the wrong
// number, type or size. What passes cannot fail when it runs.
absl::Status CheckModule(const HloModule& module);

// `arguments`: the bytes of each parameter. Returns the bytes of each result.
std::vector<std::vector<char>> Interpret(const HloModule& module,
                                         std::span<const char* const> arguments);

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_INTERPRETER_H_
