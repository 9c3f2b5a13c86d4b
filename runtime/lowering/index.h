// What indexing shares with other families.

#ifndef NEUROND_RUNTIME_LOWERING_INDEX_H_
#define NEUROND_RUNTIME_LOWERING_INDEX_H_

#include <string>

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// int64 `index`, checked against [0, size): negative ones are errors too.
Value CheckedPosition(Op& op, const Value& index, int64_t size, std::string message,
                      ErrorKind kind = ErrorKind::kIndex);

// Inclusive sum along `dim`, in x's dtype.
Value RunningSum(Builder& b, const Value& x, int dim);

// Whole slices along `dim` for each of a list of indices.
GatherDims SliceDims(int rank, int dim);

// index_put with one mask and no other index; false where it is something else or what PyTorch
// would refuse.
bool MaskedPut(Op& op, const Value& x, const Values& indices, const Value& values, bool accumulate,
               Value* out);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_INDEX_H_
