"""The quickstart's job as a test: the CPU's accuracy within a point, and no fallback."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_digits_reach_the_accuracy_of_the_cpu(device, tmp_path):
    curve = tmp_path / "digits.svg"
    command = [
        sys.executable, ROOT / "deploy" / "digits.py", "--device", device.type,
        "--epochs", "8", "--curve", curve,
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=600)
    assert answer.returncode == 0, answer.stdout[-4000:] + answer.stderr[-4000:]
    assert "PROBLEM" not in answer.stdout
    assert curve.read_text().count("<polyline") == 3
