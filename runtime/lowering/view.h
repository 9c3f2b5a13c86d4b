// Views of flat buffers: the one place where strides become StableHLO.
//
// A buffer is a one-dimensional value of its own element type. Reading a View gives a value of the
// View's sizes; writing one gives the buffer's next contents. The offset is a run-time word
// (View::offset_word), which the session checks before it submits, so every read and write here
// must be right for *any* offset that keeps the View inside its buffer, also where a row of the
// View wraps around the end of a row of the tensor it came from.
//
// Thread-safety: none; writes to the Module's Builder.

#ifndef NEUROND_RUNTIME_LOWERING_VIEW_H_
#define NEUROND_RUNTIME_LOWERING_VIEW_H_

#include "runtime/lowering/op.h"

namespace neurond::lowering {

// The View's elements, in the View's dtype. `flat`: the whole buffer.
Value ReadView(Module& m, const Value& flat, const View& view);

// `flat` with `value` (the View's dtype and sizes) stored where the View points.
Value WriteView(Module& m, const Value& flat, const View& view, const Value& value);

// `value` laid out with `strides` (a dense permutation of its sizes), as a flat value. Fails if
// they are not one.
Value FlattenAs(Module& m, const Value& value, const Sizes& strides);

// aten.as_strided of a dense value: reads with static `offset`.
Value ReadStrided(Builder& b, const Value& flat, const Sizes& sizes, const Sizes& strides,
                  const Value& offset);

// aten.as_strided_scatter: `flat` with `value` stored at these strides from static `offset`.
Value WriteStridedAt(Builder& b, const Value& flat, const Sizes& sizes, const Sizes& strides,
                     int64_t offset, const Value& value);

// `flat` (one-dimensional) seen as elements of another dtype of the same bytes, cut down to whole
// elements.
Value BitcastFlat(Builder& b, const Value& flat, DType dtype);

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_VIEW_H_
