"""Benches of single ops and of copies."""

from __future__ import annotations

import ctypes
import os
import time

import torch

from daemon import Home, place
from measure import Row, cpu, interleave, percentile

CPU, DEVICE = torch.device("cpu"), torch.device("neuron")


def dispatch(home: Home) -> list[Row]:
    """CPU time of the calling thread for a + b, 4 x 4, cached, from Python."""
    calls = 500

    def loop(device):
        a, b = torch.ones(4, 4, device=device), torch.ones(4, 4, device=device)

        def run():
            for _ in range(calls):
                a + b

        return run

    ours, against = interleave(
        loop(DEVICE), loop(CPU), 41, clock=cpu, settle=torch.accelerator.synchronize
    )
    scale = 1e6 / calls
    return [
        Row(
            "dispatch",
            "CPU time of a + b, 4x4, against PyTorch CPU",
            "us",
            ours * scale,
            against * scale,
            "<= 1.5x",
            ours <= 1.5 * against,
        )
    ]


def chain(home: Home) -> list[Row]:
    """1,000 dependent small adds, then a sync; per op."""
    length = 1000

    def run_on(device):
        one = torch.ones(16, device=device)

        def run():
            x = one
            for _ in range(length):
                x = x + one
            return x.sum().item() if device.type == "cpu" else torch.accelerator.synchronize()

        return run

    ours, against = interleave(run_on(DEVICE), run_on(CPU), 15)
    scale = 1e6 / length
    return [
        Row(
            "chain",
            "1,000 dependent adds and a sync, per op, against PyTorch CPU",
            "us",
            ours * scale,
            against * scale,
            "<= 4x",
            ours <= 4 * against,
        )
    ]


def roundtrip(home: Home) -> list[Row]:
    """An op, then .item(): left to the kernel, on one core, on two cores."""
    daemon, cores = home.pid(), sorted(os.sched_getaffinity(0))
    placements = [
        ("left to the kernel", set(cores), set(cores)),
        ("one core", {cores[0]}, {cores[0]}),
    ]
    if len(cores) > 1:
        placements.append(("two cores", {cores[0]}, {cores[1]}))
    rows = []
    for name, client_cores, daemon_cores in placements:
        place(os.getpid(), client_cores)
        place(daemon, daemon_cores)
        times = _roundtrips(2000)
        p50, p99 = 1e6 * percentile(times, 0.5), 1e6 * percentile(times, 0.99)
        judged = name == "one core"
        rows.append(
            Row(
                "roundtrip",
                f"(x + 1).item(), p50, {name}",
                "us",
                p50,
                aim="<= 40 us" if judged else "report",
                met=p50 <= 40 if judged else None,
                note=f"{name}: p99 {p99:.0f} us",
            )
        )
    place(os.getpid(), set(cores))
    place(daemon, set(cores))
    return rows


def _roundtrips(count: int) -> list[float]:
    x = torch.zeros(4, device=DEVICE)[0]
    times = []
    for i in range(count + 50):
        start = time.perf_counter()
        (x + 1).item()
        if i >= 50:
            times.append(time.perf_counter() - start)
    return times


def _copies(name: str, make) -> Row:
    size = 64 << 20
    a, b = torch.ones(size // 4), torch.zeros(size // 4)

    def memcpy():
        ctypes.memmove(b.data_ptr(), a.data_ptr(), size)

    copy = make(a, torch.zeros(size // 4, device=DEVICE))
    ours, against = interleave(copy, memcpy, 15)
    gigabytes = size / 1e9
    ours, against = gigabytes / ours, gigabytes / against
    return Row(
        name, "64 MiB, against memcpy", "GB/s", ours, against, ">= 0.4x", ours >= 0.4 * against
    )


def upload(home: Home) -> list[Row]:
    def make(host, device):
        def run():
            device.copy_(host)
            torch.accelerator.synchronize()

        return run

    return [_copies("upload", make)]


def download(home: Home) -> list[Row]:
    def make(host, device):
        torch.accelerator.synchronize()
        target = torch.zeros_like(host)
        return lambda: target.copy_(device)

    return [_copies("download", make)]
