"""Random ops as pure ops over one reservation of the generator's offsets.

A program that draws random numbers reads (seed, offset) once: `neuron.rng_state(n) -> i64[2]`.
Every random ATen op is rewritten, by rules of the decomposition table, to `neuron.rand`,
`neuron.randn` or `neuron.random_bits` of that state and a `delta`, its place in the
reservation, which counts Philox counter steps of two u64 words. An element takes one step, so
that every algorithm has bits enough and no two draws overlap.

The rules run while AOTAutograd traces the joint graph, before it is partitioned, so that a
recomputed dropout repeats its mask by construction: state and deltas are the same, whichever
graph evaluates them.
"""

import math
import threading
import weakref

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from . import device, layout

aten = torch.ops.aten
prims = torch.ops.prims

_DRAWS = ("neuron.rand.default", "neuron.randn.default", "neuron.random_bits.default")

_lib = torch.library.Library("neuron", "FRAGMENT")
_lib.define("rng_state(SymInt n) -> Tensor")
for _name in ("rand", "randn", "random_bits"):
    _lib.define(f"{_name}(Tensor state, SymInt delta, SymInt[] size, ScalarType dtype) -> Tensor")


@torch.library.register_fake("neuron::rng_state", lib=_lib)
def _(n):
    return aten.empty.memory_format([2], dtype=torch.int64, device=device.DEVICE)


def _fake_draw(state, delta, size, dtype):
    return aten.empty.memory_format(size, dtype=dtype, device=state.device)


for _name in ("rand", "randn", "random_bits"):
    torch.library.register_fake(f"neuron::{_name}", _fake_draw, lib=_lib)


class RngStream:
    """The reservation of one trace: the state value and the next free step."""

    def __init__(self):
        self.state = None
        self.used = 0

    def draw(self, op, size, dtype):
        if self.state is None:
            self.state = torch.ops.neuron.rng_state.default(0)
        delta = self.used
        self.used = delta + math.prod(size)
        return op(self.state, delta, list(size), dtype)


_local = threading.local()
_by_tracer = weakref.WeakKeyDictionary()


class use_stream:
    """Random rules inside draw from `stream` (the recorder's traces)."""

    def __init__(self, stream: RngStream):
        self.stream = stream

    def __enter__(self):
        self.before = getattr(_local, "stream", None)
        _local.stream = self.stream

    def __exit__(self, *exc):
        _local.stream = self.before


def _stream() -> RngStream:
    mode = get_proxy_mode()
    if mode is not None:  # AOTAutograd traces a graph: one reservation per graph
        return _by_tracer.setdefault(mode.tracer, RngStream())
    stream = getattr(_local, "stream", None)
    return stream if stream is not None else RngStream()


def finish_graph(graph: torch.fx.Graph) -> None:
    """After tracing, before partitioning: notes how far the offset moves, and that the state is
    saved, not recomputed.
    """
    from torch.utils.checkpoint import CheckpointPolicy

    draws = [n for n in graph.nodes if is_draw(n)]
    for node in graph.nodes:
        if is_state(node):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
            node.meta["ac_graph_id"] = 0
            node.meta["neuron_steps"] = sum(math.prod(n.meta["val"].shape) for n in draws)


def is_state(node) -> bool:
    return node.op == "call_function" and node.target is torch.ops.neuron.rng_state.default


def is_draw(node) -> bool:
    return node.op == "call_function" and str(node.target) in _DRAWS


# ---- the rules ----------------------------------------------------------------------------------


def _uniform(size, dtype):
    return _stream().draw(torch.ops.neuron.rand.default, size, dtype)


def _normal(size, dtype):
    if dtype.is_complex:
        real = torch.float32 if dtype == torch.complex64 else torch.float64
        parts = [aten.mul.Tensor(_normal(size, real), math.sqrt(0.5)) for _ in range(2)]
        return aten.complex.default(*parts)
    return _stream().draw(torch.ops.neuron.randn.default, size, dtype)


def _bits(size):
    return _stream().draw(torch.ops.neuron.random_bits.default, size, torch.int64)


def _coin_dtype(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def _float_dtype(dtype):
    return torch.get_default_dtype() if dtype is None else dtype


def _cast(x, dtype):
    return x if x.dtype == dtype else prims.convert_element_type.default(x, dtype)


def _integers(size, low, high, dtype):
    """Uniform over [low, high): 63 random bits modulo the range (bias below 2**-32 for ranges
    below 2**31).
    """
    if high - low >= 2**63:
        return _cast(_wide_integers(_bits(size), low, high), dtype)
    bits = aten.remainder.Scalar(aten.bitwise_and.Scalar(_bits(size), 2**63 - 1), high - low)
    if not isinstance(low, int) or low != 0:
        bits = aten.add.Tensor(bits, low)
    return _cast(bits, dtype)


def _wide_integers(bits, low, high):
    """64 random bits modulo a range of at least half of them: what does not fit in it goes to its
    lower end. `bits` stand for themselves plus 2**63; sums wrap.
    """
    inside = aten.lt.Scalar(bits, high - low - 2**63) if high - low < 2**64 else None
    drawn = aten.add.Tensor(bits, _wrapped(low + 2**63))
    if inside is None:
        return drawn
    return aten.where.self(inside, drawn, aten.add.Tensor(bits, _wrapped(2 * low - high + 2**63)))


def _wrapped(number) -> int:
    """As a signed 64-bit integer."""
    return (number + 2**63) % 2**64 - 2**63


def _int_limit(dtype):
    """The exclusive upper end of random_() without a range, as on the CPU."""
    if dtype == torch.bool:
        return 2
    if dtype.is_floating_point:
        return (
            2 ** {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}[dtype]
            + 1
        )
    return min(torch.iinfo(dtype).max + 1, 2**63)


def _require(ok, message):
    """A check of values, where there is a program to hold it: compiled graphs have none on the
    CPU either.
    """
    if get_proxy_mode() is None:
        aten._assert_async.msg(aten.all.default(ok), message)


def _flip_coins(size, p, dtype):
    coin = _coin_dtype(p.dtype if isinstance(p, torch.Tensor) else torch.float32)
    u = _uniform(size, coin)
    if not isinstance(p, torch.Tensor):
        return _cast(aten.lt.Scalar(u, p), dtype)
    inside = aten.logical_and.default(aten.ge.Scalar(p, 0), aten.le.Scalar(p, 1))
    _require(
        inside,
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message "
        "be improved?  If so, please report an enhancement request to PyTorch.)",
    )
    return _cast(aten.lt.Tensor(u, p), dtype)


def _dropout(x, p, train):
    if train is False or p == 0:
        return aten.clone.default(x), aten.full.default(
            x.shape, True, dtype=torch.bool, device=x.device
        )
    if p == 1:
        zeros = aten.full.default(x.shape, 0, dtype=x.dtype, device=x.device)
        return zeros, aten.full.default(x.shape, False, dtype=torch.bool, device=x.device)
    mask = aten.lt.Scalar(_uniform(x.shape, torch.float32), 1 - p)
    kept = aten.mul.Tensor(aten.mul.Tensor(x, mask), 1.0 / (1 - p))
    return _cast(kept, x.dtype), mask


def _exponential(x, lambd=1.0, generator=None):
    u = _uniform(x.shape, x.dtype)
    draw = aten.neg.default(aten.log1p.default(aten.neg.default(u)))
    draw = aten.clamp_min.default(draw, torch.finfo(x.dtype).tiny)  # the support is open at 0
    return aten.div.Tensor(draw, lambd)


def _geometric(x, p, generator=None):
    u = _uniform(x.shape, torch.float32)
    draw = aten.div.Tensor(
        aten.log1p.default(aten.neg.default(u)), math.log1p(-p) if p < 1 else -math.inf
    )
    return _cast(aten.clamp_min.default(aten.ceil.default(draw), 1.0), x.dtype)


def _cauchy(x, median=0, sigma=1, generator=None):
    u = aten.sub.Tensor(_uniform(x.shape, x.dtype), 0.5)
    return aten.add.Tensor(
        aten.mul.Tensor(aten.tan.default(aten.mul.Tensor(u, math.pi)), sigma), median
    )


def _affine_normal(size, dtype, mean, std):
    return aten.add.Tensor(aten.mul.Tensor(_normal(size, dtype), std), mean)


def _broadcast(mean, std):
    shapes = [t.shape for t in (mean, std) if isinstance(t, torch.Tensor)]
    dtype = next(t.dtype for t in (mean, std) if isinstance(t, torch.Tensor))
    return torch.broadcast_shapes(*shapes), dtype


def _normal_tensors(mean, std=1.0, generator=None):
    size, dtype = _broadcast(mean, std)
    draw = _affine_normal(size, dtype, mean, std)
    if isinstance(std, torch.Tensor):
        _require(aten.ge.Scalar(std, 0), "normal expects all elements of std >= 0.0")
    return draw


def _rrelu(x, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    if not training:
        slope = (lower + upper) / 2
        return aten.leaky_relu.default(x, slope), aten.clone.default(noise)
    slope = aten.add.Tensor(aten.mul.Tensor(_uniform(x.shape, x.dtype), upper - lower), lower)
    ones = aten.full.default(x.shape, 1, dtype=x.dtype, device=x.device)
    factor = aten.where.self(aten.le.Scalar(x, 0), slope, ones)
    return aten.mul.Tensor(x, factor), factor


def _arranged(rule):
    """`rule` for an op whose result has the order in memory of its first argument."""

    def run(x, *args, memory_format=None, **kwargs):
        return layout.arrange(rule(x, *args, **kwargs), layout.order_of(x, memory_format))

    return run


# Drawn into a tensor, or like one (bernoulli and normal make row-major tensors).
_LIKE_FIRST = (
    aten.rand_like.default,
    aten.randn_like.default,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.uniform.default,
    aten.normal_functional.default,
    aten.bernoulli.Tensor,
    aten.exponential.default,
    aten.geometric.default,
    aten.cauchy.default,
    aten.log_normal.default,
    aten.random.default,
    aten.random.to,
    getattr(aten.random, "from"),
)


def rules() -> dict:
    """OpOverload -> rule, for every random op that has one."""
    table = _plain_rules()
    return table | {op: _arranged(table[op]) for op in _LIKE_FIRST}


def _plain_rules() -> dict:
    def like(x, dtype):
        return x.dtype if dtype is None else dtype

    table = {
        aten.rand.default: lambda size, dtype=None, **kw: _uniform(size, _float_dtype(dtype)),
        aten.rand.generator: lambda size, generator=None, dtype=None, **kw: _uniform(
            size, _float_dtype(dtype)
        ),
        aten.rand_like.default: lambda x, dtype=None, **kw: _uniform(x.shape, like(x, dtype)),
        aten.randn.default: lambda size, dtype=None, **kw: _normal(size, _float_dtype(dtype)),
        aten.randn.generator: lambda size, generator=None, dtype=None, **kw: _normal(
            size, _float_dtype(dtype)
        ),
        aten.randn_like.default: lambda x, dtype=None, **kw: _normal(x.shape, like(x, dtype)),
        aten.uniform.default: lambda x, low=0.0, high=1.0, generator=None: aten.add.Tensor(
            aten.mul.Tensor(_uniform(x.shape, x.dtype), high - low), low
        ),
        aten.normal_functional.default: lambda x, mean=0.0, std=1.0, generator=None: _affine_normal(
            x.shape, x.dtype, mean, std
        ),
        aten.normal.float_float: lambda mean, std, size, dtype=None, **kw: _affine_normal(
            size, _float_dtype(dtype), mean, std
        ),
        aten.normal.Tensor_float: _normal_tensors,
        aten.normal.float_Tensor: _normal_tensors,
        aten.normal.Tensor_Tensor: _normal_tensors,
        aten.bernoulli.default: lambda x, generator=None: _flip_coins(x.shape, x, x.dtype),
        aten.bernoulli.p: lambda x, p, generator=None: _flip_coins(x.shape, p, x.dtype),
        aten.bernoulli.Tensor: lambda x, p, generator=None: _flip_coins(x.shape, p, x.dtype),
        aten.native_dropout.default: _dropout,
        aten.exponential.default: _exponential,
        aten.geometric.default: _geometric,
        aten.cauchy.default: _cauchy,
        aten.log_normal.default: lambda x, mean=1.0, std=2.0, generator=None: aten.exp.default(
            _affine_normal(x.shape, x.dtype, mean, std)
        ),
        aten.random.default: lambda x, generator=None: _integers(
            x.shape, 0, _int_limit(x.dtype), x.dtype
        ),
        aten.random.to: lambda x, to, generator=None: _integers(x.shape, 0, to, x.dtype),
        getattr(aten.random, "from"): lambda x, start, to, generator=None: _integers(
            x.shape, start, _int_limit(x.dtype) if to is None else to, x.dtype
        ),
        aten.randperm.default: lambda n, dtype=torch.int64, **kw: _cast(
            aten.sort.default(_bits([n]))[1], torch.int64 if dtype is None else dtype
        ),
        aten.rrelu_with_noise_functional.default: _rrelu,
    }
    for overload, at in (("default", 0), ("generator", 0), ("low", 1), ("low_generator", 1)):

        def randint(*args, at=at, dtype=torch.int64, **kw):
            low = args[0] if at else 0
            size = args[at + 1]
            return _integers(size, low, args[at], torch.int64 if dtype is None else dtype)

        table[getattr(aten.randint, overload)] = randint
    table[aten.randint_like.default] = lambda x, high, dtype=None, **kw: _integers(
        x.shape, 0, high, like(x, dtype)
    )
    table[aten.randint_like.low_dtype] = lambda x, low, high, dtype=None, **kw: _integers(
        x.shape, low, high, like(x, dtype)
    )
    return table
