"""What the hand-written functional twins (twins.py, optimizers.py) are registered with and made of.

A twin is `fn(write, *args)`: `write(target, value)` says what becomes of a written argument.
"""

import torch

aten = torch.ops.aten
prims = torch.ops.prims

BY_HAND = {}


def twin(*names):
    def register(fn):
        for name in names:
            BY_HAND[name] = fn
        return fn

    return register


def full(like, value):
    return aten.full.default(list(like.shape), value, dtype=like.dtype, device=like.device)


def as_like(value, like):
    if value.dtype != like.dtype:
        value = prims.convert_element_type.default(value, like.dtype)
    return value if value.shape == like.shape else aten.expand.default(value, list(like.shape))
