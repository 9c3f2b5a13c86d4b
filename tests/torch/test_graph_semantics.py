"""Compiled functions do to their inputs and give as outputs what the same code does on the CPU.

Mutation, aliasing, views, symbolic sizes, numbers of the host, CPU parts, optimizers, random
numbers, memory. The oracle is the uncompiled function on the CPU.
"""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import view_programs
from graph_calls import check, compiled
from mirror import counting, equal

pytestmark = [
    pytest.mark.usefixtures("no_fallback"),
    pytest.mark.filterwarnings("ignore"),
]


# ---- mutation and aliasing -----------------------------------------------------------------------


def many_writes(x):
    x[:, ::2] = 5
    x.diagonal().zero_()
    x.t()[1].mul_(2)
    return x.sum()


def aliased_outputs(x):
    y = x * 2
    return y, y.t(), y[0], y.view(-1), y


def view_before_write(x):
    y = x[1]
    x.add_(1)
    return y, y * 2


MUTATIONS = {
    "in place": lambda x: (x.add_(1), x * 2)[1],
    "a row": lambda x: x[0].add_(1),
    "the transpose": lambda x: x.t().mul_(2),
    "many views": many_writes,
    "returned": lambda x: (x, x.add_(1), x[1], x.t()),
    "aliased outputs": aliased_outputs,
    "a view made before": view_before_write,
    "detached": lambda x: x.detach().add_(1),
    "masked": lambda x: x.masked_fill_(x > 5, 0),
    "as integers": lambda x: x.view(torch.int32).add_(1),
    "out= of a slice": lambda x: torch.neg(x[:, :2].clone(), out=x[:, ::2]),
    "metadata": lambda x: x.unsqueeze_(0),
    "nothing returned": lambda x: (x.add_(1), None)[1],
}
INPUTS = {
    "whole": lambda d: counting(d, 3, 4),
    "rows": lambda d: counting(d, 5, 4)[2:],
    "columns": lambda d: counting(d, 3, 8)[:, ::2],
    "transposed": lambda d: counting(d, 4, 3).t(),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_an_input_is_mutated(name):
    check(MUTATIONS[name], lambda d, i: [INPUTS["whole"](d)])


@pytest.mark.parametrize("of", ["rows", "columns", "transposed"])
def test_a_view_given_as_input_is_mutated(of):
    check(lambda x: (x.add_(1), x.t()[1].mul_(2), x * 2)[2], lambda d, i: [INPUTS[of](d)])


def test_the_version_of_a_mutated_input_moves_once_a_call():
    x, host = counting("neuron", 3), torch.ones(3)
    run = compiled(lambda a, b: (a.add_(1), b.add_(a.cpu()))[0], "neuron")
    for i in range(2):
        run(x, host)
        assert (x._version, host._version) == (i + 1, i + 1)
    assert host.tolist() == [6.0, 8.0, 10.0]


@pytest.mark.parametrize("overlap", ["same", "rows", "transpose", "apart"])
def test_inputs_that_alias_each_other(overlap):
    def run(device):
        def fn(a, b):
            a.mul_(2)
            b.add_(1)
            return a + b

        x = counting(device, 4, 4)
        pair = {
            "same": (x, x),
            "rows": (x[:3], x[1:]),
            "transpose": (x, x.t()),
            "apart": (x[:2], x[2:]),
        }[overlap]
        run = compiled(fn, device)
        return [run(*pair), run(*pair)], x

    equal(run("neuron"), run("cpu"), skip=("version",))


def test_outputs_alias_each_other_and_can_be_written():
    def run(device):
        x = counting(device, 3, 4)
        y, transposed, row, flat, again = compiled(aliased_outputs, device)(x)
        y.add_(1)
        row.mul_(2)
        return x, y, transposed, row, flat, y is again

    equal(run("neuron"), run("cpu"), skip=("version",))


def test_a_data_swap_inside_a_graph():
    check(
        lambda x, y: (setattr(x, "data", y * 2), None)[1],
        lambda d, i: [counting(d, 4), counting(d, 4)],
    )


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.calls = 0

    def forward(self, x):
        self.total.add_(x)
        self.total[0] = 7
        self.calls += 1
        return self.total * 2, self.total


def test_state_of_a_module():
    def run(device):
        module = Counter().to(device)
        call = compiled(module, device)
        out = [call(counting(device, 3))[0] for _ in range(3)]
        return out, module.total, module.calls

    equal(run("neuron"), run("cpu"), skip=("version",))


@pytest.mark.parametrize("seed", range(8))
def test_a_random_function_over_views(seed):
    """Inputs written through views, views of what was written, everything returned."""
    fn = view_programs.Function(seed)

    def run(device):
        inputs = fn.inputs(device)
        return compiled(lambda *x: fn(*x), device)(*inputs), inputs

    equal(run("neuron"), run("cpu"), skip=("version",))


# ---- sizes and numbers ---------------------------------------------------------------------------


def sizes(*fixed):
    return lambda d, i: [counting(d, 2 + i, *fixed)]


DYNAMIC = {
    "elementwise": (lambda x: (x * 2, x.sum(0), x.reshape(-1), x[1:], x.shape[0]), sizes(3)),
    "written": (lambda x: x[1:].add_(x.shape[0]), sizes(3)),
    "range": (lambda x: x + torch.arange(x.shape[0], device=x.device), sizes()),
    "returned view": (lambda x: (x.t(), x * 1), sizes(3)),
    "padded": (lambda x: F.pad(x, (0, 8 - x.shape[0])), sizes()),
    "expanded": (lambda x: x.unsqueeze(1).expand(-1, x.shape[0]).contiguous() + x, sizes()),
    "arithmetic": (
        lambda x: x.view(x.shape[0] // 2, 2, -1).sum(1) * (x.shape[0] - 1) / x.shape[1],
        lambda d, i: [counting(d, 2 * (2 + i), 3)],
    ),
    "from one to none": (lambda x: x * 2, lambda d, i: [counting(d, (3, 1, 0)[i])]),
    "an integer": (
        lambda x, n: (x[:n], x[n:].add_(n), x.roll(n)),
        lambda d, i: [counting(d, 6), 2 + i],
    ),
    "an integer as size": (lambda x, n: x.new_zeros(n) + n, lambda d, i: [counting(d, 3), 2 + i]),
    "an integer as index": (lambda x, n: x[n] * 2, lambda d, i: [counting(d, 6), 2 + i]),
    "a float": (lambda x, s: (x * s) ** (s / 2) + s, lambda d, i: [counting(d, 3), 2.5 + i]),
    "a bool": (lambda x, b: x if b else x * 2, lambda d, i: [counting(d, 3), i == 1]),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_and_numbers_change_between_calls(name):
    check(*DYNAMIC[name], count=3)


def test_a_size_marked_as_dynamic():
    def run(device):
        call, out = compiled(lambda x: x.softmax(-1) * x.shape[0], device), []
        for n in (3, 4, 5):
            x = counting(device, n, 4)
            torch._dynamo.mark_dynamic(x, 0)
            out.append(call(x))
        return out

    equal(run("neuron"), run("cpu"), skip=("version",))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_zero_dim_tensors_of_the_host(dtype):
    check(
        lambda x, s: (x * s + s, s.clone(), s),
        lambda d, i: [counting(d, 3), torch.tensor(2 * i).to(dtype)],
    )


# ---- parts on the CPU and constants --------------------------------------------------------------

TABLE = torch.tensor([1.0, 2.0, 3.0])
HOST_PARTS = {
    "a sum": lambda x: x + torch.arange(3.0).mul(2).sum(),
    "moved in": lambda x: x + torch.arange(3.0).mul(2).to(x.device),
    "there and back": lambda x: ((x * 2).cpu() + 1).to(x.device) * x,
    "copied in": lambda x: (x * 2).copy_(torch.arange(3)) + x.copy_(torch.ones(1)),
    "copied out": lambda x: torch.zeros(3, dtype=torch.int32).copy_(x * 2),
    "a host result": lambda x: (x * 2, torch.ones(2) + 1, (x * 2).cpu() + 1),
    "a constant": lambda x: x * torch.tensor([1.0, 2.0, 3.0], device=x.device) + torch.tensor(4.0),
    "a global": lambda x: x * TABLE.to(x.device),
    "an index": lambda x: x[torch.tensor([0, 2, 2], device=x.device)],
}


@pytest.mark.parametrize("name", HOST_PARTS)
def test_parts_on_the_cpu(name):
    check(HOST_PARTS[name], lambda d, i: [counting(d, 3)])


# ---- gradients -----------------------------------------------------------------------------------


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * ctx.k, None


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


def written_views(x):
    y = x * 1
    y[0].add_(2)
    y.t()[1].mul_(3)
    y[:, ::2] = y[:, 1::2].clone()
    return y


def checkpointed_attention(x):
    def block(x):
        q = (x * 2).view(1, 2, 4, 2)
        return F.scaled_dot_product_attention(q, q.sin(), q.cos(), is_causal=True)

    return checkpoint(block, x.tanh(), use_reentrant=False)


GRADIENTS = {
    "checkpointed attention": checkpointed_attention,
    "a function": lambda x: Cube.apply(x, 3).sin(),
    "a function that writes": lambda x: Doubled.apply(x * 1),
    "views": lambda x: (x.t() * 2, (x * 3)[1]),
    "written views": written_views,
    "expanded": lambda x: x[0].expand(4, 4) * x,
    "as_strided": lambda x: (x * 1).as_strided((3, 2), (1, 1)),
    "detached": lambda x: x * x.detach(),
    "unbound": lambda x: tuple(t * k for k, t in enumerate(x.unbind(0))),
    "complex": lambda x: torch.view_as_real(torch.view_as_complex(x.view(2, 4, 2)) * (1 + 2j)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    def run(device):
        x = counting(device, 4, 4).requires_grad_()
        result = compiled(GRADIENTS[name], device)(x)
        result = result if isinstance(result, tuple) else (result,)
        sum((t * t).sum() for t in result).backward()
        return [t.detach() for t in result], x.grad

    equal(run("neuron"), run("cpu"), skip=("version",))


CONVOLUTIONS = {
    "1d": (F.conv1d, (2, 3, 5), (4, 3, 2)),
    "2d": (F.conv2d, (2, 3, 5, 4), (4, 3, 2, 2)),
    "2d, transposed": (F.conv_transpose2d, (2, 3, 5, 4), (3, 4, 2, 2)),
    "3d": (F.conv3d, (2, 3, 4, 3, 3), (4, 3, 2, 2, 2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("last", ["input", "weight", "both", "none"])
def test_strides_of_a_convolution(name, last):
    fn, *sizes = CONVOLUTIONS[name]

    def run(device):
        x, weight = (
            counting(device, *size).movedim(1, -1).contiguous().movedim(-1, 1)
            if last in (which, "both")
            else counting(device, *size)
            for which, size in zip(("input", "weight"), sizes, strict=True)
        )
        x.div_(64).requires_grad_()
        weight.div_(64).requires_grad_()
        y = compiled(fn, device)(x, weight)
        (y * y).sum().backward()
        return y.detach(), x.grad, weight.grad

    equal(run("neuron"), run("cpu"), skip=("version",))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("compile_it", [False, True])
def test_multilabel_margin_loss_ends_at_the_first_minus_one(reduction, compile_it):
    """torch's own rule counts the padding as class 0."""

    def run(device, target):
        x = counting(device, *target.shape).cos().requires_grad_()

        def loss(x, y):
            return F.multilabel_margin_loss(x, y, reduction=reduction)

        result = (compiled(loss, device) if compile_it else loss)(x, target.to(device))
        (result * result).sum().backward()
        return result.detach(), x.grad

    rows = torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0], [-1, 2, 2, 2], [0, 1, 2, 3]])
    for target in (rows, rows[0]):
        equal(run("neuron", target), run("cpu", target), skip=("version",))


OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "AdamW, foreach": (torch.optim.AdamW, {"lr": 0.1, "foreach": True}),
    "AdamW, fused": (torch.optim.AdamW, {"lr": 0.1, "fused": True}),
    "Adam, lr a tensor": (torch.optim.Adam, {"lr": torch.tensor(0.1), "foreach": False}),
    "RMSprop": (torch.optim.RMSprop, {"lr": 0.1}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_compiled_optimizer_step(name):
    make, options = OPTIMIZERS[name]

    def run(device):
        parameters = [(counting(device, *s) / 10).requires_grad_() for s in ((3, 2), (4,))]
        optimizer = make(parameters, **options)
        step = compiled(optimizer.step, device)
        for i in range(3):
            for p in parameters:
                p.grad = p.detach() * 0.1 + i
            step()
        return [p.detach() for p in parameters], [
            [v for v in optimizer.state[p].values() if v is not None and v.dim()]
            for p in parameters
        ]

    equal(run("neuron"), run("cpu"), skip=("version",))


# ---- random numbers and memory -------------------------------------------------------------------


def test_random_ops_are_repeated_in_backward():
    def block(x):
        return F.dropout(x, 0.5, True) * torch.rand_like(x)

    def fn(x):
        once = checkpoint(block, x, use_reentrant=False)
        return checkpoint(block, once, use_reentrant=False)

    x = torch.ones(64, device="neuron", requires_grad=True)
    run = compiled(fn, "neuron")
    for _ in range(2):
        y = run(x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        # y is x times what was drawn, and so is the gradient.
        torch.testing.assert_close(grad.cpu(), y.detach().cpu())
        assert 0 < (y == 0).sum().item() < 64


def test_random_ops_follow_the_seed():
    run = compiled(lambda x: (torch.rand_like(x), torch.bernoulli(x * 0.5)), "neuron")
    x = torch.ones(32, device="neuron")
    torch.manual_seed(5)
    first, second = run(x), run(x)
    torch.manual_seed(5)
    again = run(x)
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first[0], second[0])


def test_saved_tensors_are_freed_by_backward():
    mib = 1 << 20
    weights = [torch.eye(256, device="neuron").requires_grad_() for _ in range(3)]

    def fn(x, weights):
        for w in weights:
            x = torch.tanh(x @ w)
        return x.sum()

    run = compiled(fn, "neuron")
    x = torch.ones(1024, 256, device="neuron")  # 1 MiB
    run(x, weights).backward()
    for w in weights:
        w.grad = None
    idle = torch.neuron.memory_allocated()
    loss = run(x, weights)
    saved = torch.neuron.memory_allocated() - idle
    assert saved >= 2 * mib, "the intermediate results are kept for backward"
    torch.neuron.reset_peak_memory_stats()
    loss.backward()
    grads = sum(w.grad.nbytes for w in weights)
    # Saved tensors and gradients together, and not once more for temporaries of the host's.
    assert torch.neuron.max_memory_allocated() - idle <= saved + grads + 4096
    assert torch.neuron.memory_allocated() - idle <= grads + 4096
