"""`torch.neuron`: the device module that torch's generic code and users' scripts call."""

from dataclasses import dataclass

import torch

from . import _C, _utils  # noqa: F401  (torch.serialization looks for _utils)
from ._memory import (
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
from ._random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ._stream import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from ._utils import _checked_device_index, _get_device_index

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_dynamo_metrics",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_dynamo_metrics",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """The package is usable; the daemon starts at the first use of the device."""
    return True


def is_initialized() -> bool:
    return _C.is_connected()


def __getattr__(name: str):
    if name == "_initialized":  # torch.utils.checkpoint keeps the random state only if this is set
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def init() -> None:
    """Connects to the daemon, starting it if none runs."""
    _C.device_count()


_lazy_init = init


def _is_in_bad_fork() -> bool:
    return _C.is_forked()


def device_count() -> int:
    return _C.device_count()


def current_device() -> int:
    return _C.current_device()


def set_device(device) -> None:
    _C.set_device(_get_device_index(device, True))


def _exchange_device(index: int) -> int:
    before = _C.current_device()
    _C.set_device(index)
    return before


_maybe_exchange_device = _exchange_device


class device:
    """Makes a device the current one within a `with`; None or a negative index does nothing."""

    def __init__(self, device):
        self.index = -1 if device is None else _get_device_index(device, True)

    def __enter__(self):
        self._before = _C.current_device()
        _C.set_device(self.index)

    def __exit__(self, *exc):
        _C.set_device(self._before)


class device_of(device):
    """The device of a tensor or storage."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.device.type == "neuron" else None)


def synchronize(device=None) -> None:
    """Waits for all work on the device, then raises the oldest failure not reported yet."""
    _C.synchronize(-1 if device is None else _get_device_index(device, True))


@dataclass(frozen=True)
class DeviceProperties:
    name: str
    platform: str
    total_memory: int


def get_device_properties(device=None) -> DeviceProperties:
    name, platform, total, _ = _C.devices()[_checked_device_index(device)]
    return DeviceProperties(name, platform, total)


def get_device_name(device=None) -> str:
    return get_device_properties(device).name


def get_device_capability(device=None) -> dict:
    """What torch.accelerator reports: the dtypes that the device computes with."""
    return torch.accelerator.get_device_capability(_get_device_index(device, True))


def get_amp_supported_dtype() -> list:
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def _dynamo_counters():
    from torch._dynamo.utils import counters

    return counters


def get_dynamo_metrics() -> dict:
    """torch._dynamo's counters, as plain dicts."""
    return {group: dict(values) for group, values in _dynamo_counters().items()}


def reset_dynamo_metrics() -> None:
    _dynamo_counters().clear()
