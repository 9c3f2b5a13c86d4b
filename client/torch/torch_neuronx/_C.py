"""The binary module for this torch: `_C_t<major><minor>`.

It is built per minor version, because torch's C++ layouts move between them.
"""

import importlib

import torch

_minor = "".join(torch.__version__.split("+")[0].split(".")[:2])
try:
    _binary = importlib.import_module(f"torch_neuronx._C_t{_minor}")
except ModuleNotFoundError as e:
    if e.name != f"torch_neuronx._C_t{_minor}":
        raise
    raise ImportError(
        f"torch_neuronx has no binary for torch {torch.__version__} and this Python. "
        "Build it with this interpreter: cmake -S <source> -B build -DPython3_EXECUTABLE=<python> "
        "&& cmake --build build --target torch_neuronx"
    ) from e

if _binary.TORCH_VERSION.split(".")[:2] != torch.__version__.split(".")[:2]:
    raise ImportError(
        f"{_binary.__file__} was built for torch {_binary.TORCH_VERSION}, "
        f"but torch {torch.__version__} is installed"
    )

for _name in dir(_binary):
    if not _name.startswith("__"):
        globals()[_name] = getattr(_binary, _name)
__binary_file__ = _binary.__file__
