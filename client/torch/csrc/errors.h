// Errors: deferred failures become exceptions at synchronizing calls.
//
// The message is the root's message in its first line, then op, inputs and device, then the Python
// line that submitted it.
//
// Thread-safety: all functions, from any thread; Raise takes the GIL to read source lines, so no
// lock may be held.

#ifndef NEUROND_CLIENT_TORCH_CSRC_ERRORS_H_
#define NEUROND_CLIENT_TORCH_CSRC_ERRORS_H_

#include <cstdint>
#include <string>

#include "client/torch/csrc/runtime.h"

namespace neurond::shim {

// Raises the oldest unreported failure of a stream up to a sequence number (stream >= 0) or of a
// device; returns when there is none.
void RaiseStreamError(const Link& link, int stream, uint64_t upto_seq);
void RaiseDeviceError(const Link& link, int device);
// After a Read that failed: raises the failure behind the Buffer, else the Read's own, in the order
// of its stream.
void RaiseReadError(const Link& link, int stream, uint64_t buffer);

std::string Describe(const client::DeviceError& error);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_ERRORS_H_
