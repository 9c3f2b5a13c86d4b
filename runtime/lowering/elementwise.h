// Elementwise pieces that several families share.

#ifndef NEUROND_RUNTIME_LOWERING_ELEMENTWISE_H_
#define NEUROND_RUNTIME_LOWERING_ELEMENTWISE_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// Towards zero.
Value Truncate(Builder& b, const Value& x);

// atan2(y, x) of real numbers.
Value Atan2(Builder& b, const Value& y, const Value& x);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_ELEMENTWISE_H_
