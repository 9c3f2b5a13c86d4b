"""An index out of range never clamps: it raises what the CPU raises, at a synchronizing call."""

import pytest
import torch
import torch.nn.functional as F

from mirror import equal, outcome


class Data:
    def __init__(self, device):
        self.device = device
        self.x = torch.arange(12.0, device=device).reshape(4, 3)
        self.v = torch.arange(4.0, device=device)
        self.logits = torch.linspace(-1, 1, 10, device=device).reshape(2, 5)
        self.ones = torch.ones(3, device=device)

    def i(self, *values):
        return torch.tensor(values, device=self.device)


# Each takes the data and two indices along a dimension of four.
INDEXING = {
    "index_select": lambda t, i: t.x.index_select(0, i),
    "x[i]": lambda t, i: t.x[i],
    "x[:, i]": lambda t, i: t.x[:, i],
    "x[i, j]": lambda t, i: t.x[i, t.i(0, 1)],
    "x[j, i]": lambda t, i: t.x[t.i(0, 1), i],
    "x[None, i]": lambda t, i: t.x[None, i],
    "x[int32]": lambda t, i: t.x[i.int()],
    "x.t()[:, i]": lambda t, i: t.x.t()[:, i],
    "gather": lambda t, i: t.x.gather(0, i[:, None].expand(2, 3)),
    "gather of columns": lambda t, i: t.x.gather(1, i[None, :]),
    "take": lambda t, i: t.x.take(i * 3),
    "embedding": lambda t, i: F.embedding(i, t.x),
    "embedding with padding": lambda t, i: F.embedding(i, t.x, padding_idx=1),
    "index_put": lambda t, i: t.x.clone().index_put_((i,), t.ones),
    "index_put accumulated": lambda t, i: t.x.clone().index_put_((i,), t.ones, accumulate=True),
    "x[i] = 1": lambda t, i: t.x.clone().__setitem__(i, 1.0),
    "x[:, i] = 1": lambda t, i: t.x.clone().__setitem__((slice(None), i), 1.0),
    "scatter": lambda t, i: t.x.clone().scatter_(0, i[:, None].expand(2, 3), t.x[:2]),
    "scatter of a value": lambda t, i: t.x.clone().scatter_(0, i[:, None].expand(2, 3), 1.0),
    "scatter_add": lambda t, i: t.x.clone().scatter_add_(0, i[:, None].expand(2, 3), t.x[:2]),
    "scatter_reduce": lambda t, i: t.x.scatter_reduce(0, i[:, None].expand(2, 3), t.x[:2], "amax"),
    "index_add": lambda t, i: t.x.clone().index_add_(0, i, t.x[:2]),
    "index_copy": lambda t, i: t.x.clone().index_copy_(0, i, t.x[:2]),
    "index_fill": lambda t, i: t.x.clone().index_fill_(0, i, 1.0),
    "put": lambda t, i: t.x.clone().put_(i * 3, t.ones[:2]),
    "cross_entropy": lambda t, i: F.cross_entropy(t.logits, i),
    "nll_loss": lambda t, i: F.nll_loss(t.logits, i),
    "nll_loss of pixels": lambda t, i: F.nll_loss(t.logits.reshape(1, 5, 2, 1), i.reshape(1, 2, 1)),
}


def refusal(call, device, index):
    data = Data(device)
    try:
        result = call(data, data.i(*index))
        if isinstance(result, torch.Tensor):
            result.cpu()
        if device == "neuron":
            torch.neuron.synchronize()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    return None


@pytest.mark.parametrize("index", [(0, 7), (1, -9)], ids=["above", "below"])
@pytest.mark.parametrize("name", INDEXING)
def test_an_index_out_of_range_raises_as_on_the_cpu(name, index, no_fallback):
    cpu = refusal(INDEXING[name], "cpu", index)
    assert cpu is not None
    assert refusal(INDEXING[name], "neuron", index) == cpu
    torch.neuron.synchronize()  # once


@pytest.mark.parametrize("name", ["x[i]", "embedding", "gather", "index_put", "cross_entropy"])
def test_the_same_in_a_graph(name):
    call = INDEXING[name]
    device = Data("neuron")
    compiled = torch.compile(lambda i: call(device, i), backend="neuron")
    good = compiled(device.i(0, 1))
    torch.testing.assert_close(good.cpu(), call(Data("cpu"), torch.tensor([0, 1])))
    expected = refusal(call, "cpu", (0, 7))
    compiled(device.i(0, 7))
    with pytest.raises(Exception) as error:
        torch.neuron.synchronize()
    text = str(error.value)
    assert (type(error.value).__name__, text.split("\n")[0]) == expected
    assert "test_index_errors.py" in text
    torch.neuron.synchronize()
    torch.testing.assert_close(compiled(device.i(0, 1)).cpu(), good.cpu())


DIVISIONS = {
    "floor": lambda a, b: a // b,
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": lambda a, b: a % b,
    "fmod": lambda a, b: torch.fmod(a, b),
    "in place": lambda a, b: a.clone().floor_divide_(b),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_integer_division_by_zero_raises_as_on_the_cpu(name, compiled):
    call = DIVISIONS[name]
    run = torch.compile(call, backend="neuron") if compiled else call
    a, b, zero = torch.tensor([7, -7]), torch.tensor([2, 3]), torch.tensor([2, 0])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        call(a, zero)
    a, zero = a.to("neuron"), zero.to("neuron")
    bad = run(a, zero)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        bad.cpu()
    torch.neuron.synchronize()
    assert run(a, b.to("neuron")).cpu().tolist() == call(a.cpu(), b).tolist()
    assert (a.float() / zero.float()).cpu().tolist() == [3.5, float("-inf")]


NEGATIVE, LARGE = torch.tensor([0.5, -1.0]), torch.tensor([0.5, 2.0])
VALUES = {
    "binary_cross_entropy": lambda d: F.binary_cross_entropy(LARGE.to(d), LARGE.to(d)),
    "binary_cross_entropy of NaN": lambda d: F.binary_cross_entropy(
        LARGE.to(d) * float("nan"), LARGE.to(d)
    ),
    "bernoulli": lambda d: torch.bernoulli(LARGE.to(d)),
    "bernoulli_": lambda d: torch.zeros(2, device=d).bernoulli_(NEGATIVE.to(d)),
    "normal": lambda d: torch.normal(LARGE.to(d), NEGATIVE.to(d)),
    "repeat_interleave": lambda d: torch.repeat_interleave(
        LARGE.to(d), torch.tensor([1, 2]).to(d), output_size=5
    ),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.filterwarnings("ignore")
def test_a_value_out_of_range_raises_as_on_the_cpu(name):
    cpu = outcome(VALUES[name], "cpu")[0]
    assert cpu[0] == "RuntimeError"
    assert outcome(VALUES[name], "neuron")[0] == cpu


@pytest.mark.filterwarnings("ignore")
def test_values_that_fit_are_not_judged_by_zeros():
    def run(d):
        return [
            torch.repeat_interleave(LARGE.to(d), torch.tensor([1, 2]).to(d), output_size=3),
            torch.segment_reduce(LARGE.to(d), "sum", lengths=torch.tensor([2, 0]).to(d)),
        ]

    equal(run("neuron"), run("cpu"))
