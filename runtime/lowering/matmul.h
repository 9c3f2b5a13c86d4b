// Dots that several families use.

#ifndef NEUROND_RUNTIME_LOWERING_MATMUL_H_
#define NEUROND_RUNTIME_LOWERING_MATMUL_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// [m, k] x [k, n] (or transposed, as the contracted dimensions say); half types give a float32
// result.
Value Dot(Op& op, const Value& a, const Value& b, int contract_a, int contract_b);

// The same with a leading batch dimension.
Value BatchDot(Op& op, const Value& a, const Value& b, int contract_a, int contract_b);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_MATMUL_H_
