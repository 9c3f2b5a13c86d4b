"""The quickstart's job: a small convolutional network learns to read scanned digits on `neuron`.

scikit-learn's 1,797 digits; trained three times from the same weights and in the same order of
batches: on the CPU, on `neuron` op by op, and on `neuron` with torch.compile. Ends with 1 if an op
fell back to the CPU or a test accuracy is more than a point away from the CPU's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections import Counter

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from loss_curve import write_svg
from progress import Bar

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("NEURON_BUILD_DIR", ROOT / "build" / "dev"))
NEURONCTL = BUILD / "client" / "cli" / "neuronctl"
BATCH = 64
TRAIN = 22 * BATCH  # whole batches: every step has the same shapes
SEED = 7


@dataclasses.dataclass
class Run:
    """One training: what it reached and what it took. Times in seconds."""

    name: str
    losses: list[float]
    accuracy: float
    first_step: float
    step: float
    compiling: float = 0.0  # in the daemon's workers
    executed: int = 0
    fallbacks: Counter = dataclasses.field(default_factory=Counter)


def digits():
    """Training and test sets: images [N, 1, 8, 8] in 0..1 (float32) and labels [N] (int64)."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))
    train, test = order[:TRAIN], order[TRAIN:]
    return TensorDataset(images[train], labels[train]), (images[test], labels[test])


def network() -> nn.Module:
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * 2 * 2, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()


def train(name: str, device: torch.device, compiled: bool, epochs: int) -> Run:
    """Trains a fresh network and tests it."""
    train_set, (test_images, test_labels) = digits()
    loader = DataLoader(
        train_set,
        BATCH,
        shuffle=True,
        drop_last=True,
        generator=torch.Generator().manual_seed(SEED),
    )
    model = network().to(device)
    if device.type == "neuron":
        import torch_neuronx

        torch_neuronx.clear_op_tracking()
        compiled_before = stats()["executables"]["compile_seconds"]
    backend = "neuron" if device.type == "neuron" else "aot_eager"
    forward = torch.compile(model, backend=backend) if compiled else model
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    losses, step_times = [], []
    first_step = 0.0
    with Bar(name, epochs) as bar:
        for epoch in range(epochs):
            model.train()
            total = torch.zeros((), device=device)
            start = time.perf_counter()
            for step, (images, labels) in enumerate(loader):
                optimizer.zero_grad()
                loss = loss_of(forward(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                total += loss.detach()
                if epoch == 0 and step == 0:
                    synchronize(device)
                    first_step = time.perf_counter() - start
            losses.append(total.item() / len(loader))  # reads a value, so the epoch is done
            step_times.append((time.perf_counter() - start) / len(loader))
            bar.advance(f"loss {losses[-1]:.4f}")

    model.eval()
    with torch.no_grad():
        guesses = forward(test_images.to(device)).argmax(dim=1).cpu()
    accuracy = 100.0 * (guesses == test_labels).float().mean().item()
    run = Run(name, losses, accuracy, first_step, statistics.median(step_times[1:]))
    if device.type == "neuron":
        import torch_neuronx

        run.compiling = stats()["executables"]["compile_seconds"] - compiled_before
        run.executed = len(torch_neuronx.get_executed_ops())
        run.fallbacks = Counter(torch_neuronx.get_fallback_ops())
    return run


def show_devices(device: torch.device) -> None:
    print("Devices")
    if device.type == "cpu":
        print("  cpu only: a rehearsal of this script without the daemon")
        return
    for index in range(torch.neuron.device_count()):
        properties = torch.neuron.get_device_properties(index)
        memory = properties.total_memory / 2**30
        print(f"  neuron:{index}  {properties.name}, {memory:.1f} GiB")


def check_matmul(device: torch.device) -> bool:
    generator = torch.Generator().manual_seed(SEED)
    a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
    difference = ((a.to(device) @ b.to(device)).cpu() - a @ b).abs().max().item()
    good = difference < 1e-3
    print("\nA 256 x 256 matmul against the CPU")
    print(f"  largest difference {difference:.1e}: {'equal' if good else 'WRONG'}")
    return good


def show_runs(runs: list[Run]) -> None:
    head = (
        "",
        "accuracy",
        "last loss",
        "compiling",
        "first step",
        "later steps",
        "ops",
        "on the CPU",
    )
    rows = [head]
    for run in runs:
        device = run.name != "CPU"
        rows.append(
            (
                run.name,
                f"{run.accuracy:.2f} %",
                f"{run.losses[-1]:.4f}",
                f"{run.compiling:.2f} s" if device else "-",
                f"{run.first_step:.2f} s",
                f"{1000 * run.step:.2f} ms",
                str(run.executed) if device else "-",
                str(run.fallbacks.total()) if device else "-",
            )
        )
    print()
    for row in rows:
        print(f"  {row[0]:<16}" + "".join(f"{cell:>12}" for cell in row[1:]))
    print("  compiling: in the daemon's workers; later steps: median over epochs, per step;")
    print("  ops: executed on the device; on the CPU: fallbacks, of which there must be none")


def stats() -> dict:
    """The daemon's counters."""
    answer = subprocess.run([NEURONCTL, "stats", "--json"], capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"neuronctl stats failed: {answer.stderr.strip()}")
    return json.loads(answer.stdout)


def show_cache() -> None:
    cache = stats()["executables"]
    print("\nWhat the daemon's cache holds now")
    print(
        f"  {cache['entries']} programs in memory; {cache['disk_entries']} on disk,"
        f" {cache['disk_bytes'] / 2**20:.1f} MiB;"
        f" compiled since the daemon started: {cache['compiles']}"
    )
    print(f"  list them: {NEURONCTL} cache list", flush=True)


def verdict(device: torch.device, runs: list[Run], matmul_good: bool) -> bool:
    """Prints what is wrong, if anything."""
    problems = [] if matmul_good else ["the matmul differs from the CPU's"]
    reference = runs[0]
    for run in runs[1:]:
        if run.fallbacks:
            names = ", ".join(f"{op} x{n}" for op, n in run.fallbacks.most_common())
            problems.append(f"{run.name}: ops ran on the CPU: {names}")
        if abs(run.accuracy - reference.accuracy) > 1.0:
            problems.append(
                f"{run.name}: accuracy {run.accuracy:.2f} % against {reference.accuracy:.2f} %"
            )
    print()
    for problem in problems:
        print(f"PROBLEM: {problem}")
    if not problems and device.type == "cpu":
        print("The rehearsal went well.")
    elif not problems:
        print("All good: same accuracy as the CPU within a point, every op on the device.")
    return not problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="neuron", help="cpu rehearses the script")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--curve", type=pathlib.Path, default=ROOT / "build" / "digits.svg")
    options = parser.parse_args()
    if options.epochs < 2:
        parser.error("--epochs: at least 2, the first one compiles")
    device = torch.device(options.device)

    show_devices(device)
    good = check_matmul(device)
    print(
        f"\nTraining on {TRAIN} of 1797 scanned digits, {options.epochs} epochs;"
        " testing on the others"
    )
    runs = [
        train("CPU", torch.device("cpu"), False, options.epochs),
        train(f"{device.type}, eager", device, False, options.epochs),
        train(f"{device.type}, compiled", device, True, options.epochs),
    ]
    show_runs(runs)
    options.curve.parent.mkdir(parents=True, exist_ok=True)
    write_svg(options.curve, {run.name: run.losses for run in runs})
    print(f"  loss curves: {options.curve}")
    if device.type == "neuron":
        show_cache()
    return 0 if verdict(device, runs, good) else 1


if __name__ == "__main__":
    sys.exit(main())
