"""The miss path in Python: one op (or one registered graph) and its arguments' metadata -> a
Program.

`trace(request)` is what csrc calls when neither it nor the daemon knows a key;
client/torch/README.md defines request and result. One lock covers everything: FakeTensor's and
ShapeEnv's caches are not documented as thread-safe.
"""

import operator
import threading

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from . import device, dtypes, symbolic, twins
from .clean import clean_state
from .errors import Dynamic, Refused
from .recorder import Recorder, conform
from .rng import use_stream
from .serialize import ProgramBuilder

aten = torch.ops.aten

_lock = threading.RLock()
_DYNAMIC = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
    Dynamic,
)


def trace(request: dict) -> dict:
    """See client/torch/README.md. Never raises for an op that cannot be traced: the status says
    so.
    """
    name = request["op"]
    with _lock, clean_state():
        try:
            if name == "neuron::graph":
                from . import graphs

                return graphs.trace(request)
            return _trace_op(request)
        except _DYNAMIC as e:
            return {"status": "dynamic", "reason": f"{dotted(name)}: {_first_line(e)}"}
        except Refused as e:
            return {"status": "refused", "reason": _named(name, e)}
        except Exception as e:  # a decomposition that does not take these arguments
            return {
                "status": "refused",
                "reason": _named(name, e, type(e).__name__),
                "passing": isinstance(e, (MemoryError, RecursionError, OSError)),
            }


def dotted(name: str) -> str:
    """ "aten::add" -> "aten.add.default"."""
    name = name.replace("::", ".")
    return name if name.count(".") > 1 else name + ".default"


def _first_line(error) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _named(name, error, kind=None) -> str:
    text = _first_line(error)
    if kind is not None:
        text = f"{kind}: {text}"
    return text if dotted(name) in text else f"{dotted(name)}: {text}"


def resolve(name: str) -> torch._ops.OpOverload:
    namespace, rest = name.split("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _trace_op(request: dict) -> dict:
    func = resolve(request["op"])
    static = {j for j, s in enumerate(request["scalars"]) if _always_static(s)}
    while True:
        attempt = _Attempt(request, func, static)
        try:
            result = attempt.run()
        except MakeStatic as e:
            static |= e.indices
            continue
        except symbolic.Unsupported as e:
            found = {attempt.symbol_index[s] for s in e.symbols if s in attempt.symbol_index}
            if not found:
                raise Refused(f"{func}: a symbolic expression") from e
            static |= found
            continue
        except (Refused, *_DYNAMIC):
            raise
        except (
            Exception
        ):  # torch's own code may not take symbolic numbers: once more with their values
            if len(static) == len(request["scalars"]):
                raise
            static = set(range(len(request["scalars"])))
            continue
        found = attempt.guarded()
        if not found:
            result["static"] = sorted(j for j in static if not request["scalars"][j][3])
            return result
        static |= found


def _always_static(scalar) -> bool:
    """Kept by value: what the caller says, and numbers that have no run-time word."""
    dtype, wrapped, value, static = scalar
    return static or isinstance(value, complex) or (wrapped and isinstance(value, bool))


class MakeStatic(Exception):
    """Scalars that must be kept by value."""

    def __init__(self, indices: set):
        super().__init__("scalars by value")
        self.indices = indices


class Words:
    """The layout of a Program's run-time words, as client/torch/README.md orders them."""

    def __init__(self, request: dict, static: set):
        self.offset = []
        count = 0
        for tensor in request["tensors"]:
            whole = tensor[4]
            self.offset.append(-1 if whole else count)
            count += not whole
        self.scalar = {}
        for j in range(len(request["scalars"])):
            if j not in static:
                self.scalar[j] = count
                count += 1
        self.count = count


def scalar_word_dtype(dtype: int) -> int:
    """How the word of a run-time scalar of `dtype` is read."""
    torch_dtype = dtypes.TO_TORCH[dtype]
    if torch_dtype == torch.bool:
        return dtypes.BOOL
    if torch_dtype.is_complex:
        raise Refused("a complex run-time scalar")
    return dtypes.F64 if torch_dtype.is_floating_point else dtypes.I64


def add_inputs(builder: ProgramBuilder, request: dict, words: Words) -> list:
    """Buffers and tensor inputs; a Ref per tensor. One without elements has no Buffer and is a
    constant.
    """
    for dtype, elements in request["buffers"]:
        builder.buffer(dtype, elements)
    refs = []
    for i, (buffer, dtype, sizes, *_) in enumerate(request["tensors"]):
        if buffer < 0:
            refs.append(empty_constant(builder, dtype, sizes))
        else:
            refs.append(builder.input(buffer, view_of(request, words, i)))
    return refs


def view_of(request: dict, words: "Words", i: int) -> tuple:
    """The View of tensor i: (dtype, sizes, strides, offset word)."""
    _, dtype, sizes, strides, *_ = request["tensors"][i]
    return dtype, tuple(sizes), tuple(strides), words.offset[i]


def empty_constant(builder: ProgramBuilder, dtype: int, sizes):
    args = [list(sizes), 0, dtypes.TO_TORCH[dtype], None, None, None]
    return builder.node("aten.full.default", args, [(dtype, tuple(sizes))])[0]


def add_writes(builder: ProgramBuilder, request: dict, words: "Words", writes) -> None:
    """writes: (Ref, index of the written tensor), in order."""
    for ref, i in writes:
        buffer = request["tensors"][i][0]
        if buffer >= 0:
            builder.write(ref, buffer, view_of(request, words, i))


def add_scalar(builder: ProgramBuilder, words: Words, j: int, scalar):
    """A Ref of run-time scalar j in its own dtype."""
    dtype, wrapped, _, _ = scalar
    word_dtype = scalar_word_dtype(dtype)
    ref = builder.scalar(word_dtype, words.scalar[j], wrapped)
    return ref if dtype == word_dtype else builder.cast(ref, dtype, ())


class _Attempt:
    """One trace with a given set of scalars kept by value."""

    def __init__(self, request, func, static):
        self.request, self.func, self.static = request, func, static
        self.scalars = request["scalars"]
        self.words = Words(request, static)
        self.builder = ProgramBuilder()
        self.env = symbolic.new_env() if len(static) < len(self.scalars) else None
        self.mode = FakeTensorMode(allow_fallback_kernels=False, shape_env=self.env)
        self.symbols = {}  # sympy symbol -> Ref
        self.symbol_index = {}  # sympy symbol -> j
        self.recorder = Recorder(self.builder, self.symbols)

    def guarded(self) -> set:
        if self.env is None:
            return set()
        return {self.symbol_index[s] for s in symbolic.static(self.env, self.symbol_index)}

    def run(self) -> dict:
        refs = add_inputs(self.builder, self.request, self.words)
        self.fakes = [self._fake(t, r) for t, r in zip(self.request["tensors"], refs)]
        self.scalar_refs = {}
        for j in self.words.scalar:
            self.scalar_refs[j] = add_scalar(self.builder, self.words, j, self.scalars[j])
        self.sym = {}
        writes = []
        with self.mode, self.recorder, use_stream(self.recorder.rng):
            self.logical = [self._resolve_bits(i) for i in range(len(self.fakes))]
            args, kwargs = self._arguments()
            self.outs = [kwargs.get(a.name) for a in self.func._schema.arguments if a.is_out]
            out = twins.run(
                self.func, args, kwargs, lambda target, value: writes.append((target, value))
            )
            writes = [(self._index(t), self._prepare_write(t, v)) for t, v in writes]
            outputs = self._outputs(out)
        writes = [(self.recorder.ref(value), i) for i, value in writes]
        add_writes(self.builder, self.request, self.words, writes)
        offsets = self._offsets()
        program = self.builder.build(
            dotted(self.request["op"]),
            self.words.count,
            self.words.count,
            offsets,
            self.request["settings"],
        )
        return {
            "status": "ok",
            "program": program,
            "outputs": outputs,
            "static": [],
            "offsets": offsets,
        }

    def _offsets(self) -> int:
        used = self.recorder.rng.used
        for node in self.builder.nodes:
            if node.op == "neuron.rng_state.default":
                node.args = [used]
        return used

    def _number(self, j):
        """Scalar j as a Python number: its value, or a placeholder."""
        value = self.scalars[j][2]
        if j in self.static:
            return value
        if isinstance(value, (bool, complex)):
            raise MakeStatic({j})
        if j not in self.sym:
            self.sym[j], symbol = symbolic.placeholder(self.env, j, value)
            self.symbols[symbol] = self.scalar_refs[j]
            self.symbol_index[symbol] = j
        return self.sym[j]

    def _empty(self, sizes, strides, dtype, where=None):
        with self.mode:
            return aten.empty_strided.default(
                list(sizes),
                list(strides),
                dtype=dtypes.TO_TORCH[dtype],
                device=where or device.DEVICE,
            )

    def _fake(self, tensor, ref):
        _, dtype, sizes, strides, *_ = tensor
        fake = self._empty(sizes, strides, dtype)
        self.recorder.bind(fake, ref)
        return fake

    def _resolve_bits(self, i):
        """The logical value of tensor i: its conj and neg bits applied."""
        conj, neg = self.request["tensors"][i][5:7]
        value = self.fakes[i]
        if conj:
            value = aten._conj_physical.default(value)
        if neg:
            value = aten.neg.default(value)
        return value

    def _index(self, target) -> int:
        for i, value in enumerate(self.logical):
            if value is target:
                return i
        raise Refused(f"{self.func}: a written argument that is no tensor of this call")

    def _prepare_write(self, target, value):
        conj, neg = self.request["tensors"][self._index(target)][5:7]
        if not isinstance(value, torch.Tensor):
            value = aten.full.default([], value, dtype=target.dtype, device=device.DEVICE)
        if value.shape != target.shape:
            if any(out is target for out in self.outs):
                raise Refused(f"{self.func}: out= has to be resized")  # the CPU did not run
            try:
                value = conform(value, target)
            except RuntimeError as e:
                raise Refused(
                    f"{self.func}: output with shape {list(target.shape)} doesn't match the "
                    "broadcast shape "
                    f"{list(value.shape)}"
                ) from e
        if neg:
            value = aten.neg.default(value)
        if conj:
            value = aten._conj_physical.default(value)
        return value

    # ---- arguments ----

    def _arguments(self):
        args, kwargs = [], {}
        for spec, entry in zip(self.func._schema.arguments, self.request["args"]):
            value = self._argument(spec, entry)
            if spec.kwarg_only:
                kwargs[spec.name] = value
            else:
                args.append(value)
        return args, kwargs

    def _argument(self, spec, entry):
        kind, x = entry
        if kind == "tensor":
            return self.logical[x]
        if kind == "tensors":
            return [self._list_item(i) for i in x]
        if kind == "cpu":
            return self._scalar(x, "Tensor" in str(spec.type))
        if kind == "scalars":
            return [self._scalar(j, False) for j in x]
        if isinstance(x, torch.device):
            return device.DEVICE if x.type == "neuron" else x
        return x

    def _list_item(self, item):
        if isinstance(item, tuple):  # a 0-dim CPU tensor among the list's tensors
            return self._scalar(item[1], True)
        return None if item is None else self.logical[item]

    def _scalar(self, j, as_tensor: bool):
        dtype, wrapped, value, _ = self.scalars[j]
        if not as_tensor:
            return self._number(j)
        if wrapped:
            if self._takes_numbers():
                return self._number(j)
            return self._number_tensor(j, value, self._wrapped_dtype(value))
        if j in self.static:
            fake = self._empty((), (), dtype, torch.device("cpu"))
            self.recorder.bind(fake, self.builder.constant([value], dtype, ()))
            return fake
        fake = self._empty((), (), dtype, torch.device("cpu"))
        self.recorder.bind(fake, self.scalar_refs[j])
        return fake

    def _takes_numbers(self) -> bool:
        return torch._C._should_allow_numbers_as_tensors(
            self.func._schema.name.split("::")[1].rstrip("_")
        )

    def _wrapped_dtype(self, number):
        """The dtype that a Python number takes beside the call's tensors."""
        tensors = [t for t in self.logical if t.dim() > 0] or self.logical
        if not tensors:
            return dtypes.number_of(torch.tensor(number).dtype)
        out = tensors[0].dtype
        for t in tensors[1:]:
            out = torch.promote_types(out, t.dtype)
        return dtypes.number_of(torch.result_type(torch.empty(1, dtype=out, device="meta"), number))

    def _number_tensor(self, j, number, dtype):
        fake = self._empty((), (), dtype, torch.device("cpu"))
        if j in self.static:
            ref = self.builder.constant([number], dtype, ())
        else:
            ref = self.builder.cast(self.scalar_refs[j], dtype, ())
        self.recorder.bind(fake, ref)
        return fake

    # ---- results ----

    def _outputs(self, out) -> list:
        wanted = self.request["outputs"]
        if not self.func._schema.returns:
            return []
        values = (
            list(out) if isinstance(out, tuple) and len(self.func._schema.returns) > 1 else [out]
        )
        entries = []
        for k, value in enumerate(values):
            expected = None if wanted is None else wanted[k]
            if isinstance(value, (list, tuple)):
                entries.append(
                    [
                        self._output(v, None if expected is None else expected[m])
                        for m, v in enumerate(value)
                    ]
                )
            else:
                entries.append(self._output(value, expected))
        return entries

    def _output(self, value, expected):
        if value is None or (expected is not None and expected[0] == "none"):
            return ("none",)
        if not isinstance(value, torch.Tensor):
            return ("int", operator.index(value))
        for i, fake in enumerate(self.logical):
            if fake is value and (expected is None or expected[0] == "arg"):
                return ("arg", i)
        if expected is not None and expected[0] == "arg":
            return expected
        if expected is None:
            expected = (
                "new",
                dtypes.number_of(value.dtype),
                tuple(value.shape),
                dense_strides(value.shape, value.stride()),
            )
        _, dtype, sizes, strides = expected
        if tuple(value.shape) != tuple(sizes):
            raise Refused(
                f"{self.func}: traced sizes {tuple(value.shape)}, the CPU's are {tuple(sizes)}"
            )
        if dtypes.number_of(value.dtype) != dtype:
            value = torch.ops.prims.convert_element_type.default(value, dtypes.TO_TORCH[dtype])
        if 0 not in sizes:  # a tensor without elements has no Buffer
            self.builder.create(self.recorder.ref(value), strides)
        return ("new", dtype, tuple(sizes), tuple(strides))


def dense_strides(sizes, strides) -> tuple:
    """The strides if they are a dense permutation of the sizes, else contiguous ones."""
    expected = 1
    for d in sorted(range(len(sizes)), key=lambda d: (strides[d], sizes[d])):
        if sizes[d] == 1:
            continue
        if strides[d] != expected or sizes[d] == 0:
            break
        expected *= sizes[d]
    else:
        return tuple(strides)
    contiguous, step = [], 1
    for size in reversed(sizes):
        contiguous.append(step)
        step *= max(size, 1)
    return tuple(reversed(contiguous))
