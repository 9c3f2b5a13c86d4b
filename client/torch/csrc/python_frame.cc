#define Py_BUILD_CORE 1
#include "client/torch/csrc/python_frame.h"

#include "client/torch/csrc/python.h"
#include "internal/pycore_frame.h"

namespace neurond::shim {
namespace {

_PyInterpreterFrame* Raw(PythonFrame* frame) {
  return reinterpret_cast<_PyInterpreterFrame*>(frame);
}

}  // namespace

PythonFrame* InnermostFrame() {
  PyThreadState* state = PyGILState_GetThisThreadState();
  if (state == nullptr) {
    return nullptr;
  }
#if PY_VERSION_HEX >= 0x030D0000
  return reinterpret_cast<PythonFrame*>(state->current_frame);
#else
  return state->cframe == nullptr ? nullptr
                                  : reinterpret_cast<PythonFrame*>(state->cframe->current_frame);
#endif
}

PythonFrame* OuterFrame(PythonFrame* frame) {
  return reinterpret_cast<PythonFrame*>(Raw(frame)->previous);
}

void* FrameCode(PythonFrame* frame, uint32_t* instruction) {
  _PyInterpreterFrame* raw = Raw(frame);
#if PY_VERSION_HEX >= 0x030E0000
  if (PyStackRef_IsNull(raw->f_executable)) {
    return nullptr;
  }
  auto* executable = PyStackRef_AsPyObjectBorrow(raw->f_executable);
  if (!PyCode_Check(executable)) {
    return nullptr;
  }
  auto* code = reinterpret_cast<PyCodeObject*>(executable);
  const _Py_CODEUNIT* at = raw->instr_ptr;
#elif PY_VERSION_HEX >= 0x030D0000
  if (raw->f_executable == nullptr || !PyCode_Check(raw->f_executable)) {
    return nullptr;
  }
  auto* code = reinterpret_cast<PyCodeObject*>(raw->f_executable);
  const _Py_CODEUNIT* at = raw->instr_ptr;
#else
  PyCodeObject* code = raw->f_code;
  const _Py_CODEUNIT* at = raw->prev_instr;
#endif
  if (code == nullptr || at == nullptr) {
    return nullptr;
  }
  const auto* first = reinterpret_cast<const _Py_CODEUNIT*>(&code->co_code_adaptive[0]);
  const ptrdiff_t units = at - first;
  *instruction =
      units < 0 ? 0 : static_cast<uint32_t>(units) * static_cast<uint32_t>(sizeof(_Py_CODEUNIT));
  return code;
}

}  // namespace neurond::shim
