"""What the tracer keeps whole, the lowering must have: compared with `neurond-lower --ops`, where
that is built.
"""

import os
import pathlib
import subprocess

import pytest

import trace_harness

from torch_neuronx._trace.kept import KEPT  # isort: skip


def _tool():
    named = os.environ.get("NEURON_LOWER")
    if named:
        return named
    found = sorted(pathlib.Path(trace_harness.ROOT / "build").glob("**/neurond-lower"))
    return str(found[0]) if found else None


def test_kept_ops_are_lowered():
    tool = _tool()
    if tool is None:
        pytest.skip("neurond-lower is not built (NEURON_LOWER names it)")
    out = subprocess.run([tool, "--ops"], capture_output=True, text=True, check=True).stdout
    lowered = set(out.split())
    assert [op for op in KEPT if f"aten.{op}" not in lowered] == []


def test_the_list_is_sorted_and_has_no_repeats():
    assert sorted(set(KEPT)) == KEPT
