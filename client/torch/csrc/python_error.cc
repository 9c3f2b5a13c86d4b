#include "client/torch/csrc/python.h"
// Python first: it defines feature macros.
#include <torch/csrc/Exceptions.h>

#include <utility>

#include "client/torch/csrc/python_error.h"
#include "client/torch/csrc/python_state.h"

namespace neurond::shim {
namespace {

thread_local std::exception_ptr interruption;

}  // namespace

void ThrowPythonError() {
  python_error error;
  error.persist();
  throw error;
}

bool RestorePythonError(const std::exception& error) {
  const auto* python = dynamic_cast<const python_error*>(&error);
  if (python == nullptr) {
    return false;
  }
  python_error(*python).restore();
  return true;
}

bool Interrupted() {
  GilGuard gil;
  if (!gil.held() || StayAtEnd([] { return PyErr_CheckSignals(); }) == 0) {
    return false;
  }
  // Not left in the indicator: destructors may run Python before it is thrown.
  try {
    ThrowPythonError();
  } catch (const python_error&) {
    interruption = std::current_exception();
  }
  return true;
}

void ThrowInterruption() { std::rethrow_exception(std::exchange(interruption, nullptr)); }

}  // namespace neurond::shim
