"""Runs the same code on the CPU and on the device and compares."""

from __future__ import annotations

import torch


def to(value, device):
    """A deep copy on `device` that keeps strides of dense tensors and requires_grad."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(to(v, device) for v in value)
    return value


def same(got, want, rtol=1e-5, atol=1e-6):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol, atol)
        return
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    got, want = got.detach().cpu(), want.detach()
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)


def both(fn, *args, rtol=1e-5, atol=1e-6):
    """fn(*args) on both, and what fn did to its arguments. Returns the device's result."""
    on_cpu, on_device = to(args, "cpu"), to(args, "neuron")
    want, got = fn(*on_cpu), fn(*on_device)
    same(got, want, rtol, atol)
    same(on_device, on_cpu, rtol, atol)
    return got
