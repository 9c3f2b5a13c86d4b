"""Eager ops equal the CPU: arithmetic, scalars, views, in-place, out=, dtypes, empties."""

import pytest
import torch

from compare import both, same

pytestmark = pytest.mark.usefixtures("no_fallback")


def test_add_and_item():
    x = torch.arange(4.0, device="neuron")
    assert (x + x).sum().item() == 12.0


def test_scalars_are_run_time_arguments():
    import torch_neuronx

    x = torch.ones(7, device="neuron")
    (x * 1.5).cpu()
    before = torch_neuronx.metrics.get_counter_value("neuron.traces")
    for k in range(5):
        assert (x * (k + 0.25)).cpu()[0].item() == k + 0.25
    assert torch_neuronx.metrics.get_counter_value("neuron.traces") == before


@pytest.mark.parametrize("scalar", [2, 2.5, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_scalar_type_promotion(dtype, scalar):
    both(lambda x: x * scalar, torch.tensor([0, 1, 2, 3]).to(dtype))


def test_zero_dim_cpu_tensor_beside_device_tensors():
    both(lambda x: x + torch.tensor(2.0, dtype=torch.float64), torch.arange(3.0))
    both(lambda x: x + torch.tensor(2), torch.arange(3))


VIEWS = {
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "transpose": lambda x: x.t(),
    "step": lambda x: x[:, ::2],
    "tail": lambda x: x[1:],
    "flip": lambda x: x.flip(0),
    "expand": lambda x: x[0].expand(3, 4),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "reshape": lambda x: x.t().reshape(2, 6),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_read(name):
    both(lambda x: VIEWS[name](x) * 2 + 1, torch.arange(12.0).reshape(3, 4))
    both(lambda x: VIEWS[name](x).clone(), torch.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize(
    "name", ["row", "column", "transpose", "step", "tail", "as_strided", "diagonal"]
)
def test_views_are_written(name):
    both(lambda x: VIEWS[name](x).add_(1.5), torch.arange(12.0).reshape(3, 4))
    both(lambda x: VIEWS[name](x).zero_(), torch.arange(12.0).reshape(3, 4))
    both(lambda x: VIEWS[name](x).copy_(VIEWS[name](x) * 3), torch.arange(12.0).reshape(3, 4))


def test_out_arguments():
    both(lambda x, out: torch.mul(x, 2, out=out), torch.arange(3.0), torch.empty(3).fill_(0))
    both(lambda x, out: torch.neg(x, out=out[:, 1]), torch.arange(3.0), torch.zeros(3, 4))
    out = torch.empty(0, device="neuron")
    torch.add(torch.ones(5, device="neuron"), 1, out=out)
    assert out.cpu().tolist() == [2.0] * 5
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(
            torch.ones(3, device="neuron"),
            1.5,
            out=torch.zeros(3, dtype=torch.int64, device="neuron"),
        )


def test_in_place_on_expanded_raises():
    with pytest.raises(
        RuntimeError,
        match="more than one element of the written-to tensor refers to a single memory",
    ):
        torch.ones(1, device="neuron").expand(3).add_(1)


def test_partial_overlap_raises():
    x = torch.arange(5.0, device="neuron")
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(x[:4], 1, out=x[1:])


def test_shape_errors_have_torchs_words():
    a, b = torch.ones(2, 3), torch.ones(4, 5)
    with pytest.raises(RuntimeError) as on_cpu:
        a @ b
    with pytest.raises(RuntimeError) as on_device:
        a.neuron() @ b.neuron()
    assert str(on_device.value).splitlines()[0] == str(on_cpu.value).splitlines()[0]


def test_zero_elements():
    both(lambda x: x + 1, torch.empty(0, 3))
    both(lambda x: x.sum(), torch.empty(0, 3))
    both(lambda x, y: torch.cat([x, y]), torch.empty(0, 3), torch.ones(2, 3))
    both(lambda x, y: x @ y, torch.empty(2, 0), torch.empty(0, 3))


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
     torch.float16, torch.bfloat16,
     torch.float32, torch.complex64],
)  # fmt: skip
def test_dtypes_round_trip_and_convert(dtype):
    x = torch.tensor([0, 1, 2, 5, 100]).to(dtype)
    y = x.to("neuron")
    same(y, x)
    if not dtype.is_complex:
        same(y.to(torch.float32), x.to(torch.float32))
        same(y.float().to(dtype), x)


def test_view_dtype_is_a_bitcast():
    both(lambda x: x.view(torch.int32) + 1, torch.arange(4.0))


def test_reductions_and_matmul():
    x, y = torch.randn(8, 5), torch.randn(5, 6)
    both(lambda a, b: a @ b, x, y, rtol=1e-4)
    both(lambda a: a.sum(1), x)
    both(lambda a: a.mean(), x)
    both(lambda a: a.max(1), x)
    both(lambda a: torch.softmax(a, -1), x)
    both(lambda a: a.argmax(0), x)


def test_the_arctangent_of_many_numbers():
    """XLA's vectorized arctangent, which it takes where the other operand of atan2 is a constant 1,
    gives wrong numbers.
    """
    special = [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 1e-30, -3e38]
    x = torch.cat([torch.tensor(special), torch.linspace(-9, 9, 1000)])
    calls = [
        torch.atan,
        lambda x: torch.atan2(x, torch.ones_like(x)),
        lambda x: torch.atan2(torch.ones_like(x), x),
        lambda x: torch.atan2(x, x.flip(0)),
    ]
    for call in calls:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            y = x.to(dtype)
            same(call(y.to("neuron")), call(y))
            same(torch.compile(call, backend="neuron")(y.to("neuron")), call(y))
            torch._dynamo.reset()


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes(name):
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [float("nan"), 5.0, -0.0, 0.0]])
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        y = x.nan_to_num(4.0).to(dtype) if not dtype.is_floating_point else x.to(dtype)
        for dim in (0, 1):
            both(lambda t, dim=dim: list(getattr(t, name)(dim)), y)
            both(lambda t, dim=dim: list(getattr(t.t(), name)(dim)), y)
    both(lambda t: list(getattr(t, name)(0)), torch.tensor(2.0))
    both(lambda t: list(getattr(t, name)(1)), torch.ones(2, 0))


def test_derivatives_of_digamma_left_of_zero():
    x = torch.tensor([-100.25, -20.3, -8.4784, -0.5, 0.3, 5.0])
    for n in range(5):
        got, want = torch.polygamma(n, x.to("neuron")).cpu(), torch.polygamma(n, x.double())
        torch.testing.assert_close(got.double(), want, rtol=2e-3, atol=1e-3)
    poles = torch.polygamma(1, torch.tensor([0.0, -3.0]).to("neuron"))
    assert poles.cpu().tolist() == [float("inf")] * 2
    assert torch.polygamma(0, torch.zeros(1, device="neuron")).item() == -float("inf")


def test_indexing():
    x = torch.arange(20.0).reshape(4, 5)
    index = torch.tensor([2, 0, 2])
    both(lambda a, i: a[i], x, index)
    both(lambda a, i: a.index_select(1, i), x, index)
    both(lambda a, i: a.gather(0, i.view(1, 3)), x, index)
    both(
        lambda a, i: a.index_put_((i,), torch.tensor(1.0, device=a.device), accumulate=True),
        x,
        index,
    )
    same(x.neuron()[index], x[index])  # an index on the host


def test_equal():
    x = torch.arange(4.0, device="neuron")
    assert torch.equal(x, x.clone())
    assert not torch.equal(x, x + 1)
    assert torch.equal(x, x.long()) and not torch.equal(x + 0.5, x.long())


def test_an_empty_range_is_no_rule_for_others():
    for n in (0, 5, 0, 3):
        same(torch.arange(n, device="neuron"), torch.arange(n))


def test_factories():
    same(torch.arange(1, 10, 3, device="neuron"), torch.arange(1, 10, 3))
    same(torch.full((2, 3), 7, device="neuron"), torch.full((2, 3), 7))
    same(torch.eye(3, device="neuron"), torch.eye(3))
    same(torch.linspace(0, 1, 5, device="neuron"), torch.linspace(0, 1, 5))
    same(torch.tril(torch.ones(3, 3, device="neuron")), torch.tril(torch.ones(3, 3)))


def test_conj_and_neg_bits():
    x = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    same(x.neuron().conj().cpu(), x.conj().resolve_conj())
    same((x.neuron().conj() * 2), (x.conj() * 2))
    same(x.neuron().conj().imag.clone(), x.conj().imag.clone())


def test_channels_last():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = both(lambda a: a * 2, x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    both(lambda a: a.contiguous(), x)
