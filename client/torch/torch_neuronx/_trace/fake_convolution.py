"""Strides of a convolution on fake tensors of the device: the CPU's, so `channels_last` where input
or weight is, as the device's own convolution returns it. torch's rule knows only its own backends
and says contiguous for every other.
"""

import functools

import torch
from torch._subclasses import fake_impls
from torch.utils._pytree import tree_leaves, tree_map_only

from .device import is_ours

aten = torch.ops.aten


def install() -> None:
    """Wraps torch's rule, once, for all of the process."""
    rules = fake_impls.op_implementations_dict
    for op in (
        aten.convolution.default,
        aten._convolution.default,
        aten.convolution_backward.default,
    ):
        if not isinstance(rules[op], functools.partial):
            rules[op] = functools.partial(_convolution, rules[op])


def _convolution(rule, fake_mode, func, *args, **kwargs):
    results = rule(fake_mode, func, *args, **kwargs)
    if not any(is_ours(t.device) for t in _tensors(results)):
        return results
    with fake_mode:
        host_args, host_kwargs = tree_map_only(torch.Tensor, _on_host, (args, kwargs))
        on_host = rule(fake_mode, func, *host_args, **host_kwargs)
        strides = iter([t.stride() for t in _tensors(on_host)])
        return tree_map_only(torch.Tensor, lambda t: _strided(t, next(strides), t.device), results)


def _tensors(values) -> list:
    return [v for v in tree_leaves(values) if isinstance(v, torch.Tensor)]


def _on_host(t):
    return _strided(t, t.stride(), "cpu")


def _strided(t, strides, device):
    return torch.empty_strided(t.shape, strides, dtype=t.dtype, device=device)
