"""Runs compiled graphs without the shim: CPU tensors stand for neuron tensors, Programs run in the
reference interpreter.

`install()` makes the tracing side take the CPU for its device and gives it a `run_graph` that
does what csrc does: metadata to a request, tracer, run, outputs. `log` has one entry (name,
content hash, bytes) per Program made.
"""

import torch

import trace_harness
from torch_neuronx._trace import device, graphs, trace

import program_interpreter  # isort: skip

log = []
_hashes = {}
_saved = []


def install():
    """Until `uninstall`; compiled graphs of real neuron tensors don't work in between."""
    if _saved:
        return
    _saved.append(
        (device.DEVICE, graphs._register, graphs.run, torch.backends.cuda.flash_sdp_enabled())
    )
    device.DEVICE = torch.device("cpu")
    graphs._register, graphs.run = _register, run_graph
    # Flash attention for the CPU is the CPU's own op; neuron has one of its own.
    torch.backends.cuda.enable_flash_sdp(False)


def uninstall():
    device.DEVICE, graphs._register, graphs.run, flash = _saved.pop()
    torch.backends.cuda.enable_flash_sdp(flash)


def _register(graph):
    graph_id = (1 << 40) + len(_hashes)
    _hashes[graph_id] = (graph.name, graph.content_hash, graph.mutated)
    return graph_id


class _GraphRequest(trace_harness.Request):
    def __init__(self, graph, tensors, scalars):
        self.storages, self.buffers, self.tensors, self.words, self.scalars = [], [], [], [], []
        self.static = set()
        entries = [("tensors", [self.tensor(t) for t in tensors])]
        entries.append(("scalars", [self.scalar(s, wrapped=False) for s in scalars]))
        self.before = [self.flat(s) for s in self.storages]
        self.dict = {
            "op": "neuron::graph",
            "graph": graph,
            "buffers": self.buffers,
            "tensors": self.tensors,
            "args": entries,
            "scalars": self.scalars,
            "outputs": None,
            "settings": trace_harness.SETTINGS,
        }


def run_graph(graph, tensors, scalars):
    request = _GraphRequest(graph, tensors, scalars)
    result = trace.trace(request.dict)
    if result["status"] != "ok":
        raise RuntimeError(result["reason"])
    name, content_hash, mutated = _hashes[graph]
    log.append((name, content_hash, result["program"]))
    words = request.all_words(set(result["static"]), result["offsets"])
    got = program_interpreter.run(result["program"], request.before, words)
    for (storage, dtype), buffer in zip(request.storages, got.buffers):
        torch.empty(0, dtype=dtype).set_(storage).copy_(buffer)
    created = iter(got.created)
    (entries,) = result["outputs"]
    return [trace_harness.fresh(entry, created) for entry in entries]
