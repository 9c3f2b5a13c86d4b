"""The torch.compile backend "neuron": Dynamo's graphs through AOTAutograd to Programs.

`neuron(gm, example_inputs)` is the backend function (entry point `torch_dynamo_backends`; also
for `torch.compiler.set_default_backend("neuron")`). Forward, backward and inference graphs each
become a list of steps (segments.py); programs run through `torch.ops.neuron.run_graph`, on the
same keyed path as eager ops. Calls are boxed: the caller's list is emptied and a value is
dropped after its last use, so that saved tensors die early.
"""

import contextlib
import functools
import operator
import os
import re
import warnings

import torch
from torch import fx

from . import decompositions, fake_convolution, graphs, rng
from .device import is_ours
from .errors import Refused
from .segments import Eager, split, view_base, views_last, written_input

aten = torch.ops.aten

_warned = set()

fake_convolution.install()


def _attention_draws_nothing() -> None:
    """With dropout, attention takes torch's math path here. The tag of the fused op, which then
    draws nothing, would make checkpointing save the state of a generator for it.
    """
    tags = aten._scaled_dot_product_fused_attention_overrideable.default.tags
    if torch.Tag.nondeterministic_seeded in tags:
        tags.remove(torch.Tag.nondeterministic_seeded)


_attention_draws_nothing()


def neuron(gm: fx.GraphModule, example_inputs, **kwargs):
    """The backend. Raises for `dynamic=True`; warns for a `mode`; graphs without neuron tensors go
    to Inductor.
    """
    _check_options(kwargs)
    if not _uses_neuron(gm, example_inputs):
        return _for_cpu(gm, example_inputs)
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(
        fw_compiler=functools.partial(_compile, name="forward"),
        bw_compiler=functools.partial(_compile, name="backward"),
        inference_compiler=functools.partial(_compile, name="inference"),
        decompositions=decompositions.table(),
        partition_fn=_partition,
        keep_inference_input_mutations=True,
    )
    return compiler(gm, example_inputs)


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=3)


def _check_options(kwargs) -> None:
    if torch._dynamo.config.assume_static_by_default is False:
        raise RuntimeError(
            "torch.compile(dynamic=True) is not supported by the neuron backend: programs have "
            "fixed sizes. "
            "Leave `dynamic` out: each set of sizes gets its own program."
        )
    mode = kwargs.pop("mode", None)
    if mode not in (None, "default"):
        _warn_once(f"torch.compile(mode={mode!r}): the neuron backend has no modes and ignores it")
    options = kwargs.pop("options", None)
    if options or kwargs:
        names = sorted({**(options or {}), **kwargs})
        _warn_once(f"torch.compile: the neuron backend ignores the options {', '.join(names)}")


# ---- graphs without neuron tensors --------------------------------------------------------------


def _devices(value):
    if isinstance(value, torch.Tensor):
        yield value.device
    elif isinstance(value, torch.device):
        yield value
    elif isinstance(value, str) and value.split(":")[0] == "neuron":
        yield torch.device(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _devices(item)
    elif isinstance(value, dict):
        yield from _devices(list(value.values()))


def _uses_neuron(gm, example_inputs) -> bool:
    found = list(_devices(list(example_inputs)))
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:
                found += _devices([node.meta.get("example_value"), node.args, node.kwargs])
    found += [t.device for t in (*gm.parameters(), *gm.buffers())]
    return any(is_ours(d) for d in found)


def _for_cpu(gm, example_inputs):
    try:
        from torch._inductor.compile_fx import compile_fx
        from torch._inductor.cpp_builder import get_cpp_compiler

        get_cpp_compiler()
        return compile_fx(gm, example_inputs)
    except Exception as e:  # no C++ compiler, no Inductor: plain PyTorch is right too
        _warn_once(
            "torch.compile: a graph without neuron tensors runs eagerly, since Inductor cannot run "
            f"({e})"
        )
        return gm.forward


# ---- AOTAutograd --------------------------------------------------------------------------------


def _partition(joint: fx.GraphModule, inputs, *, num_fwd_outputs, **kwargs):
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    rng.finish_graph(joint.graph)
    forward, backward = min_cut_rematerialization_partition(
        joint, inputs, num_fwd_outputs=num_fwd_outputs, **kwargs
    )
    _save_old_values(forward.graph, num_fwd_outputs)
    return forward, backward


def _save_old_values(graph: fx.Graph, returned: int) -> None:
    """What backward reads of an input that forward writes is the value before the write: a copy."""
    output = next(n for n in graph.nodes if n.op == "output")
    written = {written_input(n) for n in graph.nodes}
    first = next(n for n in graph.nodes if n.op != "placeholder")

    def save(node):
        if not isinstance(node, fx.Node) or view_base(node) not in written:
            return node
        with graph.inserting_before(first if node.op == "placeholder" else node.next):
            copy = graph.call_function(aten.clone.default, (node,))
        value = node.meta["val"]
        with value.fake_mode:
            copy.meta = {**node.meta, "val": aten.clone.default(value)}
        return copy

    values = output.args[0]
    output.args = ((*values[:returned], *(save(node) for node in values[returned:])),)


def fallback_allowed() -> bool:
    """TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=false: an op without a lowering runs eagerly
    between programs.
    """
    value = os.environ.get("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "true")
    return value.strip().lower() in ("0", "false", "off", "no")


def _compile(gm: fx.GraphModule, example_inputs, name: str):
    if name == "inference":
        rng.finish_graph(gm.graph)
    call = CompiledCall(gm, name)
    return call.boxed()


class CompiledCall:
    """A captured graph that can be called. Thread-safe: a call keeps its values in locals; the
    plan is replaced whole.
    """

    def __init__(self, gm: fx.GraphModule, name: str):
        self.gm, self.name = gm, name
        self.eager_ops = frozenset()
        views_last(gm.graph)
        while True:
            try:
                self.plan = _Plan(gm, name, self.eager_ops)
                return
            except Refused as e:
                self._give_up_on(str(e), e)

    def boxed(self):
        def call(args):
            return self(args)

        call._boxed_call = True
        return call

    def __call__(self, args: list):
        values = list(args)
        args.clear()
        while True:
            plan = self.plan
            try:
                return plan.run(values)
            except _Unlowered as e:
                self._give_up_on(str(e), e.__cause__)
                self.plan = _Plan(self.gm, self.name, self.eager_ops)

    def _give_up_on(self, reason: str, error) -> None:
        """Makes the op that `reason` names run eagerly; raises where that is not allowed or names
        nothing new.
        """
        names = {str(n.target) for n in self.gm.graph.nodes if n.op == "call_function"}
        found = [
            op
            for op in re.findall(r"[a-z_]\w*\.\w+\.\w+", reason)
            if op in names and op not in self.eager_ops
        ]
        if not found or not fallback_allowed() or found[0].startswith("neuron."):
            raise RuntimeError(
                f"torch.compile: the {self.name} graph cannot run on neuron: {reason}"
            ) from error
        _warn_once(f"torch.compile: {found[0]} cannot be lowered and runs eagerly between programs")
        self.eager_ops = self.eager_ops | {found[0]}


class _Unlowered(Exception):
    """The first program of a call was refused; nothing has run yet."""


class _Plan:
    """Steps over numbered slots, made once per graph."""

    def __init__(self, gm, name, eager_ops):
        self.gm = gm
        nodes = list(gm.graph.nodes)
        self.slot = {node: i for i, node in enumerate(nodes)}
        self.inputs = [self.slot[n] for n in nodes if n.op == "placeholder"]
        self.constants = [
            (self.slot[n], _attribute(gm, n.target)) for n in nodes if n.op == "get_attr"
        ]
        self.output = next(n for n in nodes if n.op == "output").args[0]
        self.steps = [self._step(s, name, i) for i, s in enumerate(split(gm.graph, eager_ops))]
        self._plan_deaths()

    def _step(self, step, name, index):
        if isinstance(step, Eager):
            return _EagerStep(step.node, self.slot)
        return _ProgramStep(graphs.register(step, f"{name}.{index}" if index else name), self.slot)

    def _returned(self):
        found = []
        fx.map_arg(self.output, found.append)
        return found

    def _plan_deaths(self):
        """For each step the slots that nothing reads after it."""
        keep = {self.slot[n] for n in self._returned()}
        seen = set(keep)
        self.deaths = [()] * len(self.steps)
        for i in reversed(range(len(self.steps))):
            dead = (self.steps[i].reads | self.steps[i].writes) - seen
            seen |= dead
            self.deaths[i] = tuple(dead)
        self.unread = tuple(set(self.inputs) - seen)

    def run(self, values: list):
        env = [None] * len(self.slot)
        for slot, value in zip(self.inputs, values):
            env[slot] = value
        for slot, value in self.constants:
            env[slot] = value
        for slot in self.unread:
            env[slot] = None
        ran = False
        for step, dead in zip(self.steps, self.deaths):
            try:
                # Until a program has run the call can be repeated; after that its inputs are let
                # go.
                ran = step.run(env) or ran
            except RuntimeError as e:
                if not ran and isinstance(step, _ProgramStep) and fallback_allowed():
                    raise _Unlowered(str(e)) from e
                raise
            if ran and values:
                values.clear()
            for slot in dead:
                env[slot] = None
        return fx.map_arg(self.output, lambda n: env[self.slot[n]])


class _ProgramStep:
    def __init__(self, graph: graphs.CompiledGraph, slot: dict):
        segment = graph.segment
        self.graph = graph
        self.tensors = [slot[n] for n in segment.tensor_inputs]
        self.scalars = [slot[n] for n in segment.scalar_inputs]
        self.results = [slot[n] for n in segment.outputs]
        self.aliases = [(slot[node], self.tensors[i]) for node, i in graph.written]
        self.reads = {*self.tensors, *self.scalars}
        self.writes = {*self.results, *(a for a, _ in self.aliases)}

    def run(self, env) -> bool:
        scalars = [_number(env[s]) for s in self.scalars]
        results = graphs.run(self.graph.id, [env[t] for t in self.tensors], scalars)
        for slot, value in zip(self.results, results):
            env[slot] = value
        for slot, source in self.aliases:
            env[slot] = env[source]
        return True


class _EagerStep:
    def __init__(self, node: fx.Node, slot: dict):
        self.node, self.slot = node, slot
        self.reads = {slot[n] for n in node.all_input_nodes}
        self.writes = {slot[node]}

    def run(self, env) -> bool:
        def value(node):
            return env[self.slot[node]]

        args = fx.map_arg(self.node.args, value)
        kwargs = fx.map_arg(self.node.kwargs, value)
        written = written_input(self.node)
        # AOTAutograd itself counts the version of an input that the graph writes.
        keep = (
            contextlib.nullcontext()
            if written is None
            else torch.autograd._unsafe_preserve_version_counter(value(written))
        )
        with keep:
            env[self.slot[self.node]] = self.node.target(*args, **kwargs)
        return written is not None


def _number(value):
    return value.item() if isinstance(value, torch.Tensor) else value


def _attribute(gm, target: str):
    return operator.attrgetter(target)(gm)
