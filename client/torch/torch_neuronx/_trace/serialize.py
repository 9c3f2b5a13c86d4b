"""Builds Program messages (proto/neurond/v1/program.proto): the one format for eager ops and
graphs.

A ProgramBuilder collects inputs, run-time scalars, nodes and outputs in any order of
appearance; `build` drops what no output needs, numbers the values (inputs, scalars, results in
order) and writes the bytes. The same calls give the same bytes in every process.
"""

import math

import torch

from .._proto import program_pb2 as pb
from . import dtypes
from .errors import Refused

# Nodes that are kept although nothing reads their results.
_EFFECTS = ("aten._assert_async.msg", "aten._assert_async.default")
_DROPPED_TYPES = (torch.device, torch.layout, torch.memory_format, torch.Generator)
_INT64 = range(-(2**63), 2**63)


class Ref:
    """A value of the Program under construction."""

    __slots__ = ("index", "kind", "result")

    def __init__(self, kind: str, index: int, result: int = 0):
        self.kind, self.index, self.result = kind, index, result


class _Node:
    __slots__ = ("args", "op", "results", "stack")

    def __init__(self, op, args, results, stack):
        self.op, self.args, self.results, self.stack = op, args, results, stack


def _refs(arg):
    if isinstance(arg, Ref):
        yield arg
    elif isinstance(arg, (list, tuple)):
        for item in arg:
            yield from _refs(item)


class ProgramBuilder:
    def __init__(self):
        self.buffers = []
        self.inputs = []
        self.scalars = []
        self.nodes = []
        self.outputs = []
        self._constants = {}

    def buffer(self, dtype: int, elements: int) -> int:
        self.buffers.append((dtype, elements))
        return len(self.buffers) - 1

    def input(self, buffer: int, view) -> Ref:
        """view: (dtype, sizes, strides, offset word or -1)."""
        self.inputs.append((buffer, view))
        return Ref("input", len(self.inputs) - 1)

    def scalar(self, dtype: int, word: int, wrapped: bool) -> Ref:
        """dtype: I64, F64 or BOOL."""
        self.scalars.append((dtype, word, wrapped))
        return Ref("scalar", len(self.scalars) - 1)

    def node(self, op: str, args, results, stack: str = "") -> list:
        """results: (dtype number, sizes) each, or None for a result that is None."""
        self.nodes.append(_Node(op, list(args), results, stack))
        return [Ref("node", len(self.nodes) - 1, i) for i in range(len(results))]

    def constant(self, numbers, dtype: int, sizes) -> Ref:
        """A literal tensor: `neuron.constant(numbers, dtype, sizes)`, numbers in row-major
        order.
        """
        key = (tuple(map(repr, numbers)), dtype, tuple(sizes))
        if key not in self._constants:
            args = [list(numbers), dtypes.TO_TORCH[dtype], list(sizes)]
            self._constants[key] = self.node("neuron.constant", args, [(dtype, tuple(sizes))])[0]
        return self._constants[key]

    def complex_constant(self, value: complex) -> Ref:
        key = repr(value)
        if key not in self._constants:
            parts = [self.constant([part], dtypes.F64, []) for part in (value.real, value.imag)]
            c128 = dtypes.FROM_TORCH[torch.complex128]
            self._constants[key] = self.node("aten.complex.default", parts, [(c128, ())])[0]
        return self._constants[key]

    def cast(self, ref: Ref, dtype: int, sizes) -> Ref:
        args = [ref, dtypes.TO_TORCH[dtype]]
        return self.node("prims.convert_element_type.default", args, [(dtype, tuple(sizes))])[0]

    def create(self, ref: Ref, strides) -> None:
        self.outputs.append((ref, "create", tuple(strides)))

    def write(self, ref: Ref, buffer: int, view) -> None:
        self.outputs.append((ref, "write", buffer, view))

    def _live(self) -> list:
        """Per node: does an output or an effect need it?"""
        live = [False] * len(self.nodes)
        todo = [out[0] for out in self.outputs]
        todo += [Ref("node", i) for i, n in enumerate(self.nodes) if n.op in _EFFECTS]
        while todo:
            ref = todo.pop()
            if ref.kind == "node" and not live[ref.index]:
                live[ref.index] = True
                todo.extend(_refs(self.nodes[ref.index].args))
        return live

    def build(self, name: str, words: int, seed_word: int, offsets: int, settings: dict) -> bytes:
        """words: the number of run-time words without seed and offset; seed_word: -1 or words."""
        program = pb.Program(name=name, word_count=words, seed_word=-1, offset_word=-1)
        if offsets > 0:
            program.seed_word, program.offset_word = seed_word, seed_word + 1
            program.word_count = words + 2
            program.offsets_used = offsets
        program.float64_as_float32 = settings.get("float64", "float32") != "native"
        program.precision = settings.get("precision", "highest")
        for dtype, elements in self.buffers:
            program.buffers.add(dtype=dtype, elements=elements)
        for buffer, view in self.inputs:
            self._view(program.inputs.add(buffer=buffer).view, view)
        for dtype, word, wrapped in self.scalars:
            program.scalars.add(dtype=dtype, word=word, wrapped=wrapped)
        ids = self._nodes(program)
        for out in self.outputs:
            message = program.outputs.add(value=ids(out[0]))
            if out[1] == "create":
                message.create.strides.extend(out[2])
                message.create.SetInParent()
            else:
                message.write.buffer = out[2]
                self._view(message.write.view, out[3])
        return program.SerializeToString(deterministic=True)

    def _nodes(self, program):
        first = {}
        next_id = len(self.inputs) + len(self.scalars)

        def ids(ref: Ref) -> int:
            if ref.kind == "input":
                return ref.index
            if ref.kind == "scalar":
                return len(self.inputs) + ref.index
            return first[ref.index] + ref.result

        for index, (node, live) in enumerate(zip(self.nodes, self._live())):
            if not live:
                continue
            first[index] = next_id
            next_id += len(node.results)
            message = program.nodes.add(op=node.op, stack=node.stack)
            for arg in node.args:
                self._arg(message.args.add(), arg, ids, node.op)
            for result in node.results:
                if result is None:
                    message.results.add(dtype=dtypes.INVALID)
                else:
                    message.results.add(dtype=result[0], sizes=result[1])
        return ids

    @staticmethod
    def _view(message, view):
        dtype, sizes, strides, offset_word = view
        message.dtype, message.offset_word = dtype, offset_word
        message.sizes.extend(sizes)
        message.strides.extend(strides)

    def _arg(self, message, arg, ids, op):
        if arg is None or isinstance(arg, _DROPPED_TYPES):
            message.none = True
        elif isinstance(arg, Ref):
            message.value = ids(arg)
        elif isinstance(arg, bool):
            message.bool_value = arg
        elif isinstance(arg, int):
            if arg not in _INT64:
                raise Refused(f"{op}: the integer {arg} does not fit 64 bits")
            message.int_value = arg
        elif isinstance(arg, float):
            message.float_value = arg if not math.isnan(arg) else math.nan
        elif isinstance(arg, str):
            message.string_value = arg
        elif isinstance(arg, torch.dtype):
            message.dtype = dtypes.number_of(arg)
        elif isinstance(arg, (list, tuple)):
            message.list.SetInParent()
            for item in arg:
                self._arg(message.list.items.add(), item, ids, op)
        else:
            raise Refused(f"{op}: an argument of type {type(arg).__name__}")
