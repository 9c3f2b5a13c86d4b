"""Processes that share one daemon in a home of their own, and what its counters say."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NEURON_BUILD_DIR", ROOT / "build" / "dev"))
NEURONCTL = BUILD / "client" / "cli" / "neuronctl"
JOB = pathlib.Path(__file__).with_name("job.py")


def neuronctl(env: Mapping[str, str], *arguments: str) -> str:
    answer = subprocess.run(
        [NEURONCTL, *arguments], env=env, capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def counters(env: Mapping[str, str]) -> dict[str, int]:
    """How much the daemon of this environment has lowered and compiled."""
    stats = json.loads(neuronctl(env, "stats", "--json"))
    return {
        "lowerings": int(stats["programs"]["lowerings"]),
        "compiles": int(stats["executables"]["compiles"]),
    }


class Daemon:
    """The daemon that the first process started with this home starts.

    Every process has another order of its hash tables: nothing that two processes share may depend
    on that.
    """

    def __init__(self, home: pathlib.Path):
        self.env = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(home),
            "NEURON_COMPILE_CACHE_URL": str(home / "cache"),
        }
        self.env.pop("NEURON_RT_ADDRESS", None)
        self._hash_seeds = itertools.count(1)

    def start(self, mode: str, models: Iterable[str], steps: int = 2) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, str(JOB), mode, str(steps), *models],
            env={**self.env, "PYTHONHASHSEED": str(next(self._hash_seeds))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen) -> dict[str, dict]:
        """Model -> its line (job.py)."""
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err[-4000:]
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return {line["model"]: line for line in lines}

    def run(self, mode: str, models: Iterable[str], steps: int = 2) -> dict[str, dict]:
        return self.finish(self.start(mode, models, steps))

    def counters(self) -> dict[str, int]:
        return counters(self.env)

    def stop(self) -> None:
        neuronctl(self.env, "stop")


@contextlib.contextmanager
def own_daemon():
    """A Daemon with an empty cache, ended and removed afterwards."""
    home = tempfile.mkdtemp(prefix="neurond-")  # short: a socket's path has 108 bytes at most
    daemon = Daemon(pathlib.Path(home))
    try:
        yield daemon
        daemon.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
