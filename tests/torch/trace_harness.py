"""Makes tracer requests (client/torch/README.md) from CPU tensors, without the shim, and checks
the Program they give.

The CPU tensors stand for neuron tensors. The op runs on them in place; the Program, interpreted
on copies of the buffers, must give the same results and leave the same bytes in every buffer.
"""

import sys
import types
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def _without_shim():
    """The tracing side alone, where the C++ part is not built."""
    package = types.ModuleType("torch_neuronx")
    package.__path__ = [str(ROOT / "client" / "torch" / "torch_neuronx")]
    sys.modules["torch_neuronx"] = package
    torch.utils.rename_privateuse1_backend("neuron")
    module = types.ModuleType("torch.neuron")
    module.is_available = module.is_initialized = lambda: False
    module.device_count, module.current_device = lambda: 1, lambda: 0
    module._is_in_bad_fork = lambda: False
    module.synchronize = module.manual_seed_all = lambda *args: None
    torch._register_device_module("neuron", module)


try:
    import torch_neuronx  # noqa: F401
except ImportError:
    _without_shim()

from torch_neuronx._trace import dtypes  # noqa: E402
from torch_neuronx._trace.trace import resolve, trace  # noqa: E402

import program_interpreter  # noqa: E402  isort: skip

SETTINGS = {
    "float64": "native",
    "deterministic": False,
    "precision": "highest",
    "default_dtype": 12,
}


class Request:
    """args of an op call on CPU tensors -> the request dict, the flat buffers and the run-time
    words.
    """

    def __init__(self, op, args, kwargs=None, static=(), run_time=()):
        self.func = resolve(op)
        self.op, self.args, self.kwargs = op, list(args), dict(kwargs or {})
        self.storages, self.buffers, self.tensors = [], [], []
        self.words, self.scalars, self.static = [], [], set(static)
        self.run_time = set(run_time)  # names of plain float arguments to pass as run-time scalars
        self.entries = [self.entry(spec, value) for spec, value in self.bound()]
        self.before = [self.flat(s) for s in self.storages]

    def bound(self):
        for i, spec in enumerate(self.func._schema.arguments):
            value = (
                self.args[i]
                if i < len(self.args)
                else self.kwargs.get(spec.name, spec.default_value)
            )
            yield spec, value

    def entry(self, spec, value):
        if isinstance(value, torch.Tensor):
            if getattr(value, "cpu_scalar", False):
                return ("cpu", self.scalar(value.item(), value.dtype, False))
            return ("tensor", self.tensor(value))
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return ("tensors", [None if v is None else self.tensor(v) for v in value])
        kind = str(spec.type)
        if kind == "List[number]" and value is not None:
            return ("scalars", [self.scalar(v) for v in value])
        if isinstance(value, (bool, int, float, complex)) and (
            "number" in kind or kind == "Tensor"
        ):
            return ("cpu", self.scalar(value))
        if spec.name in self.run_time:
            return ("cpu", self.scalar(value))
        return ("value", value)

    def tensor(self, t):
        if t.numel() == 0:
            entry = (
                -1,
                dtypes.FROM_TORCH[t.dtype],
                tuple(t.shape),
                tuple(t.stride()),
                True,
                False,
                False,
                False,
            )
            self.tensors.append(entry)
            return len(self.tensors) - 1
        storage = t.untyped_storage()
        for b, (s, _) in enumerate(self.storages):  # noqa: B007
            if s._cdata == storage._cdata:
                break
        else:
            b = len(self.storages)
            self.storages.append((storage, t.dtype))
            self.buffers.append((dtypes.FROM_TORCH[t.dtype], storage.nbytes() // t.element_size()))
        elements = storage.nbytes() // t.element_size()
        span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) if t.numel() else 0
        whole = t.storage_offset() == 0 and span == elements
        self.tensors.append(
            (
                b,
                dtypes.FROM_TORCH[t.dtype],
                tuple(t.shape),
                tuple(t.stride()),
                whole,
                t.is_conj(),
                t.is_neg(),
                False,
            )
        )
        if not whole:
            self.words.append(t.storage_offset())
        return len(self.tensors) - 1

    def scalar(self, value, dtype=None, wrapped=True):
        if dtype is None:
            dtype = torch.tensor(value).dtype if not isinstance(value, float) else torch.float64
        j = len(self.scalars)
        self.scalars.append((dtypes.FROM_TORCH[dtype], wrapped, value, j in self.static))
        return j

    @staticmethod
    def flat(storage):
        untyped, dtype = storage
        return torch.empty(0, dtype=dtype).set_(untyped).clone()

    def request(self, outputs):
        return {
            "op": self.op,
            "buffers": self.buffers,
            "tensors": self.tensors,
            "args": self.entries,
            "scalars": self.scalars,
            "outputs": outputs,
            "settings": SETTINGS,
        }

    def all_words(self, static, offsets):
        words = list(self.words)
        words += [s[2] for j, s in enumerate(self.scalars) if j not in static]
        return words + ([1234, 77] if offsets else [])


def output_entries(request, func, out):
    """What csrc would report of the CPU run."""
    tensors = [v for _, v in request.bound()]
    flat = []
    for v in tensors:
        flat += [
            t for t in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(t, torch.Tensor)
        ]
    flat = [t for t in flat if not getattr(t, "cpu_scalar", False)]

    def one(value):
        if isinstance(value, (list, tuple)):
            return [one(v) for v in value]
        if not isinstance(value, torch.Tensor):
            return ("none",)
        for i, t in enumerate(flat):
            if t is value:
                return ("arg", i)
        from torch_neuronx._trace.trace import dense_strides

        return (
            "new",
            dtypes.FROM_TORCH[value.dtype],
            tuple(value.shape),
            dense_strides(value.shape, value.stride()),
        )

    if not func._schema.returns:
        return []
    if len(func._schema.returns) > 1:
        return [one(v) for v in out]
    return [one(out)]


def call(op, *args, outputs=True, random=False, static=(), run_time=(), **kwargs):
    """Traces the op, interprets its Program, and compares with the op run on the CPU. Returns the
    tracer's result.
    """
    request = Request(op, args, kwargs, static, run_time)
    out = request.func(*request.args, **request.kwargs)
    entries = output_entries(request, request.func, out)
    result = trace(request.request(entries if outputs else None))
    assert result["status"] == "ok", result
    words = request.all_words(set(result["static"]) | set(static), result["offsets"])
    got = program_interpreter.run(result["program"], request.before, words)
    result["created"] = got.created
    if random:
        return result
    for storage, buffer in zip(request.storages, got.buffers):
        close(buffer, request.flat(storage), f"{op}: a buffer after the call")
    compare(out, result["outputs"], got.created, op)
    return result


def fresh(entry, created):
    """The tensor of a ("new", ...) entry: the next created one, or an empty one that needs none."""
    kind, dtype, sizes, strides = entry
    assert kind == "new"
    if 0 in sizes:
        return torch.empty_strided(sizes, strides, dtype=dtypes.TO_TORCH[dtype])
    return next(created)


def compare(out, entries, created, op):
    created = iter(created)

    def one(value, entry):
        if isinstance(entry, list):
            for v, e in zip(value, entry, strict=True):
                one(v, e)
        elif entry[0] == "new":
            made = fresh(entry, created)
            assert (made.dtype, made.shape) == (value.dtype, value.shape), op
            close(made, value, f"{op}: a result")

    values = out if isinstance(out, tuple) and len(entries) > 1 else [out]
    if entries:
        for value, entry in zip(values, entries, strict=True):
            one(value, entry)


def close(got, want, what):
    if want.dtype.is_floating_point or want.is_complex():
        torch.testing.assert_close(
            got, want, rtol=1e-4, atol=1e-5, equal_nan=True, msg=lambda m: f"{what}: {m}"
        )
    else:
        assert torch.equal(got, want), f"{what}: {got} != {want}"


def cpu_scalar(value, dtype=None):
    """A 0-dim CPU tensor among neuron tensors."""
    t = torch.tensor(value, dtype=dtype)
    t.cpu_scalar = True
    return t
