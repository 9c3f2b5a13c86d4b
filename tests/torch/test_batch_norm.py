"""Normalization with running statistics: each variant updates them exactly as the CPU does."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_neuronx
from mirror import equal

SKIP = ("version",)  # (a buffer that `.to` copied starts anew)
IMAGE = (4, 3, 2, 5)


def values(device, *sizes, dtype=torch.float32):
    g = torch.Generator().manual_seed(5)
    return torch.randn(sizes, generator=g).to(dtype).to(device)


def module(make, device):
    g = torch.Generator().manual_seed(3)
    made = make()
    for parameter in made.parameters():
        parameter.data = torch.randn(parameter.shape, generator=g).to(parameter.dtype) + 1
    for buffer in made.buffers():
        if buffer.is_floating_point():
            buffer.copy_(torch.rand(buffer.shape, generator=g) + 0.5)
    return made.to(device)


def two_steps(
    make,
    device,
    sizes=IMAGE,
    training=True,
    channels_last=False,
    double=False,
    compiled=False,
    dtype=torch.float32,
):
    norm = module(make, device).train(training)
    run = norm
    if compiled and device == "neuron":
        torch._dynamo.reset()
        run = torch.compile(norm, backend="neuron")
    out = []
    for i in range(2):
        x = values(device, *sizes, dtype=dtype) * (i + 1) + i
        if channels_last:
            x = x.to(memory_format=torch.channels_last)
        x.requires_grad_()
        y = run(x)
        (grad,) = torch.autograd.grad((y * y * x.detach().cos()).sum(), x, create_graph=double)
        if double:
            out += torch.autograd.grad(grad.pow(2).sum(), x)
        out += [y.detach(), grad.detach()]
    return out, dict(norm.state_dict())


def check(make, **kwargs):
    equal(two_steps(make, "neuron", **kwargs), two_steps(make, "cpu", **kwargs), skip=SKIP)


pytestmark = pytest.mark.usefixtures("no_fallback")
ways = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


@ways
@pytest.mark.parametrize(
    ("affine", "tracks", "momentum"),
    list(itertools.product([True, False], [True, False], [0.1, None])),
)
def test_batch_norm_2d(affine, tracks, momentum, compiled):
    check(
        lambda: nn.BatchNorm2d(3, affine=affine, track_running_stats=tracks, momentum=momentum),
        compiled=compiled,
    )


@ways
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_channels_last(training, compiled):
    check(lambda: nn.BatchNorm2d(3), training=training, channels_last=True, compiled=compiled)


@ways
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_instance_norm(training, compiled):
    check(
        lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
        training=training,
        compiled=compiled,
    )


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (lambda: nn.BatchNorm1d(3), (6, 3)),
        (lambda: nn.BatchNorm1d(3), (4, 3, 5)),
        (lambda: nn.BatchNorm3d(3), (2, 3, 2, 2, 2)),
        (lambda: nn.InstanceNorm1d(3), (4, 3, 5)),
    ],
)
def test_other_ranks(make, sizes):
    check(make, sizes=sizes)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_double_backward(training):
    check(lambda: nn.BatchNorm2d(3), training=training, double=True)


def test_low_precision():
    check(lambda: nn.BatchNorm2d(3), dtype=torch.bfloat16)
    check(lambda: nn.BatchNorm2d(3).bfloat16(), dtype=torch.bfloat16)


def functional(call, device):
    x, w, b = values(device, 4, 3, 2), values(device, 3) + 2, values(device, 3)
    mean, var = values(device, 3), values(device, 3).abs() + 1
    return call(x, w, b, mean, var), mean, var


FUNCTIONS = {
    "train": lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, training=True),
    "eval": lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, training=False),
    "momentum 1": lambda x, w, b, m, v: F.batch_norm(x, m, v, training=True, momentum=1.0),
    "native": lambda x, w, b, m, v: torch.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5),
    "legit": lambda x, w, b, m, v: torch.ops.aten._native_batch_norm_legit(
        x, w, b, m, v, True, 0.1, 1e-5
    ),
    "no statistics": lambda x, w, b, m, v: torch.ops.aten._native_batch_norm_legit.no_stats(
        x, w, b, True, 0.1, 1e-5
    ),
    "with update": lambda x, w, b, m, v: torch.ops.aten._batch_norm_with_update(
        x, w, b, m, v, 0.1, 1e-5
    )[:3],
    "no update": lambda x, w, b, m, v: torch.ops.aten._batch_norm_no_update(
        x, w, b, m, v, 0.1, 1e-5
    )[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_update_their_statistics(name):
    equal(functional(FUNCTIONS[name], "neuron"), functional(FUNCTIONS[name], "cpu"), skip=SKIP)


def test_statistics_may_be_views():
    def run(device):
        state = torch.zeros(2, 6, device=device)
        return F.batch_norm(
            values(device, 4, 3, 2), state[0, ::2], state[1, 1::2], training=True
        ), state

    equal(run("neuron"), run("cpu"), skip=SKIP)


class TestOnTheCpu:
    """An op that writes arguments which its schema does not mark, when it runs on the CPU."""

    @pytest.fixture(autouse=True)
    def no_fallback(self):
        """(The fallback is the point.)"""

    @pytest.mark.filterwarnings("ignore:.*runs on the CPU")
    def test_the_statistics_come_back(self):
        def update(x, w, b, mean, var):
            return torch.batch_norm_update_stats(x, mean, var, 0.1)

        torch_neuronx.clear_op_tracking()
        got = functional(update, "neuron")
        assert "aten::batch_norm_update_stats" in torch_neuronx.get_fallback_ops()
        equal(got, functional(update, "cpu"), skip=SKIP)
