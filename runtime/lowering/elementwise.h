// Elementwise pieces that several families share.

#ifndef NEUROND_RUNTIME_LOWERING_ELEMENTWISE_H_
#define NEUROND_RUNTIME_LOWERING_ELEMENTWISE_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// Towards zero.
Value Truncate(Builder& b, const Value& x);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_ELEMENTWISE_H_
