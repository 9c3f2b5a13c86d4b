// Pieces of normalizations that several families share.

#ifndef NEUROND_RUNTIME_LOWERING_NORM_H_
#define NEUROND_RUNTIME_LOWERING_NORM_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// 1 / sqrt(variance + eps)
Value Rsqrt(Builder& b, const Value& variance, double eps);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_NORM_H_
