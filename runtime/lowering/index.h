// Running sums, which indexing by masks needs too.

#ifndef NEUROND_RUNTIME_LOWERING_INDEX_H_
#define NEUROND_RUNTIME_LOWERING_INDEX_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// Inclusive sum along `dim`, in x's dtype.
Value RunningSum(Builder& b, const Value& x, int dim);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_INDEX_H_
