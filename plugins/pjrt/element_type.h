// PJRT's element types and ours.
//
// Thread-safety: pure functions.

#ifndef NEUROND_PLUGINS_PJRT_ELEMENT_TYPE_H_
#define NEUROND_PLUGINS_PJRT_ELEMENT_TYPE_H_

#include "pjrt_c_api.h"
#include "runtime/base/dtype.h"

namespace neurond::pjrt {

// PJRT_Buffer_Type_INVALID for kInvalid.
PJRT_Buffer_Type ToPjrt(DType dtype);
// kInvalid for a type that the runtime has no name for (float8, int4, token).
DType FromPjrt(PJRT_Buffer_Type type);

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_ELEMENT_TYPE_H_
