"""A reference interpreter: evaluates a Program (proto/neurond/v1/program.proto) with torch on CPU
buffers.

The oracle for the tracing side, and a tool to look into a Program: what the daemon computes
must equal what this computes. Random numbers are repeatable but not the daemon's.
"""

import math
import operator

import torch

from torch_neuronx._proto import program_pb2 as pb
from torch_neuronx._trace import dtypes

SYM = {
    "sym.add": operator.add,
    "sym.sub": operator.sub,
    "sym.mul": operator.mul,
    "sym.truediv": operator.truediv,
    "sym.floordiv": operator.floordiv,
    "sym.pow": operator.pow,
    "sym.neg": operator.neg,
    "sym.float": float,
    "sym.int": int,
    "sym.sqrt": math.sqrt,
}


class Result:
    """created: tensors with the strides the Program asks for; buffers: the flat buffers after all
    writes.
    """

    def __init__(self, created, buffers):
        self.created, self.buffers = created, buffers


def run(program_bytes: bytes, buffers, words=()) -> Result:
    """buffers: flat CPU tensors, one per slot; words: Python numbers, one per run-time word."""
    program = pb.Program.FromString(program_bytes)
    return _Run(program, buffers, list(words)).result()


class _Run:
    def __init__(self, program, buffers, words):
        assert len(words) == program.word_count, (len(words), program.word_count)
        assert len(buffers) == len(program.buffers)
        for spec, buffer in zip(program.buffers, buffers):
            assert buffer.dim() == 1 and buffer.numel() == spec.elements
            assert dtypes.FROM_TORCH[buffer.dtype] == spec.dtype
        self.program, self.buffers, self.words = program, [b.clone() for b in buffers], words
        self.seed = (
            (words[program.seed_word], words[program.offset_word]) if program.offsets_used else None
        )
        self.values = [self.view(self.buffers[i.buffer], i.view).clone() for i in program.inputs]
        for scalar in program.scalars:
            number = {1: bool, 8: int, 13: float}[scalar.dtype](words[scalar.word])
            dtype = dtypes.TO_TORCH[scalar.dtype]
            self.values.append(number if scalar.wrapped else torch.tensor(number, dtype=dtype))
        self.used = {out.value for out in program.outputs}
        for node in program.nodes:
            self.collect(node.args)
        for node in program.nodes:
            self.node(node)

    def collect(self, args):
        for arg in args:
            if arg.WhichOneof("kind") == "value":
                self.used.add(arg.value)
            self.collect(arg.list.items)

    def view(self, buffer, view):
        offset = 0 if view.offset_word < 0 else self.words[view.offset_word]
        typed = buffer.view(dtypes.TO_TORCH[view.dtype])
        return typed.as_strided(tuple(view.sizes), tuple(view.strides), offset)

    def arg(self, arg):
        kind = arg.WhichOneof("kind")
        if kind == "none":
            return None
        if kind == "value":
            return self.values[arg.value]
        if kind == "dtype":
            return dtypes.TO_TORCH[arg.dtype]
        if kind == "list":
            return [self.arg(item) for item in arg.list.items]
        assert kind is not None, "an argument without a kind"
        return getattr(arg, kind)

    def node(self, node):
        args = [self.arg(a) for a in node.args]
        out = self.call(node.op, args)
        results = out if isinstance(out, (list, tuple)) else [out]
        assert len(results) == len(node.results), f"{node.op}: {len(results)} results"
        for value, spec in zip(results, node.results):
            if spec.dtype == dtypes.INVALID:
                value = None
            elif isinstance(value, torch.Tensor) and len(self.values) in self.used:
                got = (value.dtype, tuple(value.shape))
                want = (dtypes.TO_TORCH[spec.dtype], tuple(spec.sizes))
                assert got == want, f"{node.op}: {got}, the Program says {want}"
            self.values.append(value)

    def call(self, op, args):
        if op in SYM:
            return SYM[op](*[a.item() if isinstance(a, torch.Tensor) else a for a in args])
        if op == "neuron.constant":
            numbers, dtype, sizes = args
            return torch.tensor(numbers, dtype=dtype).reshape(sizes)
        if op.startswith("neuron."):
            return self.random(op.split(".")[1], args)
        if op in ("aten.view.default", "aten._unsafe_view.default"):  # values have no strides
            return args[0].reshape(args[1])
        namespace, packet, overload = op.split(".")
        func = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        return self.call_torch(func, args)

    def call_torch(self, func, args):
        positional, keywords = [], {}
        assert len(args) == len(func._schema.arguments), f"{func}: all schema arguments"
        for spec, value in zip(func._schema.arguments, args):
            value = self.fit(value, str(spec.type))
            if spec.kwarg_only:
                keywords[spec.name] = value
            else:
                positional.append(value)
        return func(*positional, **keywords)

    @staticmethod
    def fit(value, kind):
        if isinstance(value, torch.Tensor) and "Tensor" not in kind:
            return value.item()  # a run-time scalar in a number's place
        if isinstance(value, list) and "Tensor" not in kind:
            return [v.item() if isinstance(v, torch.Tensor) else v for v in value]
        if kind == "Tensor" and isinstance(value, (int, float)):
            return value  # a wrapped number
        return value

    def random(self, name, args):
        if name == "rng_state":
            assert args[0] == self.program.offsets_used, "rng_state reserves what the Program uses"
            return torch.tensor(self.seed, dtype=torch.int64)
        state, delta, size, dtype = args
        # A backward graph draws from the reservation that its forward graph made and saved.
        assert delta >= 0 and (
            self.seed is None or delta + math.prod(size) <= self.program.offsets_used
        )
        seed, offset = state.tolist()
        generator = torch.Generator().manual_seed((seed * 1000003 + offset + delta) % 2**63)
        if name == "random_bits":
            return torch.randint(-(2**63), 2**63 - 1, size, generator=generator, dtype=dtype)
        return getattr(torch, name)(size, generator=generator, dtype=dtype)

    def result(self) -> Result:
        created = []
        for out in self.program.outputs:
            value = self.values[out.value]
            if not isinstance(value, torch.Tensor):
                value = torch.tensor(value)
            if out.WhichOneof("to") == "create":
                dense = torch.empty_strided(
                    value.shape, tuple(out.create.strides), dtype=value.dtype
                )
                created.append(dense.copy_(value))
            else:
                target = self.view(self.buffers[out.write.buffer], out.write.view)
                target.copy_(value)
        return Result(created, self.buffers)
