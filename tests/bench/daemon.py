"""The benchmarks' own daemon: a temporary home, and what the kernel says about its process."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NEURON_BUILD_DIR", ROOT / "build" / "dev"))
GRAPH_BENCH = BUILD / "tests" / "bench" / "graph_bench"
NEURONCTL = BUILD / "client" / "cli" / "neuronctl"


class Home:
    """Socket, log and cache of one daemon, which the first client starts."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="neurond-bench-")
        self.variables = {
            "XDG_RUNTIME_DIR": self.folder,
            "NEURON_COMPILE_CACHE_URL": os.path.join(self.folder, "cache"),
        }
        self.env = {**os.environ, **self.variables}
        self.env.pop("NEURON_RT_ADDRESS", None)

    def neuronctl(self, *arguments: str) -> dict:
        answer = subprocess.run(
            [NEURONCTL, *arguments, "--json"],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=30,
        )
        if answer.returncode != 0:
            raise RuntimeError(f"neuronctl {' '.join(arguments)}: {answer.stderr.strip()}")
        return json.loads(answer.stdout)

    def pid(self) -> int:
        return int(self.neuronctl("info")["pid"])

    def close(self) -> None:
        with contextlib.suppress(Exception):
            subprocess.run([NEURONCTL, "stop"], env=self.env, capture_output=True, timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)


def cpu_ticks(pid: int) -> int:
    """User and system clock ticks that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def rss_mb(pid: int) -> float:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmRSS")


def place(pid: int, cores: set[int]) -> None:
    """Binds every thread of a process to cores."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cores)
