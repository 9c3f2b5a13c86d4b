"""Splits a captured graph into steps: programs for the device, and nodes that run where they stand.

A graph is one program when everything in it is on the device. What the user wrote on the CPU,
copies between devices, ops that the user registered with a kernel for the device, and (when
asked for) ops without a lowering are run eagerly, in order, between programs. Sizes are never a
reason to split: a program is bound to its integers when it is called.
"""

import dataclasses
import functools
import operator

import torch
from torch import fx

from .device import is_ours
from .recorder import CONSTANT_LIMIT, IDENTITY

aten = torch.ops.aten


# Writes to a tensor's storage pointer and sizes, not to its elements: `x.data = y`.
_METADATA_WRITES = {aten.set_.source_Tensor}


@dataclasses.dataclass
class Segment:
    """Nodes that become one program. Inputs and outputs are nodes of the graph."""

    nodes: list
    tensor_inputs: list = dataclasses.field(default_factory=list)
    scalar_inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Eager:
    """A node that is called with real values."""

    node: fx.Node


def tensors_of(value) -> list:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_of(item)]
    return []


def on_device(node: fx.Node):
    """The device of a node whose results live on ours, else None."""
    tensors = tensors_of(node.meta.get("val"))
    if tensors and all(is_ours(t.device) for t in tensors):
        return tensors[0].device
    return None


def is_scalar(node: fx.Node) -> bool:
    """A value that a program takes as a run-time scalar: a number or a 0-dim CPU tensor."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return value.dim() == 0 and not is_ours(value.device) and not value.is_complex()
    return isinstance(value, (torch.SymInt, torch.SymFloat, int, float, bool))


def literal(node: fx.Node):
    """The real CPU tensor that a node stands for (a small constant of the user's code), else
    None.
    """
    if node.op == "get_attr":
        value = operator.attrgetter(node.target)(node.graph.owning_module)
        is_small = isinstance(value, torch.Tensor) and value.numel() <= CONSTANT_LIMIT
        return value if is_small and value.device.type == "cpu" else None
    if node.op == "call_function" and node.target in IDENTITY:
        return literal(node.args[0])
    return None


def is_size(node: fx.Node) -> bool:
    """An integer that follows from the sizes and integers that the graph is called with."""
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, int))


@functools.cache
def is_users_own(op) -> bool:
    """An op with a kernel for the device that a program cannot hold: code that a user
    registered.
    """
    if op.namespace in ("aten", "prims", "neuron"):
        return False
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has_kernel(op.name(), key) for key in ("PrivateUse1", "CompositeExplicitAutograd"))


def _belongs(node: fx.Node, eager_ops) -> bool:
    """Can `node` be part of a program?"""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem and not node.meta.get("neuron_view"):
        return _belongs(node.args[0], eager_ops)
    device = on_device(node)
    if node.meta.get("neuron_view") or node.target in _METADATA_WRITES:
        return False
    if device is None or not isinstance(node.target, torch._ops.OpOverload):
        return False
    if str(node.target) in eager_ops or is_users_own(node.target):
        return False
    for source in node.all_input_nodes:
        if literal(source) is not None:
            continue
        if on_device(source) is None and not is_scalar(source):
            return False
        if on_device(source) not in (None, device):
            return False
    return True


def _is_written(node: fx.Node) -> bool:
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and node.target._schema.is_mutable
    )


def _is_view(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    return on_device(node) is not None and any(
        r.alias_info is not None for r in node.target._schema.returns
    )


def view_base(node: fx.Node) -> fx.Node:
    """What `node` is a view of, or `node` itself."""
    while _is_view(node):
        node = node.args[0]
    return node


def views_last(graph: fx.Graph) -> None:
    """Returned views become views of what they are taken of: made eagerly, at the end, as metadata.

    So they alias their base, have the strides that AOTAutograd expects, and cost no copy. Uses
    inside the graph stay. A view of an input that the graph writes is left alone: it may mean the
    value before the write.
    """
    output = next(n for n in graph.nodes if n.op == "output")
    made = {}

    def copy(node):
        if node in made or not _is_view(node):
            return made.get(node, node)
        with graph.inserting_before(output):
            made[node] = graph.node_copy(node, copy_source)
        made[node].meta["neuron_view"] = True
        return made[node]

    def copy_source(source):
        return copy(source) if on_device(source) is not None else source

    def replace(node):
        base = view_base(node)
        if not _is_view(node) or any(
            _is_written(user) and user.args[0] is base for user in base.users
        ):
            return node
        return copy(node)

    output.args = fx.map_arg(output.args, replace)
    graph.eliminate_dead_code(
        is_impure_node=lambda n: n.op != "call_function" or _is_written(n) or n.is_impure()
    )


class _Ranks:
    """Even ranks are programs, odd ones eager; a node runs after everything it reads, and a write
    after all readers.
    """

    def __init__(self, graph: fx.Graph, eager_ops):
        self.rank = {}
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.last_write = {}
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.rank[node] = -1
            elif node.op == "call_function":
                self.rank[node] = self._place(node, 0 if _belongs(node, eager_ops) else 1)

    def _place(self, node, parity) -> int:
        if parity == 0:
            # Integers are bound, not waited for.
            sources = [s for s in node.all_input_nodes if not is_size(s) and literal(s) is None]
        else:
            sources = node.all_input_nodes
        least = max((self.rank[s] for s in sources), default=-1)
        for source in node.all_input_nodes:
            least = max(least, self.last_write.get(source, -1))
        if _is_written(node):
            target = node.args[0]
            readers = [u for u in target.users if u in self.rank]
            least = max([least, *(self.rank[u] for u in readers)])
        rank = least if least % 2 == parity else least + 1
        if _is_written(node):
            self.last_write[node.args[0]] = rank
        return rank


def split(graph: fx.Graph, eager_ops=frozenset()) -> list:
    """The steps of `graph`, in order."""
    ranks = _Ranks(graph, eager_ops)
    groups = {}
    for node in graph.nodes:
        if node.op == "call_function":
            groups.setdefault((ranks.rank[node], str(on_device(node) or "")), []).append(node)
    steps = []
    for rank, _ in sorted(groups, key=lambda k: (k[0], ranks.position[groups[k][0]])):
        nodes = groups[(rank, _)]
        if rank % 2 == 0:
            steps.append(Segment(nodes))
        else:
            steps += [Eager(n) for n in nodes]
    if sum(isinstance(s, Eager) for s in steps):
        steps = _merge_eager_order(steps, ranks)
    returned = _returned(graph)
    for step in steps:
        if isinstance(step, Segment):
            _interface(step, graph, returned)
    return steps


def _merge_eager_order(steps, ranks):
    """Eager nodes of one rank keep the graph's order (their groups differ by device)."""
    key = {
        id(s): (ranks.rank[s.node], ranks.position[s.node]) for s in steps if isinstance(s, Eager)
    }
    for s in steps:
        if isinstance(s, Segment):
            key[id(s)] = (ranks.rank[s.nodes[0]], ranks.position[s.nodes[0]])
    return sorted(steps, key=lambda s: key[id(s)])


def _returned(graph) -> set:
    output = next(n for n in graph.nodes if n.op == "output")
    return set(output.all_input_nodes)


def written_input(node: fx.Node):
    """The node whose memory `node` writes (a copy_ epilogue), else None."""
    if _is_written(node):
        return node.args[0]
    return None


def _interface(segment: Segment, graph, returned) -> None:
    inside = set(segment.nodes)
    symbols = [
        n
        for n in graph.nodes
        if n.op == "placeholder" and isinstance(n.meta.get("val"), torch.SymInt)
    ]
    for node in segment.nodes:
        for source in node.all_input_nodes:
            if source in inside or is_size(source) or literal(source) is not None:
                continue
            place = (
                segment.tensor_inputs if on_device(source) is not None else segment.scalar_inputs
            )
            if source not in place:
                place.append(source)
    segment.scalar_inputs += [n for n in symbols if n not in segment.scalar_inputs]
    for node in segment.nodes:
        if written_input(node) is not None or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        if node in returned or any(user not in inside for user in node.users):
            segment.outputs.append(node)
