// Shape pieces that several families share.

#ifndef NEUROND_RUNTIME_LOWERING_SHAPE_H_
#define NEUROND_RUNTIME_LOWERING_SHAPE_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// Concatenation that leaves out empty parts.
Value ConcatenateAlong(Op& op, Values parts, int dim);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_SHAPE_H_
