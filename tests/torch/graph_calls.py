"""Calls of a function, compiled for the device and plain on the CPU, that must do the same."""

import torch

from mirror import equal


def compiled(fn, device):
    if device == "cpu":
        return fn
    torch._dynamo.reset()
    return torch.compile(fn, backend="neuron")


def calls(fn, arguments, device, count):
    run, out = compiled(fn, device), []
    for i in range(count):
        args = arguments(device, i)
        out.append((run(*args), args))
    return out


def check(fn, arguments, count=2, skip=("version",)):
    """`arguments(device, i)` makes the i-th call's. Arguments are compared after the call."""
    equal(calls(fn, arguments, "neuron", count), calls(fn, arguments, "cpu", count), skip=skip)
