"""The generators of the device: a seed and an offset per device; state is 16 bytes, as CUDA's."""

import secrets
import struct

import torch

from . import _C
from ._utils import _checked_device_index

_U64 = (1 << 64) - 1
_DEVICES_MAX = 127  # torch's device index is an int8


def _count() -> int:
    """Devices to seed: all possible ones. Generators live here, so this never connects."""
    return _DEVICES_MAX


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _C.manual_seed(_C.current_device(), int(seed) & _U64)


def manual_seed_all(seed: int) -> None:
    for index in range(_count()):
        _C.manual_seed(index, int(seed) & _U64)


def seed() -> int:
    value = _random_seed()
    manual_seed(value)
    return value


def seed_all() -> int:
    value = _random_seed()
    manual_seed_all(value)
    return value


def _random_seed() -> int:
    return secrets.randbits(63)


def initial_seed() -> int:
    return _C.get_generator(_C.current_device())[0]


def get_rng_state(device="neuron") -> torch.Tensor:
    """A ByteTensor of 16 bytes: seed, offset."""
    seed_value, offset = _C.get_generator(_checked_device_index(device))
    return torch.frombuffer(bytearray(struct.pack("<QQ", seed_value, offset)), dtype=torch.uint8)


def set_rng_state(new_state: torch.Tensor, device="neuron") -> None:
    if not isinstance(new_state, torch.Tensor) or new_state.dtype != torch.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    if new_state.numel() != 16:
        raise RuntimeError("RNG state is wrong size")
    seed_value, offset = struct.unpack("<QQ", bytes(new_state.cpu().tolist()))
    _C.set_generator(_checked_device_index(device), seed_value, offset)


def get_rng_state_all() -> list:
    return [get_rng_state(i) for i in range(_C.device_count())]


def set_rng_state_all(new_states) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
