"""The PyTorch device `neuron`.

`import torch` loads this package by itself (entry point `torch.backends`); `import torch_neuronx`
does the same by hand. The daemon behind the device is started at its first use, not at import.
"""


def _autoload() -> None:
    """Called by `import torch`; importing this module has done the work.

    Defined first: where `import torch_neuronx` comes first, `import torch` below calls it early.
    """


from . import _loader  # noqa: E402

_loader.load()

from . import metrics, neuron  # noqa: E402
from ._tracking import clear_op_tracking, get_executed_ops, get_fallback_ops  # noqa: E402
from .neuron import *  # noqa: E402, F403
from .neuron import is_initialized  # noqa: E402

__version__ = "0.1.0"


def is_neuron_runtime_initialized() -> bool:
    """Whether this process is connected to a daemon."""
    return is_initialized()


__all__ = [
    *neuron.__all__,
    "clear_op_tracking",
    "get_executed_ops",
    "get_fallback_ops",
    "is_neuron_runtime_initialized",
    "metrics",
    "neuron",
]
