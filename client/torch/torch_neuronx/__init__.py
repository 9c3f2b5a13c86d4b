"""The PyTorch device `neuron`.

`import torch` loads this package by itself (entry point `torch.backends`); `import torch_neuronx`
does the same by hand. The daemon behind the device is started at its first use, not at import.
"""

from . import _loader

_loader.load()

from . import metrics, neuron  # noqa: E402
from ._memory import (  # noqa: E402
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from ._random import (  # noqa: E402
    get_rng_state,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
)
from ._stream import (  # noqa: E402
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from ._tracking import clear_op_tracking, get_executed_ops, get_fallback_ops  # noqa: E402
from .neuron import (  # noqa: E402
    current_device,
    device,
    device_count,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)

__version__ = "0.1.0"


def is_neuron_runtime_initialized() -> bool:
    """Whether this process is connected to a daemon."""
    return is_initialized()


def _autoload() -> None:
    """Called by `import torch`; importing this module has done the work."""


__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "clear_op_tracking",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_executed_ops",
    "get_fallback_ops",
    "get_rng_state",
    "initial_seed",
    "is_available",
    "is_initialized",
    "is_neuron_runtime_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "metrics",
    "neuron",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_stream",
    "stream",
    "synchronize",
]
