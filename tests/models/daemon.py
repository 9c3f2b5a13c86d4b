"""Processes that share one daemon in a home of their own, and what its counters say."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NEURON_BUILD_DIR", ROOT / "build" / "dev"))
NEURONCTL = BUILD / "client" / "cli" / "neuronctl"
JOB = pathlib.Path(__file__).with_name("job.py")


class Daemon:
    """The daemon that the first process started with this home starts."""

    def __init__(self, home: pathlib.Path):
        self.env = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(home),
            "NEURON_COMPILE_CACHE_URL": str(home / "cache"),
        }
        self.env.pop("NEURON_RT_ADDRESS", None)

    def start(self, model: str, mode: str, steps: int = 2) -> subprocess.Popen:
        command = [sys.executable, str(JOB), model, mode, str(steps)]
        return subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def finish(self, process: subprocess.Popen) -> dict:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err[-4000:]
        return json.loads(out.splitlines()[-1])

    def run(self, model: str, mode: str, steps: int = 2) -> dict:
        return self.finish(self.start(model, mode, steps))

    def counters(self) -> dict[str, int]:
        answer = self._neuronctl("stats", "--json")
        stats = json.loads(answer)
        return {
            "lowerings": int(stats["programs"]["lowerings"]),
            "compiles": int(stats["executables"]["compiles"]),
        }

    def stop(self) -> None:
        self._neuronctl("stop")

    def _neuronctl(self, *arguments: str) -> str:
        answer = subprocess.run(
            [NEURONCTL, *arguments], env=self.env, capture_output=True, text=True, timeout=60
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout
