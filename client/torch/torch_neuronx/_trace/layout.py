"""The order in memory of new tensors inside captured graphs.

An eager op has its output's strides from the CPU run. A graph has only its nodes' metadata, so a
new tensor whose strides are not row-major is made as a permutation of one whose are: metadata to
the user, nothing to a program.
"""

import torch
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm
from torch.fx.experimental.proxy_tensor import get_proxy_mode

aten = torch.ops.aten

_CHANNELS_LAST = {torch.channels_last: [0, 2, 3, 1], torch.channels_last_3d: [0, 2, 3, 4, 1]}


def order_of(x, memory_format=None) -> list:
    """The dimensions of a tensor made like `x`, outermost first."""
    if memory_format in (None, torch.preserve_format):
        return list(compute_elementwise_output_logical_to_physical_perm(x)[0])
    return _CHANNELS_LAST.get(memory_format, list(range(x.dim())))


def order_in(dims: int, memory_format) -> list:
    return _CHANNELS_LAST.get(memory_format, list(range(dims)))


def make(size, order, new):
    """A tensor of `size` in `order`; `new(size)` makes a row-major one."""
    if _is_row_major(order):
        return new(list(size))
    return aten.permute.default(new([size[i] for i in order]), _inverse(order))


def arrange(value, order):
    """`value` with its elements in `order`. Eager programs have their strides from elsewhere."""
    if _is_row_major(order) or get_proxy_mode() is None:
        return value
    moved = aten.permute.default(value, order)
    moved = aten.clone.default(moved, memory_format=torch.contiguous_format)
    return aten.permute.default(moved, _inverse(order))


def _is_row_major(order) -> bool:
    return list(order) == list(range(len(order)))


def _inverse(order) -> list:
    return [list(order).index(i) for i in range(len(order))]
