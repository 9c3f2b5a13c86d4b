// Small owners for the raw CPython API: the GIL, references, the error indicator.
//
// Thread-safety: GilGuard from any thread, never with a C++ lock held. The others need the GIL.

#ifndef NEUROND_CLIENT_TORCH_CSRC_PYTHON_STATE_H_
#define NEUROND_CLIENT_TORCH_CSRC_PYTHON_STATE_H_

#include <cxxabi.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "client/torch/csrc/python.h"

namespace neurond::shim {

inline bool PythonIsEnding() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Runs `call`, which may take the GIL or run Python. A thread that wants the GIL while the
// interpreter ends is ended by CPython up to 3.13, by unwinding its stack; a destructor on the way
// turns that into std::terminate. Such a thread stays here instead, as it does from 3.14 on.
template <typename Call>
auto StayAtEnd(Call call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    for (;;) {
      pause();
    }
  }
}

// Not held() when there is no interpreter, or none any more.
class GilGuard {
 public:
  GilGuard() : held_(Py_IsInitialized() != 0 && !PythonIsEnding()) {
    if (held_) {
      state_ = StayAtEnd([] { return PyGILState_Ensure(); });
    }
  }
  ~GilGuard() {
    if (held_) {
      PyGILState_Release(state_);
    }
  }
  GilGuard(const GilGuard&) = delete;
  GilGuard& operator=(const GilGuard&) = delete;
  bool held() const { return held_; }

 private:
  bool held_;
  PyGILState_STATE state_{};
};

// Owns one reference.
class PyRef {
 public:
  PyRef() = default;
  explicit PyRef(PyObject* object) : object_(object) {}
  PyRef(PyRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PyRef& operator=(PyRef&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PyRef() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Keeps the error indicator of the surrounding code.
class PyErrorScope {
 public:
  PyErrorScope() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~PyErrorScope() { PyErr_Restore(type_, value_, trace_); }
  PyErrorScope(const PyErrorScope&) = delete;
  PyErrorScope& operator=(const PyErrorScope&) = delete;

 private:
  PyObject *type_, *value_, *trace_;
};

inline std::string PyText(PyObject* object) {
  if (object == nullptr) {
    return "?";
  }
  PyRef text(PyObject_Str(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8 == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return utf8;
}

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_PYTHON_STATE_H_
