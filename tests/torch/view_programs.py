"""Random programs over views and their bases, run in lockstep on the CPU and on the device.

A program is a seed: every step is drawn from it and from what the CPU's tensors look like. Both
sides make the same views of the same bases, write through them, swap storages, and read; on the
device each step may run on another stream, and readers are left behind by the writes that follow.
The end of a program compares every tensor: values, sizes, strides, offset, dtype, version, bits.
"""

from __future__ import annotations

import contextlib
import linecache
import math
import random
import types

import torch

from mirror import equal, text_of

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
_SHAPES = [(4, 6), (2, 3, 2, 2), (12,), (3, 4, 2), (2, 0, 3), ()]


def overlaps(x: torch.Tensor) -> bool:
    """Do two indices of `x` name the same element?"""
    places = torch.zeros(x.shape, dtype=torch.int64)
    for d, (size, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
        steps = torch.arange(size) * stride
        places = places + steps.reshape([-1 if i == d else 1 for i in range(x.dim())])
    return places.unique().numel() != x.numel()


def _views(rng: random.Random, x: torch.Tensor) -> list:
    """Functions that make a view of a tensor with x's sizes and strides."""
    found = [lambda t: t.detach(), lambda t: t.unsqueeze(0), lambda t: t.unsqueeze(-1)]
    if x.dim() == 0:
        return [*found, lambda t: t.expand(3)]
    d = rng.randrange(x.dim())
    e = rng.randrange(x.dim())
    found += [lambda t: t.transpose(d, e), lambda t: t.squeeze()]
    n = x.shape[d]
    if n > 0:
        i = rng.randrange(n)
        length = rng.randint(1, n - i)
        step = rng.randint(1, 3)
        found += [
            lambda t: t.select(d, i),
            lambda t: t.narrow(d, i, length),
            lambda t: t[(slice(None),) * d + (slice(i, None, step),)],
            lambda t: t.chunk(2, d)[-1],
            lambda t: t.split(length, d)[0],
            lambda t: t.unbind(d)[i],
            lambda t: t.narrow(d, i, 1).expand([3 if k == d else s for k, s in enumerate(t.shape)]),
            lambda t: t.unfold(d, min(2, n), step),
        ]
    if x.dim() > 1 and d != e:
        found += [lambda t: t.diagonal(0, d, e), lambda t: t.permute(*reversed(range(t.dim())))]
    if x.numel() >= 4 and x.is_contiguous():
        found += [
            lambda t: t.view(-1),
            lambda t: t.as_strided((2, 2), (2, 1), t.storage_offset()),
            lambda t: t.as_strided((2, 3), (1, 1), t.storage_offset()),
        ]
    if x.dtype is torch.complex64:
        found += [torch.view_as_real, lambda t: t.real, lambda t: t.imag, lambda t: t.conj()]
    same_width = {torch.float32: torch.int32, torch.float16: torch.int16, torch.int8: torch.uint8}
    if x.dtype in same_width:
        found.append(lambda t: t.view(same_width[x.dtype]))
    return found


def _in_place(rng: random.Random, x: torch.Tensor, other: torch.Tensor) -> list:
    """Functions (t, o) that write t; `o` is a tensor of any sizes that shares nothing with t."""
    number = rng.choice([1, 2, -1, 0.5, True])
    found = [
        lambda t, o: t.add_(number),
        lambda t, o: t.mul_(number),
        lambda t, o: t.fill_(number),
        lambda t, o: t.zero_(),
        lambda t, o: t.copy_(o),
        lambda t, o: t.add_(o),
        lambda t, o: t.masked_fill_(t == 1, 2),
        lambda t, o: t.logical_not_(),
        lambda t, o: t.neg_(),
        lambda t, o: t.clamp_(0, 3),
        lambda t, o: t.eq_(1),
        lambda t, o: torch.mul(t, 2, out=t),
        lambda t, o: torch.add(o, 1, out=t),
        lambda t, o: t.__setitem__(Ellipsis, o),
    ]
    if x.dim() == 0:
        return found
    d = rng.randrange(x.dim())
    n = x.shape[d]
    if n > 0:
        index = torch.tensor([rng.randrange(n), rng.randrange(n)])
        step = rng.randint(1, 3)
        rows = (slice(None),) * d
        found += [
            lambda t, o: t.index_fill_(d, index.to(t.device), 1),
            lambda t, o: t.__setitem__((*rows, slice(None, None, step)), number),
            lambda t, o: t.__setitem__((*rows, index.to(t.device)), 1),
            lambda t, o: t.index_add_(d, index.to(t.device), t.index_select(d, index.to(t.device))),
            lambda t, o: t.scatter_(d, index[:1].reshape([1] * t.dim()).to(t.device), 2),
            lambda t, o: t.cumsum_(d),
        ]
    if x.dim() == 1 and n > 0:
        found.append(
            lambda t, o: t.index_put_(
                (index.to(t.device),), torch.ones(2, dtype=t.dtype, device=t.device), True
            )
        )
    if x.dim() > 1:
        found.append(lambda t, o: t.tril_())
    return found


_READS = [
    lambda t: t.clone(),
    lambda t: t * 2,
    lambda t: t.to(torch.float32) if not t.is_complex() else t + 1,
    lambda t: t.flip(0) if t.dim() else t.clone(),
    lambda t: t.contiguous(),
    lambda t: t.reshape(-1),
    lambda t: t.sum(),
    lambda t: torch.stack([t, t]),
]


class Program:
    def __init__(self, seed: int, steps: int, streams: int = 0):
        self.rng = random.Random(seed)
        self.seed, self.steps = seed, steps
        self.pairs = []  # (on the device, on the CPU)
        self.readers = []
        self.log = []
        self.streams = [torch.neuron.Stream() for _ in range(streams)]
        for _ in range(3):
            self._base()

    def _base(self) -> None:
        shape = self.rng.choice(_SHAPES)
        dtype = self.rng.choice(DTYPES)
        numel = int(torch.tensor(shape, dtype=torch.int64).prod())
        values = (torch.arange(numel) % 5).reshape(shape).to(dtype)
        cpu = values.clone()
        if len(shape) == 4 and self.rng.random() < 0.5:
            cpu = cpu.contiguous(memory_format=torch.channels_last)
        self.pairs.append((cpu.to("neuron"), cpu.clone()))

    def _both(self, fn, *pairs):
        """fn on both sides: the pair of results, or None after the same error on both."""
        line = fn.__name__
        if isinstance(fn, types.FunctionType):
            line = linecache.getline(__file__, fn.__code__.co_firstlineno).strip()
        kinds = [(str(p[1].dtype), tuple(p[1].shape), p[1].stride()) for p in pairs]
        where = f"seed {self.seed}, step {self.step}, {line} of {kinds}"
        self.log.append(where)
        wanted = got = error = None
        try:
            wanted = fn(*(p[1] for p in pairs))
        except (RuntimeError, NotImplementedError, IndexError, TypeError) as e:
            error = (type(e).__name__, text_of(e))
        stream = self.rng.choice(self.streams) if self.streams else None
        on = torch.neuron.stream(stream) if stream else contextlib.nullcontext()
        try:
            with on:
                got = fn(*(p[0] for p in pairs))
        except (RuntimeError, NotImplementedError, IndexError, TypeError) as e:
            got = (type(e).__name__, text_of(e))
            assert got == error, f"{where}: {got}, the CPU: {error}"
            return None
        assert error is None, f"{where}: the device ran what the CPU refuses: {error}"
        return got, wanted

    def run(self) -> None:
        for step in range(self.steps):
            self.step = step
            kind = self.rng.choices(("view", "write", "read", "swap"), weights=(4, 6, 2, 1))[0]
            getattr(self, "_" + kind)(self.rng.choice(self.pairs))
        for i, (got, want) in enumerate(self.pairs + self.readers):
            equal(got, want, f"seed {self.seed}, tensor {i}")

    def _view(self, pair) -> None:
        made = self._both(self.rng.choice(_views(self.rng, pair[1])), pair)
        if made is not None:
            self.pairs.append(made)

    def _write(self, pair) -> None:
        if overlaps(pair[1]):
            if 0 in pair[1].stride():
                self._both(lambda t: t.add_(1), pair)
            return  # (other writes: the CPU has an order of its own, or writes every alias)
        self._read(pair)  # a reader of the old version, still waiting when the writer comes
        other = self._both(lambda t: t.clone(), self.rng.choice(self.pairs))
        self._both(self.rng.choice(_in_place(self.rng, pair[1], other[1])), pair, other)

    def _read(self, pair) -> None:
        made = self._both(self.rng.choice(_READS), pair)
        # A read that gave a view is no copy of the old content.
        if (
            made is not None
            and made[1].untyped_storage()._cdata != pair[1].untyped_storage()._cdata
        ):
            self.readers.append(made)

    def _swap(self, pair) -> None:
        other = self.rng.choice(self.pairs)
        source = self._both(lambda t: t.clone(), other)

        def data(t, o):
            t.data = o

        # (never to more elements than are there: the CPU's new ones would be anything)
        sizes = [1 if s == 1 else s // 2 for s in pair[1].shape]
        numel = pair[1].untyped_storage().nbytes() // pair[1].element_size()
        changes = [data, lambda t, o: t.set_(o)]
        if pair[1].storage_offset() + math.prod(sizes) <= numel:
            changes.append(lambda t, o: t.resize_(sizes) is None)
        self._both(self.rng.choice(changes), pair, source)


class Function:
    """A random function of two tensors: steps that the CPU accepts, recorded as they are drawn.

    Called, it repeats them: inputs are written through views of them and of what was made of them,
    and everything made is returned, aliases included.
    """

    def __init__(self, seed: int, steps: int = 8):
        rng = random.Random(seed)
        self.dtypes = [rng.choice(DTYPES) for _ in range(2)]
        self.sizes = [rng.choice([s for s in _SHAPES if 0 not in s]) for _ in range(2)]
        self.steps = []
        made = self.inputs("cpu")
        while len(self.steps) < steps:
            self._draw(rng, made)

    def inputs(self, device: str) -> list:
        return [
            (torch.arange(math.prod(s)) % 5).reshape(s).to(d).to(device)
            for s, d in zip(self.sizes, self.dtypes, strict=True)
        ]

    def _draw(self, rng, made) -> None:
        i, j = rng.randrange(len(made)), rng.randrange(len(made))
        writes = rng.random() < 0.6 and not overlaps(made[i])
        other = made[j].clone()
        step = rng.choice(_in_place(rng, made[i], other) if writes else _views(rng, made[i]))
        try:
            result = step(made[i], other) if writes else step(made[i])
        except (RuntimeError, NotImplementedError, IndexError, TypeError):
            return
        if not writes:
            made.append(result)
        self.steps.append((writes, i, j, step))

    def __call__(self, *inputs):
        made = list(inputs)
        for writes, i, j, step in self.steps:
            if writes:
                step(made[i], made[j].clone())
            else:
                made.append(step(made[i]))
        return made


def run(seeds, steps: int = 12, streams: int = 0) -> None:
    for seed in seeds:
        Program(seed, steps, streams).run()
