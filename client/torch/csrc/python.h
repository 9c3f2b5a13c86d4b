// Python.h, before any other header. One place, because it must come first and drags macros along.

#ifndef NEUROND_CLIENT_TORCH_CSRC_PYTHON_H_
#define NEUROND_CLIENT_TORCH_CSRC_PYTHON_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#endif  // NEUROND_CLIENT_TORCH_CSRC_PYTHON_H_
