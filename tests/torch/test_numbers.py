"""Numbers at the edges: infinities, wrap-around, neighbours in half types, complex numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from compare import both

INF, NAN = float("inf"), float("nan")
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_powers_wrap_around(dtype, no_fallback):
    base = torch.tensor([-127, -3, -2, -1, 0, 1, 2, 3, 5, 127]).to(dtype)
    exponent = torch.tensor([0, 1, 2, 7, 31, 63, 64, 65, 100, 127]).to(dtype)
    both(lambda x, e: x.unsqueeze(1) ** e, base, exponent)
    both(lambda x: [x**70, 3 ** x.abs(), x.clone().pow_(64)], base)
    if dtype.is_signed:
        both(lambda x, e: x.unsqueeze(1) ** -e, base, exponent)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_roots_of_zeros_and_infinities(dtype):
    x = torch.tensor([0.0, -0.0, INF, -INF, 4.0, -4.0, NAN], dtype=dtype)
    both(lambda x: [x**e for e in (0.5, -0.5, 0.25, -1.5)], x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_neighbour_is_one_in_the_tensors_own_dtype(dtype, no_fallback):
    x = torch.tensor([1.0, -8.5, 0.0, -0.0, INF, NAN, 3.0, 65504.0, 1e-8, 2.0], dtype=dtype)
    y = torch.tensor([2.0, 0.0, 1.0, -1.0, 0.0, 1.0, 3.0, INF, 0.0, NAN], dtype=dtype)
    both(torch.nextafter, x, y, rtol=0, atol=0)


@pytest.mark.parametrize(
    "fn, shape",
    [
        (lambda x: F.adaptive_avg_pool1d(x, 3), (1, 2, 7)),
        (lambda x: F.adaptive_avg_pool2d(x, (2, 4)), (1, 1, 4, 6)),
        (lambda x: F.adaptive_avg_pool3d(x, (2, 5, 2)), (1, 1, 3, 3, 5)),
        (lambda x: F.interpolate(x, size=4, mode="area"), (1, 1, 6)),
    ],
)
def test_an_infinity_stays_in_the_windows_that_hold_it(fn, shape, no_fallback):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x.view(-1)[1], x.view(-1)[-1] = INF, NAN
    both(fn, x)

    def gradient(x):
        x = x.detach().requires_grad_()
        y = fn(x)
        weights = torch.arange(y.numel(), dtype=torch.float32).reshape(y.shape)
        weights.view(-1)[0] = INF
        y.backward(weights.to(y.device))
        return x.grad

    both(gradient, x.nan_to_num(posinf=1.0))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11])
def test_adaptive_means(size, no_fallback):
    x = torch.randn(2, 3, 7, 10, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def run(x):
        y = F.adaptive_avg_pool2d(x, (size, 5))
        return y, torch.autograd.grad((y * y).sum(), x)[0]

    both(run, x)


def test_products_of_complex_vectors():
    a, b = (
        torch.randn(9, dtype=torch.complex64, generator=torch.Generator().manual_seed(s))
        for s in (1, 2)
    )
    both(lambda a, b: [torch.vdot(a, b), torch.dot(a, b), torch.vdot(a[::2], b[1:6])], a, b)
    both(lambda a, b: [torch.vdot(a.conj(), b), torch.linalg.vecdot(a, b)], a, b)


def test_what_has_no_program_for_complex_numbers_runs_on_the_cpu():
    x = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    both(lambda x: torch.logsumexp(x, 0), x)


@pytest.mark.parametrize("which", ["input", "target"])
@pytest.mark.parametrize("value", [-0.5, 1.5, INF, NAN])
def test_probabilities_are_between_0_and_1(which, value):
    half = torch.tensor([0.5], device="neuron")
    wrong = torch.tensor([value], device="neuron")
    with pytest.raises(RuntimeError, match=f"all elements of {which} should be between 0 and 1"):
        F.binary_cross_entropy(*((wrong, half) if which == "input" else (half, wrong))).item()
