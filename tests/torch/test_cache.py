"""What one process learns for the next: refused ops too; never what a user registered."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile

import pytest

import torch_neuronx

PRELUDE = """
import json, torch, torch_neuronx
from torch_neuronx import metrics
x = torch.tensor([0.0, 3.0, 0.0, 4.0], device="neuron")
def tell(*values):
    counters = {name: int(metrics.get_counter_value("neuron." + name) or 0)
                for name in ("traces", "refused")}
    print(json.dumps({"values": values, "fallbacks": torch_neuronx.get_fallback_ops(), **counters}))
"""


@pytest.fixture
def run_here(run_python):
    """Runs processes of one daemon, one after the other; gives what they tell()."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="neurond-c-"))
    shared = {
        "NEURON_RT_ADDRESS": home / "neurond.sock",
        "NEURON_COMPILE_CACHE_URL": home / "cache",
    }

    def run(code: str, **env) -> dict:
        return json.loads(run_python(PRELUDE + code, **shared, **env).stdout.splitlines()[-1])

    yield run
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize(
    "call",
    [
        "x.nonzero()",  # its size depends on data
        "torch.linalg.eigvals(x.view(2, 2) + torch.eye(2, device='neuron')).abs()",  # no lowering
    ],
)
def test_a_refused_op_is_refused_again_without_a_trace(call, run_here):
    code = f"y = {call}\ntell(y.cpu().tolist())"
    first, second = run_here(code), run_here(code)
    assert first["refused"] > 0 and first["fallbacks"]
    assert second["values"] == first["values"]
    assert second["fallbacks"] == first["fallbacks"]
    assert second["traces"] == second["refused"] == 0


def test_a_refused_op_raises_the_same_error_in_the_next_process(run_here):
    code = """
x.nonzero()
try:
    torch.linalg.eigvals(x)
except Exception as e:
    tell(type(e).__name__, str(e))
"""
    first, second = run_here(code), run_here(code)
    assert first["values"] and second["values"] == first["values"]


def test_an_op_that_a_user_registered_is_never_remembered(run_here):
    code = """
lib = torch.library.Library("users", "DEF")
lib.define("times(Tensor x) -> Tensor")
lib.impl("times", lambda x: x * FACTOR, "CPU")
y = torch.ops.users.times(x)
tell(y.cpu().tolist())
"""
    first = run_here(code.replace("FACTOR", "2"))
    second = run_here(code.replace("FACTOR", "5"))
    assert first["values"] == [[0.0, 6.0, 0.0, 8.0]]
    assert second["values"] == [[0.0, 15.0, 0.0, 20.0]]
    assert first["traces"] == second["traces"] > 0
    assert "users::times" in second["fallbacks"]


def test_a_changed_tracer_meets_nothing_old(run_here, tmp_path):
    code = "y = x * 2 + 1\ntell(y.cpu().tolist(), torch_neuronx.__file__)"
    first, second = run_here(code), run_here(code)
    assert first["traces"] > 0 and second["traces"] == 0
    package = pathlib.Path(torch_neuronx.__file__).parent
    shutil.copytree(package, tmp_path / package.name, symlinks=True)
    with open(tmp_path / package.name / "_trace" / "twins.py", "a") as file:
        file.write("# changed\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    changed = run_here(code, PYTHONPATH=path)
    assert changed["values"][1].startswith(str(tmp_path))
    assert changed["values"][0] == first["values"][0]
    assert changed["traces"] == first["traces"]


def test_every_file_of_the_client_is_part_of_its_build(tmp_path):
    package = pathlib.Path(torch_neuronx.__file__).parent
    for path in package.rglob("*.py"):
        copy = tmp_path / "p" / path.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    binary = tmp_path / "shim.so"
    binary.write_bytes(b"one")
    spec = {"__file__": str(tmp_path / "p" / "_loader.py"), "__name__": "p._loader"}
    exec(compile((tmp_path / "p" / "_loader.py").read_text(), "_loader.py", "exec"), spec)
    seen = {spec["_client_build"](str(binary))}
    files = [*sorted((tmp_path / "p").rglob("*.py")), binary]
    for file in files:
        file.write_bytes(file.read_bytes() + b"\n# changed\n")
        seen.add(spec["_client_build"](str(binary)))
    # A file that moves to another folder is another client too.
    os.rename(tmp_path / "p" / "_stream.py", tmp_path / "p" / "_trace" / "_stream.py")
    seen.add(spec["_client_build"](str(binary)))
    assert len(seen) == len(files) + 2


def test_a_failing_graph_names_the_lines_of_the_process_that_runs_it(run_here, tmp_path):
    code = """
import importlib.util, torch
spec = importlib.util.spec_from_file_location("users", PATH)
users = importlib.util.module_from_spec(spec)
spec.loader.exec_module(users)
try:
    torch.compile(users.lookup, backend="neuron")(x, torch.tensor([1, 9], device="neuron")).cpu()
except IndexError as e:
    tell(str(e))
"""
    for name, lines_before in (("one", 0), ("two", 5)):
        file = tmp_path / f"{name}.py"
        file.write_text("\n" * lines_before + "def lookup(t, i):\n    return t[i] * 2\n")
        told = run_here(code.replace("PATH", repr(str(file))))["values"][0]
        assert f'{name}.py", line {lines_before + 2}' in told
        assert name == "one" or "one.py" not in told
