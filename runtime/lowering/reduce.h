// Reductions that several families share.

#ifndef NEUROND_RUNTIME_LOWERING_REDUCE_H_
#define NEUROND_RUNTIME_LOWERING_REDUCE_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// Sum over `dims` in x's dtype, the dims dropped. Long float sums are taken in blocks, so that the
// error grows with the number of blocks and not with the number of elements.
Value SumOver(Builder& b, const Value& x, const Sizes& dims);
Value MaxOver(Builder& b, const Value& x, const Sizes& dims);
Value MinOver(Builder& b, const Value& x, const Sizes& dims);

// A reduced value repeated over the dims that were dropped: back to `sizes`.
Value Spread(Builder& b, const Value& reduced, const Sizes& sizes, const Sizes& dims);

// The number of elements that `dims` of `sizes` hold.
int64_t CountOver(const Sizes& sizes, const Sizes& dims);

// Mean over `dims`, dims dropped; float x.
Value MeanOver(Builder& b, const Value& x, const Sizes& dims);

// All dims of rank.
Sizes AllDims(int rank);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_REDUCE_H_
