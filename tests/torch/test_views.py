"""Writing and reading through views equals the CPU, in every dtype, down to strides and words."""

import copy
import tempfile

import pytest
import torch

from mirror import counting, equal, same_on_both
from view_programs import DTYPES


def base(dtype, device):
    """4 x 6 small numbers, some of them negative, zero and one."""
    x = torch.arange(24) % 7 - 2
    x = x > 0 if dtype is torch.bool else x.abs() if dtype is torch.uint8 else x
    x = x.to(dtype)
    x = x * (1 + 0.5j) if dtype.is_complex else x
    return x.reshape(4, 6).to(device).clone()


def index(device, *numbers):
    return torch.tensor(numbers, device=device)


WRITES = {
    "a row": lambda b, d: b[0].logical_not_(),
    "the transpose": lambda b, d: b.t().mul_(2),
    "every other column": lambda b, d: b.__setitem__((slice(None), slice(None, None, 2)), 1),
    "a diagonal": lambda b, d: b.diagonal(1).zero_(),
    "windows": lambda b, d: b.unfold(1, 2, 2).mul_(2),
    "as_strided": lambda b, d: b.as_strided((3, 2), (7, 2), 1).fill_(1),
    "chunks": lambda b, d: [c.fill_(i) for i, c in enumerate(b.chunk(3, 1))],
    "unbound columns": lambda b, d: [c.fill_(i % 2) for i, c in enumerate(b.unbind(1))],
    "a masked narrow row": lambda b, d: (
        b.narrow(1, 2, 3).select(0, 1).masked_fill_(b[1, 2:5] == 1, 0)
    ),
    "rows of the transpose by index": lambda b, d: b.t()[1:3].index_fill_(1, index(d, 0, 2), 1),
    "elements by index": lambda b, d: b.t().index_put_(
        (index(d, 0, 1), index(d, 2, 3)), torch.ones(2, dtype=b.dtype, device=d)
    ),
    "scattered": lambda b, d: b[:, 1:].scatter_(1, index(d, 0, 1, 2, 3).reshape(4, 1), 1),
    "its own row": lambda b, d: b[1:2].copy_(b[2:3]),
    "the detached": lambda b, d: b.detach()[2].fill_(1),
    "an element of itself": lambda b, d: b.fill_(b[0, 1]),
    "in another shape": lambda b, d: b.view(2, 2, 6)[:, 1].fill_(1),
    "twice the same rows": lambda b, d: b.index_add_(0, index(d, 0, 0), b[:2].clone()),
    "an expanded row": lambda b, d: b[0].expand(3, 6).add_(1),
    "overlapping windows": lambda b, d: b.as_strided((5, 4), (3, 1)).fill_(1),
    "a float into it": lambda b, d: b.add_(1.5),
    "float32 into it": lambda b, d: b.add_(torch.ones(6, device=d)),
    "a number of the host": lambda b, d: b.mul_(torch.tensor(2.5)),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_writes_through_views(dtype):
    for write in WRITES.values():

        def run(device, write=write):
            b = base(dtype, device)
            return write(b, device), b

        same_on_both(run)


def test_lerp_of_complex_numbers():
    for weight in (0.25, 0.75):
        same_on_both(
            lambda d, w=weight: base(torch.complex64, d).lerp_(base(torch.complex64, d), w)
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_of_copies(dtype):
    def run(device):
        b = base(dtype, device)
        row = b[1:2]  # (its first stride is of the base, as are those of what is made of it)
        return (
            [t.clone() for t in (b.t(), b[:, ::2], b[0].expand(3, 6), row, row[:, :1])],
            [t.contiguous() for t in (b.t(), b[:, ::2], row)],
            torch.zeros_like(b.t()),
            b.t() == b.t(),
            b.reshape(2, 3, 4).permute(2, 0, 1).logical_not(),
        )

    same_on_both(run)


def test_strides_of_one_element_do_not_leak_into_others():
    def run(device):
        one = torch.zeros(1, device=device)
        return [t.clone() for t in (one.expand(3)[:1], one, torch.zeros(4, device=device)[::4])]

    same_on_both(run)


RESIZED = {
    "a vector": (lambda d: counting(d, 5), (3,)),
    "a matrix": (lambda d: counting(d, 2, 3), (3,)),
    "one without elements": (lambda d: counting(d, 2, 3), (0,)),
}


@pytest.mark.parametrize("name", RESIZED)
def test_a_resized_out_warns_each_time(name):
    make, sizes = RESIZED[name]
    for _ in range(2):  # the second call takes the path of a known key
        same_on_both(lambda d: torch.mul(make(d), 2, out=torch.zeros(sizes, device=d)))


def test_casting_complex_to_real_warns_once_whatever_is_cached(run_python):
    program = """
import torch, warnings
warnings.simplefilter("always")
z = torch.ones(3, dtype=torch.complex64, device="neuron")
with warnings.catch_warnings(record=True) as caught:
    z.to(torch.float32), torch.zeros(3, device="neuron").copy_(z), z.to("cpu", torch.float32)
    torch.ones(2, dtype=torch.complex64).to(torch.float32)
assert [str(w.message).split(" (")[0] for w in caught] == [
    "Casting complex values to real discards the imaginary part"], caught
"""
    address = tempfile.mkdtemp() + "/neurond.sock"
    for _ in range(2):  # the second process finds every program
        run_python(program, NEURON_RT_ADDRESS=address)


ERRORS = {
    "copy of more dimensions": lambda d: counting(d, 3).copy_(counting(d, 2, 3)),
    "copy of another size": lambda d: counting(d, 3).copy_(counting(d, 4)),
    "copy from itself": lambda d: (lambda x: x.copy_(x[0]))(counting(d, 3, 4)),
    "copy from itself, float64": lambda d: (lambda x: x.copy_(x[0]))(
        counting(d, 3, 4, dtype=torch.float64)
    ),
    "partial overlap": lambda d: (lambda x: torch.add(x[:3], 1, out=x[1:]))(counting(d, 4)),
    "cat into an input": lambda d: (lambda x: torch.cat([x[:2], x[2:]], 0, out=x))(counting(d, 4)),
    "out= of integers": lambda d: torch.add(
        counting(d, 3), 1.5, out=torch.zeros(3, dtype=torch.int32, device=d)
    ),
    "out= of reals": lambda d: torch.add(
        counting(d, 3, dtype=torch.complex64), 1, out=torch.zeros(3, device=d)
    ),
    "expanded out=": lambda d: torch.add(counting(d, 3), 1, out=counting(d, 1).expand(3)),
    "broadcast in place": lambda d: counting(d, 3).add_(counting(d, 2, 3)),
    "integers divided in place": lambda d: counting(d, 3, dtype=torch.int32).div_(2),
    "a leaf": lambda d: counting(d, 3).requires_grad_().add_(1),
    "a view of a leaf": lambda d: counting(d, 3).requires_grad_()[0].add_(1),
    "one of several views": lambda d: (counting(d, 4).requires_grad_() * 1).split(2)[0].mul_(2),
    "a saved tensor": lambda d: (lambda y: (y.add_(1), y.sum().backward()))(
        counting(d, 3).requires_grad_().exp()
    ),
    "strides outside": lambda d: counting(d, 4).as_strided((3, 3), (2, 1), 0),
    "view across rows": lambda d: counting(d, 2, 4).t().view(torch.int64),
    "resize of what has a gradient": lambda d: counting(d, 4).requires_grad_().resize_(2),
    "resize to no format": lambda d: counting(d, 2, 3).resize_(
        3, 2, memory_format=torch.preserve_format
    ),
    "storage of another dtype": lambda d: counting(d, 4).set_(counting(d, 4, dtype=torch.int32)),
    "negative storage offset": lambda d: counting(d, 4).set_(
        counting(d, 4).untyped_storage(), -1, (2,), (1,)
    ),
    "maximum of nothing": lambda d: counting(d, 0).max(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_have_the_cpus_words(name):
    same_on_both(ERRORS[name])


@pytest.mark.parametrize("name", ["index_fill_", "masked_fill_", "index_put_"])
@pytest.mark.filterwarnings("ignore")
def test_a_write_through_an_expanded_tensor_is_refused_if_not_the_cpus(name):
    """The CPU warns and writes each alias in turn; a wrong number would be worse than an error."""
    x = torch.zeros(1, device="neuron").expand(3)
    writes = {
        "index_fill_": lambda: x.index_fill_(0, index("neuron", 1), 1),
        "masked_fill_": lambda: x.masked_fill_(index("neuron", 0, 1, 0) == 1, 1),
        "index_put_": lambda: x.index_put_((index("neuron", 1),), torch.ones(1, device="neuron")),
    }
    for _ in range(2):
        with pytest.raises(RuntimeError, match="single memory location"):
            writes[name]()


@pytest.mark.parametrize("size", [3, 5_000_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_one_value_fills_an_expanded_tensor(size, dtype):
    def fill(device):
        made = []
        for write in (
            lambda x: x.zero_(),
            lambda x: x.fill_(2),
            lambda x: torch.full(x.shape, 2, dtype=dtype, out=x),
            lambda x: x[1:].zero_(),
        ):
            base = torch.ones(3, 1, dtype=dtype, device=device)
            write(base.expand(3, size))
            made.append(base)
        return made

    equal(fill("neuron"), fill("cpu"))


def lists(d):
    return [counting(d, 2, 2), counting(d, 3)], [counting(d, 2, 2), counting(d, 3)]


LIST_WRITES = {
    "add a number": lambda a, b: torch._foreach_add_(a, 1.0),
    "add a list": lambda a, b: torch._foreach_add_(a, b, alpha=2),
    "copy": lambda a, b: torch._foreach_copy_(a, b),
    "zero": lambda a, b: torch._foreach_zero_(a),
    "lerp": lambda a, b: torch._foreach_lerp_(a, b, 0.5),
    "of views": lambda a, b: torch._foreach_mul_([a[0][0], a[0][1]], [2.0, 3.0]),
    "not in place": lambda a, b: torch._foreach_add(a, b),
}


@pytest.mark.parametrize("name", LIST_WRITES)
def test_lists_that_are_written_count_versions(name):
    def run(device):
        a, b = lists(device)
        return LIST_WRITES[name](a, b), a, b

    same_on_both(run)


@pytest.mark.parametrize("foreach", [True, False])
def test_a_step_before_backward_is_noticed(foreach):
    def run(device):
        w = counting(device, 3).requires_grad_()
        optimizer = torch.optim.SGD([w], lr=0.1, foreach=foreach)
        loss = (w * w).sum()
        w.grad = torch.ones_like(w)
        optimizer.step()
        loss.backward()  # w was saved, and is another now

    same_on_both(run)


def test_shifts_in_place(no_fallback):
    def run(device):
        x = counting(device, 6, dtype=torch.int8)
        x <<= 1
        x >>= counting(device, 6, dtype=torch.int8) % 2
        x &= 7
        return x

    same_on_both(run)


def data_swap(d):
    x, y = counting(d, 4), counting(d, 6)
    old = x[1:]
    x.data = y
    x.add_(1)
    return x, y, old


def set_tensor(d):
    x, y = counting(d, 4), counting(d, 6)
    old = x[1:]
    x.set_(y[2:])
    x.add_(1)
    return x, y, old


def set_storage(d):
    x, y = counting(d, 4), counting(d, 6)
    x.set_(y.untyped_storage(), 1, (2, 2), (1, 2))
    x.add_(1)
    return x, y


def storage_writes(d):
    x, y = counting(d, 4), counting(d, 4) * 2
    x.untyped_storage().copy_(y.untyped_storage())
    z = counting(d, 4)
    z.untyped_storage().fill_(0)
    return x, z, x.untyped_storage().tolist()


def storage_resized(d):
    x = counting(d, 4)
    storage = x.untyped_storage()
    storage.resize_(0)
    sizes = [storage.nbytes()]
    storage.resize_(16)
    return sizes, x.fill_(3)


def copies(d):
    x = counting(d, 4)
    shallow, deep = copy.copy(x), copy.deepcopy(x[1:])
    shallow.add_(1)
    return x, shallow, deep


def gradients_through_views(d):
    x = counting(d, 4, 4).requires_grad_()
    y = x.clone()
    y.t()[1].mul_(3)
    y[::2] = 1
    y.diagonal().add_(2)
    y.sum().backward()
    return x.grad, y.detach()


@pytest.mark.parametrize(
    "fn",
    [
        data_swap,
        set_tensor,
        set_storage,
        storage_writes,
        storage_resized,
        copies,
        gradients_through_views,
        lambda d: counting(d, 4).set_(),
        lambda d: counting(d, 2, 3, 4, 5).resize_(1, 3, 2, 2, memory_format=torch.channels_last),
        lambda d: counting(d, 12).resize_as_(counting(d, 4, 3)),
    ],
)
def test_storages_change_hands(fn):
    same_on_both(fn)


def reinterpreted(x, *views):
    """Writes through each view of x, and x itself after that."""
    return [view(x) for view in views], x


@pytest.mark.parametrize(
    "fn",
    [
        lambda d: reinterpreted(counting(d, 4), lambda x: x.view(torch.int32).add_(1)),
        lambda d: reinterpreted(counting(d, 2, 4), lambda x: x.view(torch.uint8)[:, ::4].add_(1)),
        lambda d: reinterpreted(counting(d, 2, 4), lambda x: x.view(torch.int64).add_(1)),
        lambda d: reinterpreted(
            counting(d, 4, dtype=torch.float64), lambda x: x.view(torch.int64).add_(1)
        ),
        lambda d: reinterpreted(
            counting(d, 4, dtype=torch.bfloat16), lambda x: x.view(torch.int16).bitwise_xor_(-32768)
        ),
        lambda d: reinterpreted(
            counting(d, 4, dtype=torch.bool), lambda x: x.view(torch.uint8).mul_(1)
        ),
        lambda d: reinterpreted(
            counting(d, 4, dtype=torch.complex64),
            lambda x: x.view(torch.float32)[::2].mul_(3),
            lambda x: torch.view_as_real(x)[:, 1].add_(1),
            lambda x: x.real.add_(1),
            lambda x: x.conj().imag.sub_(2),
            lambda x: x.conj().mul_(1j),
            lambda x: x.conj().copy_(x * 1j),
        ),
        lambda d: reinterpreted(counting(d, 4, 2), lambda x: torch.view_as_complex(x).mul_(1j)),
        lambda d: reinterpreted(counting(d, 4), lambda x: torch._neg_view(x).add_(1)),
    ],
)
def test_reinterpreted_bytes(fn):
    same_on_both(fn)


def words(tensor):
    """The bits of doubles."""
    host = tensor.cpu().resolve_conj().resolve_neg()
    host = torch.view_as_real(host) if host.is_complex() else host
    return host.contiguous().view(torch.int64)


MOVES = {
    "clone": lambda x, d: x.clone(),
    "transpose": lambda x, d: x.t().clone(),
    "slice": lambda x, d: x[:, ::2].contiguous(),
    "expand": lambda x, d: x[0].expand(3, 4).clone(),
    "as_strided": lambda x, d: x.as_strided((3, 3), (2, 1), 1).clone(),
    "into a slice": lambda x, d: x.__setitem__((slice(None), 0), x[0, :3].clone()) or x,
    "broadcast into it": lambda x, d: x.copy_(x[0].clone()),
    "conj": lambda x, d: x.conj().clone(),
    "conj, resolved": lambda x, d: x.conj().resolve_conj(),
    "conj, copied": lambda x, d: torch.zeros_like(x).copy_(x.conj()),
    "into a conj": lambda x, d: torch.zeros_like(x).conj().copy_(x),
    "conj of a slice": lambda x, d: x.conj()[:, ::2].t().clone(),
    "neg": lambda x, d: torch._neg_view(x).clone(),
    "neg, resolved": lambda x, d: torch._neg_view(x)[1:].resolve_neg(),
    "into a neg": lambda x, d: torch._neg_view(torch.zeros_like(x)).copy_(x),
    "neg of conj": lambda x, d: torch._neg_view(x.conj()).clone(),
    "imaginary of conj": lambda x, d: x.conj().imag.clone() if x.is_complex() else x,
    "to the host": lambda x, d: x.conj().t().cpu(),
    "to another device": lambda x, d: x.t().to(d if d == "cpu" else "neuron:1"),
    "channels_last": lambda x, d: x.reshape(1, 3, 2, 2).contiguous(
        memory_format=torch.channels_last
    ),
    "a new storage": lambda x, d: x.set_(x.untyped_storage().clone(), 0, (3, 4)),
    "an element": lambda x, d: torch.tensor(x[0, 1].item(), dtype=x.dtype),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", MOVES)
def test_doubles_keep_every_bit_when_they_are_copied(name, dtype):
    def run(device):
        x = torch.arange(1, 13, dtype=torch.float64).reshape(3, 4) + 1e-13
        x = (x * (1 + 1j / 3) if dtype.is_complex else x).to(device)
        return words(MOVES[name](x, device))

    assert torch.equal(run("neuron"), run("cpu"))


def last(d, dtype=torch.float32):
    return counting(d, 2, 3, 4, 5, dtype=dtype).to(memory_format=torch.channels_last)


FORMATS = [
    lambda d: torch.relu_(last(d).sub_(5)),
    lambda d: last(d) + counting(d, 2, 3, 4, 5),
    lambda d: counting(d, 2, 3, 4, 5) + last(d),
    lambda d: last(d) + counting(d, 3, 1, 1),
    lambda d: last(d).sum(1, keepdim=True),
    lambda d: torch.cat([last(d), last(d)], 1),
    lambda d: (last(d).clone(), torch.zeros_like(last(d)), last(d).contiguous()),
    lambda d: last(d).to(torch.float16),
    lambda d: last(d)[:, 1:] * 2,
    lambda d: torch.nn.functional.max_pool2d(last(d), 2),
    lambda d: torch.nn.functional.interpolate(last(d), scale_factor=2),
    lambda d: torch.nn.functional.conv2d(last(d), counting(d, 2, 3, 3, 3), counting(d, 2)),
    lambda d: torch.nn.functional.group_norm(last(d), 3),
    lambda d: (last(d).softmax(1), last(d).flip(1), last(d).cumsum(1), last(d).clamp(0, 3)),
    lambda d: torch.where(last(d) > 3, last(d), 0.0),
    lambda d: last(d)[:, index(d, 0, 2)],
    lambda d: last(d).permute(0, 2, 3, 1) * 2,
    lambda d: last(d).view(2, -1),
    lambda d: counting(d, 2, 3, 2, 2, 2).to(memory_format=torch.channels_last_3d) * 2,
    lambda d: counting(d, 4, 6)[:, ::2].t() * 2,
    lambda d: counting(d, 2, 3, 4).permute(2, 0, 1) + counting(d, 4, 3, 2).permute(0, 2, 1),
]


@pytest.mark.parametrize("fn", FORMATS)
def test_memory_formats(fn):
    same_on_both(fn)


SMALL = [
    lambda d: counting(d, 0, 3).add_(1).t().reshape(-1),
    lambda d: counting(d, 3).index_put_((index(d).long(),), torch.tensor(1.0, device=d)),
    lambda d: torch.cat([torch.empty(0, device=d), counting(d, 2, 2)]),
    lambda d: (counting(d, 0, 3).sum(0), counting(d, 0, 3).mean()),
    lambda d: counting(d, 0, 3).resize_(2).fill_(1),
    lambda d: torch.add(counting(d, 0, 3), 1, out=counting(d, 0, 3)),
    lambda d: counting(d, 3)[1].add_(5),
    lambda d: torch.tensor(2.0, device=d).expand(3) * 1,
    lambda d: counting(d, 3)[torch.tensor(1, device=d)],
    lambda d: counting(d, 3).__setitem__(torch.tensor(1, device=d), torch.tensor(7, device=d)),
    lambda d: torch.sum(counting(d, 3), 0, out=torch.zeros((), device=d)),
    lambda d: (torch.tensor(3.0, device=d).min(0), torch.tensor(3.0, device=d).sort()),
]


@pytest.mark.parametrize("fn", SMALL)
def test_no_elements_and_no_dimensions(fn):
    same_on_both(fn)
