"""Two calls that differ in one piece of metadata alone never share a Program.

Each pair runs in one process, so that the second call finds the first one's key: were the piece not
part of it, the second would get the first one's result, or an error.
"""

import pytest
import torch

import torch_neuronx
from mirror import counting, same_on_both


def strided(d, elements, sizes, strides):
    return counting(d, elements).as_strided(sizes, strides)


def complex_matrix(d):
    return torch.complex(counting(d, 3, 3), counting(d, 3, 3) + 1)


# Sizes that no other test has: what another test made must not come first.
PAIRS = {
    "which arguments share a storage": (
        lambda d: (lambda x, y: x.add_(y))(counting(d, 31), counting(d, 31)),
        lambda d: (lambda x: x.add_(x))(counting(d, 31)),
    ),
    "the element type of the storage": (
        lambda d: counting(d, 33, dtype=torch.int32) + 1,
        lambda d: counting(d, 33).view(torch.int32) + 1,
    ),
    "the element type": (
        lambda d: counting(d, 34).view(torch.int32) * 3,
        lambda d: counting(d, 34) * 3,
    ),
    "the size of the storage": (
        lambda d: counting(d, 40)[:35] + 1,
        lambda d: counting(d, 41)[:35] + 1,
    ),
    "part of a storage or all of it": (
        lambda d: counting(d, 36) + 1,
        lambda d: counting(d, 41)[:36] + 1,
    ),
    "sizes": (
        lambda d: counting(d, 37, 2).sum(0),
        lambda d: counting(d, 2, 37).sum(0),
    ),
    "strides": (
        lambda d: counting(d, 6, 7).clone(),
        lambda d: counting(d, 7, 6).t().clone(),
    ),
    "the stride of one element": (
        lambda d: strided(d, 38, (1, 38), (38, 1)).clone(),
        lambda d: strided(d, 38, (1, 38), (99, 1)).clone(),
    ),
    "elements that overlap": (
        lambda d: strided(d, 4, (2, 2), (2, 1)) * 2.5,
        lambda d: strided(d, 4, (2, 2), (1, 1)) * 2.5,
    ),
    "the conjugate bit": (
        lambda d: complex_matrix(d) @ complex_matrix(d),
        lambda d: complex_matrix(d).conj() @ complex_matrix(d),
    ),
    "the negative bit": (
        lambda d: counting(d, 39).clone(),
        lambda d: torch._neg_view(counting(d, 39)).clone(),
    ),
    "a number or a tensor of the host": (
        lambda d: counting(d, 42, dtype=torch.int64) * 2.0,
        lambda d: counting(d, 42, dtype=torch.int64) * torch.tensor(2.0, dtype=torch.float64),
    ),
    "the type of a number": (
        lambda d: counting(d, 43, dtype=torch.int64) * 2,
        lambda d: counting(d, 43, dtype=torch.int64) * 2.0,
    ),
    "a flag": (
        lambda d: counting(d, 3, 44).sum(1, keepdim=False),
        lambda d: counting(d, 3, 44).sum(1, keepdim=True),
    ),
    "a word": (
        lambda d: torch.div(counting(d, 45) - 7, 2.0, rounding_mode="floor"),
        lambda d: torch.div(counting(d, 45) - 7, 2.0, rounding_mode="trunc"),
    ),
    "a parameter": (
        lambda d: torch.nn.functional.layer_norm(counting(d, 2, 46), (46,), eps=1e-5),
        lambda d: torch.nn.functional.layer_norm(counting(d, 2, 46), (46,), eps=3.0),
    ),
    "a complex number": (
        lambda d: torch.add(complex_matrix(d), complex_matrix(d), alpha=2 + 1j),
        lambda d: torch.add(complex_matrix(d), complex_matrix(d), alpha=2 + 3j),
    ),
    "a number that decides on the shape": (
        lambda d: torch.arange(0, 48, 3, device=d) + 1,
        lambda d: torch.arange(0, 48, 5, device=d) + 1,
    ),
    "an argument left out": (
        lambda d: counting(d, 49).clamp(min=3.0),
        lambda d: counting(d, 49).clamp(max=3.0),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_call_never_meets_the_program_of_another(name, no_fallback):
    for _ in range(2):
        for call in PAIRS[name]:
            same_on_both(call)


def test_the_default_dtype_is_part_of_the_key():
    x = torch.arange(51)
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            quotient = x.to("neuron") / 2
            assert quotient.dtype is dtype
            assert torch.equal(quotient.cpu(), x / 2)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_precision_of_matmuls_is_part_of_the_key():
    def traces():
        return torch_neuronx.metrics.get_counter_value("neuron.traces") or 0

    x = torch.ones(52, 52, device="neuron")
    (x @ x).cpu()
    before = traces()
    (x @ x).cpu()
    assert traces() == before
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        (x @ x).cpu()
    finally:
        torch.set_float32_matmul_precision(precision)
    assert traces() == before + 1
