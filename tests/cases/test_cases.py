"""Every case file as a test."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
FOLDER = pathlib.Path(os.environ.get("NEURON_CASES", HERE))
DEVICE = os.environ.get("NEURON_TEST_DEVICE", "neuron")
TIMEOUT_S = 180


def constant(path: pathlib.Path, name: str) -> str:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return ast.literal_eval(node.value)
    return ""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("c[0-9]*.py")), ids=lambda path: path.stem)
def test_case(path):
    if constant(path, "KIND") == "distributed":
        pytest.skip("torch.distributed over neuron is not there yet")
    command = [sys.executable, HERE / "run_case.py", path, DEVICE]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pytest.fail(f"{constant(path, 'SYMPTOM')}: did not end within {TIMEOUT_S} s")
    end = answer.stderr.strip().splitlines()[-12:]
    assert answer.returncode == 0, constant(path, "SYMPTOM") + "\n" + "\n".join(end)
