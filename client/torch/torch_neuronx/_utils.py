"""Device arguments: int, str, torch.device or None -> an index."""

import torch

from . import _C


def _get_device_index(device=None, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index that `device` names; without one, the current device's.

    torch.serialization calls this by name.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "neuron":
            raise ValueError(f"Expected a neuron device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise ValueError(f"Expected a torch.device, a string or an int, but got: {device!r}")
    return _C.current_device()


def _checked_device_index(device=None) -> int:
    """The index of a device that this process sees. The first device needs no daemon."""
    index = _get_device_index(device, True)
    if index and not 0 <= index < _C.device_count():
        raise RuntimeError(
            f"neuron: invalid device ordinal: neuron:{index} (this process sees "
            f"{_C.device_count()})"
        )
    return index
