"""Compiled graphs as Programs: registration, the content hash, and binding to the metadata of a
call.

A CompiledGraph is one segment (segments.py) of what AOTAutograd captured. It is registered once
under a hash of its canonical text, which repeats across processes; the user's lines are part of
it, since a Program names them when it fails; csrc asks for the Program of a particular call
(sizes, strides, offsets) through the tracer, as for any op.
"""

import hashlib
import operator

import torch

from . import dtypes, recorder
from .errors import Refused
from .rng import is_draw, is_state
from .segments import Segment, literal, written_input
from .serialize import ProgramBuilder
from .trace import Words, add_inputs, add_scalar, add_writes, dense_strides

aten = torch.ops.aten

_FORMAT = "2"  # part of every content hash
_graphs = {}
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def register(segment: Segment, name: str) -> "CompiledGraph":
    graph = CompiledGraph(segment, name)
    graph.id = _register(graph)
    _graphs[graph.id] = graph
    return graph


def _register(graph) -> int:
    from .. import _C

    return _C.register_graph(graph.content_hash, graph.mutated)


def run(graph_id: int, tensors: list, scalars: list) -> list:
    """Subclasses of Tensor are Dynamo's matter: a program has plain ones."""
    plain = [t if type(t) in _PLAIN else t.as_subclass(torch.Tensor) for t in tensors]
    return torch.ops.neuron.run_graph.default(graph_id, plain, scalars)


def trace(request: dict) -> dict:
    """The Program of a registered graph for the arguments of `request`."""
    graph = _graphs.get(request["graph"])
    if graph is None:
        raise Refused(f"neuron.graph: no graph {request['graph']} in this process")
    return _Binding(graph, request).run()


def user_stack(node) -> str:
    """The user's lines of a node, innermost last."""
    return (node.meta.get("stack_trace") or "").strip()


class CompiledGraph:
    """One program's worth of a captured graph. Immutable once made; used from any thread."""

    def __init__(self, segment: Segment, name: str):
        self.segment, self.name = segment, name
        self.written = []  # (copy_ node, index of the input)
        for node in segment.nodes:
            target = written_input(node)
            if target is None:
                continue
            if node.target is not aten.copy_.default or target not in segment.tensor_inputs:
                raise Refused(f"{node.target}: writes to a value inside a compiled graph")
            self.written.append((node, segment.tensor_inputs.index(target)))
        self.mutated = sorted({i for _, i in self.written})
        self.content_hash = _Canonical(self).digest()


class _Canonical:
    """The text that a graph's hash is of: ops, arguments, types, the user's lines, and nothing that
    differs between processes.
    """

    def __init__(self, graph: CompiledGraph):
        self.graph = graph
        self.names = {}
        self.symbols = {}

    def digest(self) -> str:
        segment = self.graph.segment
        lines = [f"format {_FORMAT} torch {torch.__version__} {self.graph.name}"]
        for kind, nodes in (("tensor", segment.tensor_inputs), ("scalar", segment.scalar_inputs)):
            for node in nodes:
                self.names[node] = f"{kind[0]}{len(self.names)}"
                lines.append(f"{kind} {self._value(node.meta['val'])}")
        for node in segment.nodes:
            self.names[node] = f"v{len(self.names)}"
            args = self._arg([list(node.args), sorted(node.kwargs.items())])
            steps = self._arg(node.meta.get("neuron_steps"))
            lines.append(f"{node.target} {args} {steps} -> {self._value(node.meta.get('val'))}")
            lines.append(user_stack(node))
        lines += [
            f"output {self.names[n]} {self._arg(list(n.meta['val'].stride()))}"
            for n in segment.outputs
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _symbolic(self, value) -> str:
        expr = value.node.expr
        for symbol in sorted(expr.free_symbols, key=str):
            self.symbols.setdefault(symbol, f"d{len(self.symbols)}")
        text = {s: type(s)(n) for s, n in self.symbols.items() if s in expr.free_symbols}
        return str(expr.xreplace(text))

    def _value(self, value) -> str:
        if isinstance(value, torch.Tensor):
            return f"{value.dtype} {self._arg(list(value.shape))}"
        return self._arg(value)

    def _arg(self, arg) -> str:
        if isinstance(arg, torch.fx.Node):
            if arg in self.names:
                return self.names[arg]
            constant = literal(arg)
            if constant is not None:
                return f"{constant.dtype} {list(constant.shape)} {constant.tolist()}"
            return self._value(arg.meta.get("val"))
        if isinstance(arg, (list, tuple)):
            return "[" + ", ".join(self._arg(a) for a in arg) + "]"
        if isinstance(arg, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self._symbolic(arg)
        if isinstance(arg, torch.Tensor):
            return self._value(arg)
        if isinstance(arg, torch.device):
            return "device"
        return repr(arg)


class _Binding:
    """The Program of a graph for one set of argument metadata: symbols become the integers they
    stand for.
    """

    def __init__(self, graph: CompiledGraph, request: dict):
        self.graph, self.request = graph, request
        self.segment = graph.segment
        self.static = self._static()
        self.words = Words(request, self.static)
        self.builder = ProgramBuilder()
        self.integers = {}
        self.refs = {}
        self.lists = {}
        self.steps = 0

    def _static(self) -> set:
        """Integers are kept by value: sizes depend on them."""
        static = set()
        for j, node in enumerate(self.segment.scalar_inputs):
            value = node.meta["val"]
            if isinstance(value, (torch.SymInt, int, bool)) or self.request["scalars"][j][3]:
                static.add(j)
        return static

    def run(self) -> dict:
        self._bind_symbols()
        for node, ref in zip(
            self.segment.tensor_inputs, add_inputs(self.builder, self.request, self.words)
        ):
            self.refs[node] = ref
        for j, node in enumerate(self.segment.scalar_inputs):
            self._bind_scalar(j, node)
        writes = []
        for node in self.segment.nodes:
            self._emit(node, writes)
        outputs = [self._output(node) for node in self.segment.outputs]
        add_writes(self.builder, self.request, self.words, writes)
        program = self.builder.build(
            self.graph.name,
            self.words.count,
            self.words.count,
            self.steps,
            self.request["settings"],
        )
        return {
            "status": "ok",
            "program": program,
            "outputs": [outputs],
            "static": sorted(j for j in self.static if not self.request["scalars"][j][3]),
            "offsets": self.steps,
        }

    # ---- arguments ----

    def _bind_symbols(self):
        for j, node in enumerate(self.segment.scalar_inputs):
            value = node.meta["val"]
            if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
                self.integers[value.node.expr] = int(self.request["scalars"][j][2])
        for node, tensor in zip(self.segment.tensor_inputs, self.request["tensors"]):
            shape = node.meta["val"].shape
            if len(shape) != len(tensor[2]):
                raise Refused(
                    f"{self.graph.name}: an input of another rank than the graph was captured with"
                )
            for size, given in zip(shape, tensor[2]):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    self.integers.setdefault(size.node.expr, given)
                if self._int(size) != given:
                    raise Refused(
                        f"{self.graph.name}: an input of size {given} where {size} was captured"
                    )

    def _int(self, value):
        if isinstance(value, (torch.SymInt, torch.SymBool)):
            expr = value.node.expr.xreplace(self._sympy_integers())
            if expr.free_symbols:
                raise Refused(f"{self.graph.name}: the integer {value} is not known at the call")
            return bool(expr) if isinstance(value, torch.SymBool) else int(expr)
        return value

    def _sympy_integers(self):
        import sympy

        return {s: sympy.Integer(v) for s, v in self.integers.items()}

    def _bind_scalar(self, j, node):
        value = node.meta["val"]
        scalar = self.request["scalars"][j]
        if j in self.static:
            if isinstance(value, torch.Tensor):
                self.refs[node] = self.builder.constant(
                    [scalar[2]], dtypes.number_of(value.dtype), ()
                )
            return
        dtype, _, hint, static = scalar
        is_tensor = isinstance(value, torch.Tensor)
        ref = add_scalar(self.builder, self.words, j, (dtype, not is_tensor, hint, static))
        if is_tensor and dtype != dtypes.number_of(value.dtype):
            # A 0-dim tensor arrives as a Python number; its own dtype takes part in type promotion.
            ref = self.builder.cast(ref, dtypes.number_of(value.dtype), ())
        self.refs[node] = ref

    # ---- nodes ----

    def _emit(self, node, writes):
        if node.target is operator.getitem:
            self.refs[node] = self.lists[node.args[0]][node.args[1]]
            return
        if written_input(node) is not None:
            self._write(node, writes)
            return
        args = [self._encode(a, node) for a in self._arguments(node)]
        if is_state(node):
            self.steps = self._int(node.meta["neuron_steps"])
            args = [self.steps]
        if node.target in recorder.IDENTITY:
            self.refs[node] = args[0]
            return
        self._check(node)
        value = node.meta["val"]
        results = value if isinstance(value, (list, tuple)) else [value]
        refs = self.builder.node(
            str(node.target), args, [self._type(r) for r in results], user_stack(node)
        )
        if isinstance(value, (list, tuple)):
            self.lists[node] = refs
        else:
            self.refs[node] = refs[0]

    def _check(self, node):
        if node.target is aten.as_strided.default and not node.args[0].meta["val"].is_contiguous():
            raise Refused("aten.as_strided.default: of a value that is not contiguous")
        if is_draw(node) and not node.all_input_nodes:
            raise Refused(f"{node.target}: without a state")

    def _write(self, node, writes):
        target = node.args[0]
        i = self.segment.tensor_inputs.index(target)
        ref = self.refs[node.args[1]]
        source, dest = node.args[1].meta["val"], node.meta["val"]
        if source.dtype != dest.dtype:
            ref = self.builder.cast(ref, dtypes.number_of(dest.dtype), self._sizes(source))
        if self._sizes(source) != self._sizes(dest):
            sizes = list(self._sizes(dest))
            ref = self.builder.node(
                "aten.expand.default",
                [ref, sizes, False],
                [(dtypes.number_of(dest.dtype), tuple(sizes))],
            )[0]
        writes.append((ref, i))
        self.refs[target] = self.refs[node] = ref

    def _arguments(self, node):
        return recorder.schema_args(node.target, node.args, node.kwargs)

    def _sizes(self, tensor) -> tuple:
        return tuple(self._int(s) for s in tensor.shape)

    def _type(self, value):
        if not isinstance(value, torch.Tensor):
            return None
        return (dtypes.number_of(value.dtype), self._sizes(value))

    def _encode(self, arg, node):
        if isinstance(arg, torch.fx.Node):
            if arg in self.refs:
                return self.refs[arg]
            constant = literal(arg)
            if constant is not None:
                self.refs[arg] = recorder.constant(self.builder, constant)
                return self.refs[arg]
            value = arg.meta.get("val")
            if isinstance(value, (torch.SymInt, torch.SymBool, int, float, bool)):
                return self._int(value)
            raise Refused(f"{node.target}: an argument that is not in the graph")
        if isinstance(arg, (list, tuple)):
            return [self._encode(a, node) for a in arg]
        if isinstance(arg, (torch.SymInt, torch.SymBool)):
            return self._int(arg)
        if isinstance(arg, complex):
            return self.builder.complex_constant(arg)
        return arg

    def _output(self, node):
        value = node.meta["val"]
        sizes = self._sizes(value)
        strides = dense_strides(sizes, [self._int(s) for s in value.stride()])
        if 0 not in sizes:  # a tensor without elements has no Buffer
            self.builder.create(self.refs[node], strides)
        return ("new", dtypes.number_of(value.dtype), sizes, strides)
