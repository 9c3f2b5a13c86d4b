"""Ops that users register: eager, and in compiled functions, where they run between programs."""

import pytest
import torch

import torch_neuronx
from mirror import equal

_lib = torch.library.Library("neuron_test", "DEF")
_lib.define("scaled(Tensor x, float k) -> Tensor")
_lib.impl("scaled", lambda x, k: x * k, "CompositeExplicitAutograd")
torch.library.register_fake("neuron_test::scaled", lambda x, k: torch.empty_like(x), lib=_lib)


@torch.library.custom_op("neuron_test::power", mutates_args=())
def power(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.from_numpy(x.detach().cpu().numpy() ** n).to(x.device)


@power.register_fake
def _(x, n):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.n = inputs[1]


def _backward(ctx, grad):
    return grad * ctx.n * ctx.saved_tensors[0] ** (ctx.n - 1), None


power.register_autograd(_backward, setup_context=_setup)


@torch.library.custom_op("neuron_test::shift", mutates_args={"x"})
def shift(x: torch.Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("neuron_test::total", mutates_args=())
def total(xs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return sum(xs), xs[0] * 2


@total.register_fake
def _(xs):
    return torch.empty_like(xs[0]), torch.empty_like(xs[0])


@torch.library.custom_op("neuron_test::cpu_only", mutates_args=(), device_types="cpu")
def cpu_only(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@cpu_only.register_fake
def _(x):
    return torch.empty_like(x)


def step(x):
    y = power(x.sin(), 3)
    z = torch.ops.neuron_test.scaled(x.detach(), 2.0).t().contiguous()
    shift(z, 3.0)
    a, b = total([z, z + 1])
    return y.sum(), z, a, b


def run(device, compile_it):
    torch._dynamo.reset()
    x = torch.arange(6.0).view(2, 3).to(device).requires_grad_()
    out = (torch.compile(step, backend="neuron") if compile_it else step)(x)
    out[0].backward()
    return out, x.grad


@pytest.mark.parametrize("compile_it", [False, True])
def test_a_users_op(compile_it, no_fallback):
    equal(run("neuron", compile_it), run("cpu", False), skip=("version", "grad_fn"))


@pytest.mark.parametrize("compile_it", [False, True])
def test_a_users_op_writes_an_input(compile_it, no_fallback):
    def write(x):
        shift(x[1], 3.0)
        shift(x, 1.0)
        return x.sum()

    torch._dynamo.reset()
    x = torch.zeros(2, 3, device="neuron")
    total = (torch.compile(write, backend="neuron") if compile_it else write)(x)
    assert x.tolist() == [[1.0] * 3, [4.0] * 3] and total.item() == 15


def test_an_op_without_a_kernel_for_the_device():
    x = torch.ones(2, device="neuron")
    torch_neuronx.clear_op_tracking()
    assert cpu_only(x).tolist() == [2.0, 2.0]
    assert torch_neuronx.get_fallback_ops() == ["neuron_test::cpu_only"]
    with pytest.raises(RuntimeError, match=r"neuron_test\.cpu_only\.default"):
        torch.compile(lambda x: cpu_only(x) * 2, backend="neuron")(x)
