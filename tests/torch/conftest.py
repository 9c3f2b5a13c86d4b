"""Fixtures of tests/torch: one daemon for the run, with a socket, log and cache of its own."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

# Before torch is imported: its autoload reads these.
# Not pytest's tmp_path: a socket's path has 108 bytes at most.
_HOME = pathlib.Path(tempfile.mkdtemp(prefix="neurond-torch-"))
os.environ.setdefault("NEURON_RT_ADDRESS", str(_HOME / "neurond.sock"))
os.environ.setdefault("NEURON_COMPILE_CACHE_URL", str(_HOME / "cache"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import torch  # noqa: E402

torch.set_num_threads(1)


def pytest_sessionfinish(session, exitstatus):
    log = _HOME / "neurond.log"
    if exitstatus and log.exists():
        sys.stderr.write(f"\n--- {log} ---\n" + log.read_text(errors="replace")[-4000:])
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """A test that leaves an unreported failure fails itself, not its successor."""
    yield
    if hasattr(torch, "neuron"):
        torch.neuron.synchronize()


@pytest.fixture
def no_fallback():
    import torch_neuronx

    torch_neuronx.clear_op_tracking()
    yield
    assert not torch_neuronx.get_fallback_ops()


class OwnDaemon:
    """A home with socket, cache and log for programs that must not share the run's daemon. The
    daemon that they start ends by itself soon after them."""

    def __init__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="neurond-p-"))
        self.script = self.home / "script"
        self.script.touch()
        self.env = {
            "NEURON_RT_ADDRESS": str(self.home / "neurond.sock"),
            "NEURON_COMPILE_CACHE_URL": str(self.home / "cache"),
            "NEURON_TEST_SCRIPT": str(self.script),
            "PYTHONPATH": os.pathsep.join(
                [str(pathlib.Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        }
        self.daemon_args = "--idle-exit-seconds 5"

    def fake(self):
        """Its devices fail as the script says (fault_kit.script)."""
        self.daemon_args += f" --plugin-kind fake --script-file {self.script}"
        return self

    def start(self, code: str, **env) -> subprocess.Popen:
        # A file, so that errors can show the lines.
        program = pathlib.Path(tempfile.mkdtemp(dir=self.home)) / "program.py"
        program.write_text(code)
        args = f"{self.daemon_args} {env.pop('NEURON_RT_DAEMON_ARGS', '')}"
        env = self.env | {k: str(v) for k, v in env.items()} | {"NEURON_RT_DAEMON_ARGS": args}
        return subprocess.Popen(
            [sys.executable, str(program)],
            env=os.environ | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, check: bool = True, **env) -> subprocess.CompletedProcess:
        process = self.start(code, **env)
        out, err = process.communicate(timeout=300)
        if check:
            assert process.returncode == 0, out + err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def own_daemon():
    daemon = OwnDaemon()
    yield daemon
    shutil.rmtree(daemon.home, ignore_errors=True)


@pytest.fixture
def run_python(own_daemon):
    """Runs a program in a process and with a daemon of its own, unless `env` says otherwise."""
    return own_daemon.run


@pytest.fixture
def run_faulty(own_daemon):
    """The same with the fake plugin around the CPU's: fault_kit steers it."""
    return own_daemon.fake().run
