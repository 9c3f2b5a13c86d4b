// The elementwise ops of the interpreter: one table from StableHLO's op name to a function of
// Numbers.
//
// Thread-safety: pure functions.

#ifndef NEUROND_PLUGINS_FAKE_ELEMENTWISE_H_
#define NEUROND_PLUGINS_FAKE_ELEMENTWISE_H_

#include <string_view>

#include "plugins/fake/number.h"

namespace neurond::fake {

using UnaryFn = Number (*)(DType, const Number&);
using BinaryFn = Number (*)(DType, const Number&, const Number&);
using CompareFn = bool (*)(DType, const Number&, const Number&);

// Null if there is no such op, or not for this element type. `dtype` is the operands'.
UnaryFn FindUnary(std::string_view op, DType dtype);
BinaryFn FindBinary(std::string_view op, DType dtype);
CompareFn FindCompare(std::string_view direction, DType dtype);

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_ELEMENTWISE_H_
