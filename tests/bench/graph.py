"""A compiled GPT training step through the daemon against the same Programs in one process."""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch

from daemon import GRAPH_BENCH, ROOT, Home
from measure import Row, wall

sys.path.insert(0, str(ROOT / "tests" / "models"))
import zoo

PLUGIN = ROOT / ".plugin" / "lib" / "pjrt_cpu.so"
STEPS, ROUNDS = 5, 7


class Training:
    """Forward with loss and backward of a GPT, compiled, and fused AdamW; 4 layers, 4 x 128 ids."""

    def __init__(self):
        device = torch.device("neuron")
        torch.manual_seed(0)
        model = zoo.GPT(width=256, heads=4, layers=4, length=128).to(device)
        self.batch = {"ids": torch.randint(0, zoo.VOCABULARY, (4, 128)).to(device)}
        self.loss = torch.compile(
            lambda batch: zoo.next_token(model, batch)[1], backend="neuron", dynamic=False
        )
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss(self.batch).backward()
        self.optimizer.step()
        torch.accelerator.synchronize()


def record_programs(training: Training) -> dict[str, bytes]:
    """Name -> bytes of the Programs that one steady step executes.

    Every Program that is traced while the training warms up is kept; of these, the ones whose op a
    later step executes. The step's graphs are traced once each.
    """
    import torch_neuronx
    from torch_neuronx._trace import serialize

    traced: list[tuple[str, bytes]] = []
    original = serialize.ProgramBuilder.build

    def build(self, name, *arguments, **keywords):
        built = original(self, name, *arguments, **keywords)
        traced.append((name, built))
        return built

    serialize.ProgramBuilder.build = build
    try:
        for _ in range(3):
            training.step()
    finally:
        serialize.ProgramBuilder.build = original
    torch_neuronx.clear_op_tracking()
    training.step()
    executed = {_plain(op) for op in torch_neuronx.get_executed_ops()}
    graphs = any("graph" in op for op in executed)
    return {
        f"{index:03d}": program
        for index, (name, program) in enumerate(traced)
        if _plain(name) in executed or (graphs and not name.startswith("aten"))
    }


def _plain(op: str) -> str:
    """aten::add.Tensor and aten.add.Tensor are one op."""
    return op.replace("::", ".").removesuffix(".default")


class InProcess:
    """The graph_bench process: the same Programs through the plugin, no daemon."""

    def __init__(self, programs: dict[str, bytes], folder: str):
        paths = []
        for name, program in programs.items():
            path = pathlib.Path(folder) / f"{name}.pb"
            path.write_bytes(program)
            paths.append(path)
        self.process = subprocess.Popen(
            [GRAPH_BENCH, PLUGIN, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, steps: int) -> list[float]:
        """Milliseconds of each step."""
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"graph_bench ended with status {self.process.wait()}")
        return [float(word) for word in line.split()]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)


def graph(home: Home) -> list[Row]:
    """A compiled GPT training step, against the same Programs run in one process through PJRT."""
    training = Training()
    programs = record_programs(training)
    with tempfile.TemporaryDirectory() as folder:
        alone = InProcess(programs, folder)
        alone.run(2)
        ours, against = [], []
        for _ in range(ROUNDS):
            ours += [1000 * wall(training.step) for _ in range(STEPS)]
            against += alone.run(STEPS)
        alone.close()
    ours, against = statistics.median(ours), statistics.median(against)
    return [
        Row(
            "graph",
            "compiled GPT step, against PJRT in one process",
            "ms",
            ours,
            against,
            "<= 1.05x",
            ours <= 1.05 * against,
            note=f"{len(programs)} Programs a step",
        )
    ]
