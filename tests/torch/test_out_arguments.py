"""What `out=` and in-place arguments become: sizes, strides, errors and warnings of the CPU."""

from __future__ import annotations

import pytest
import torch

from compare import same, to
from mirror import equal, outcome, text_of


def both_ways(fn, *args, times=2):
    """Compares the CPU and the device, at the first call and when programs are known: the result or
    error, the arguments, the warnings.
    """

    def run(device):
        moved = to(args, device)
        try:
            result = fn(*moved)
        except (RuntimeError, IndexError) as e:
            result = f"{type(e).__name__}: {text_of(e)}"
        return result, moved

    for _ in range(times):
        want, want_warnings = outcome(run, "cpu")
        got, got_warnings = outcome(run, "neuron")
        equal(got, want)
        assert [t for t in got_warnings if "runs on the CPU" not in t] == want_warnings


def rand(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0))


RESIZED = {
    "vector_norm": (lambda x, out: torch.linalg.vector_norm(x, out=out), rand(2, 3), rand(3)),
    "norm": (lambda x, out: torch.norm(x, out=out), rand(2, 3), rand(3)),
    "norm of rows": (lambda x, out: torch.norm(x, 2, 1, out=out), rand(2, 3), rand(1)),
    "cross": (lambda x, out: torch.linalg.cross(x, x.flip(0), out=out), rand(2, 3), rand(4)),
    "add": (lambda x, out: torch.add(x, 1, out=out), rand(2, 3), rand(5)),
    "arange": (lambda x, out: torch.arange(5, out=out), rand(1), rand(2)),
    "linspace": (lambda x, out: torch.linspace(0, 1, 5, out=out), rand(1), rand(2)),
    "eye": (lambda x, out: torch.eye(3, out=out), rand(1), rand(2)),
    "kthvalue": (
        lambda x, out: torch.kthvalue(x, 2, out=(out, torch.zeros(2, 2, device=out.device).long())),
        rand(4),
        rand(2),
    ),
    "mode": (
        lambda x, out: torch.mode(
            x.int(), out=(out.int(), torch.zeros(2, device=out.device).long())
        ),
        rand(4),
        rand(2),
    ),
    "nonzero": (lambda x, out: torch.nonzero(x, out=out.long()), rand(3, 3), rand(2)),
    "inverse": (lambda x, out: torch.linalg.inv(x, out=out), rand(3, 3), rand(2)),
    "all": (lambda x, out: torch.all(x, (0,), out=out.bool()), rand(3, 3), rand(2)),
}


@pytest.mark.parametrize("name", RESIZED)
def test_out_is_resized_and_warns_as_on_the_cpu(name):
    both_ways(*RESIZED[name])


WRONG = {
    "cross into float64": lambda x: torch.linalg.cross(x, x, out=x.double()),
    "norm into float64": lambda x: torch.linalg.vector_norm(x, out=x.double()),
    "all into int32": lambda x: torch.all(x, dim=(0,), out=x.int()),
    "any into float": lambda x: torch.any(x, dim=(0,), out=x.clone()),
}


@pytest.mark.parametrize("name", WRONG)
def test_out_of_a_wrong_dtype(name):
    both_ways(WRONG[name], rand(2, 3))


IN_PLACE = {
    "logical_and_": lambda x, y: x.logical_and_(y),
    "logical_xor_": lambda x, y: x.logical_xor_(y),
    "ldexp_": lambda x, y: x.ldexp_(y),
    "add_": lambda x, y: x.add_(y),
    "add, out=self": lambda x, y: torch.add(x, y, out=x),
    "addr_": lambda x, y: x.addr_(y, y),
    "addmm_": lambda x, y: x.addmm_(y.view(3, 1), y.view(1, 3)),
    "clamp_": lambda x, y: x.clamp_(y),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_argument_written_in_place_is_never_resized(name):
    both_ways(IN_PLACE[name], rand(3, 1), rand(3))
    both_ways(IN_PLACE[name], rand(1), rand(3))


def test_an_input_that_is_also_out_is_read_before_it_is_resized():
    x = rand(3, 4).to("neuron")
    want = x.cpu().sum(0)
    with pytest.warns(UserWarning, match="was resized"):
        torch.sum(x, 0, out=x)
    same(x, want)


DEGREES = {
    "var": lambda x: x.var(),
    "std": lambda x: x.std(0),
    "var_mean": lambda x: torch.var_mean(x, 0),
    "std_mean": lambda x: torch.std_mean(x),
    "correction": lambda x: [torch.var(x, 0, correction=c) for c in (0, 1, 0, 2)],
}


@pytest.mark.parametrize("name", DEGREES)
def test_warnings_of_every_call_come_at_every_call(name):
    both_ways(DEGREES[name], torch.ones(1), times=3)


def test_warnings_outlive_the_process(run_python):
    code = """
import sys, warnings, torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        torch.ones(1, device="neuron").var().item()
assert len([w for w in caught if "degrees of freedom" in str(w.message)]) == 2, caught
"""
    run_python(code)
    run_python(code)


STORAGE = {
    "as_strided_copy": lambda x, y: torch.as_strided_copy(x[1:, 1:], (2, 2), (1, 2), 1),
    "as_strided_copy, transposed": lambda x, y: torch.as_strided_copy(x.t(), (2, 3), (3, 1)),
    "as_strided_scatter": lambda x, y: torch.as_strided_scatter(x.t(), y, (2, 2), (1, 2), 1),
    "as_strided_scatter, offset": lambda x, y: torch.as_strided_scatter(x[2:], y, (2, 2), (2, 1)),
    "slice_scatter": lambda x, y: torch.slice_scatter(x[:, ::2][:2], y, 1, 0, 2),
    "select_scatter": lambda x, y: torch.select_scatter(x[:, ::2], x[0, :2], 0, 1),
    "diagonal_scatter": lambda x, y: torch.diagonal_scatter(x.t()[1:], x[0, :3]),
}


@pytest.mark.parametrize("name", STORAGE)
def test_ops_on_the_storage_behind_a_view(name):
    both_ways(STORAGE[name], torch.arange(16.0).reshape(4, 4), -torch.ones(2, 2))
