// Refuses StableHLO text that is known to end the process inside XLA instead of failing to compile.
//
// * An elementwise program over 2^37 elements divides by zero in the CPU compiler: types above
//   kElementsMax are refused.
// * A collective waits 40 s for its other participants and then aborts. An Executable runs on one
//   device, so one with more than one participant is UNIMPLEMENTED.
// * A huge index in a convolution's dimension numbers throws inside the MLIR parser.
//
// This guards against accidents, not attacks (bytecode is not looked into): untrusted modules
// belong in a worker process.
//
// Thread-safety: pure function.

#ifndef NEUROND_PLUGINS_PJRT_MODULE_CHECK_H_
#define NEUROND_PLUGINS_PJRT_MODULE_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace neurond::pjrt {

absl::Status CheckModule(absl::string_view module);

}  // namespace neurond::pjrt

#endif  // NEUROND_PLUGINS_PJRT_MODULE_CHECK_H_
