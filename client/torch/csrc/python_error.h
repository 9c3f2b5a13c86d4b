// Python exceptions on their way through C++: from a tracer or a signal handler that ran inside a
// kernel to the Python code that called the op.
//
// They travel as torch's own `python_error`, which its bindings and autograd's threads hand on.
//
// Thread-safety: each thread has its own interruption.

#ifndef NEUROND_CLIENT_TORCH_CSRC_PYTHON_ERROR_H_
#define NEUROND_CLIENT_TORCH_CSRC_PYTHON_ERROR_H_

#include <exception>

namespace neurond::shim {

// Throws what the error indicator holds and clears it. Needs the GIL.
[[noreturn]] void ThrowPythonError();

// True, with the indicator set as Python left it, if that is where `error` comes from. Needs the
// GIL.
bool RestorePythonError(const std::exception& error);

// For the client's waits: lets Python handle the signals it caught. True if a handler raised
// (KeyboardInterrupt); the exception waits for ThrowInterruption.
bool Interrupted();
// Throws what made this thread's Interrupted() say yes.
[[noreturn]] void ThrowInterruption();

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_PYTHON_ERROR_H_
