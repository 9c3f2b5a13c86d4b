"""The end of a process: failures nobody saw are told, and its status is its own, whatever runs."""

import pytest

UNSEEN = """
import sys, torch
from fault_kit import script
x = torch.arange(3.0, device="neuron")
x * x, x + x
torch.neuron.synchronize()
script("execute aten.mul.Tensor 1 fail-late first; execute aten.add.Tensor 1 fail-late second")
x * x  # MULTIPLICATION
x + x  # SUM
"""


@pytest.mark.parametrize(
    ("end", "status"), [("", 0), ("sys.exit(7)", 7), ("raise ValueError('mine')", 1)]
)
def test_failures_that_nobody_saw_are_printed(run_faulty, end, status):
    out = run_faulty(UNSEEN + end, check=False)
    assert out.returncode == status, out.stderr
    assert out.stderr.count("an error was never seen by the program") == 2
    first, second = out.stderr.index("first"), out.stderr.index("second")
    assert first < second
    assert "# MULTIPLICATION" in out.stderr[first:second]
    assert "# SUM" in out.stderr[second:]
    assert ("ValueError: mine" in out.stderr) == (status == 1)


def test_what_was_seen_is_not_printed_again(run_faulty):
    code = UNSEEN + (
        "for _ in range(2):\n"
        "    try:\n"
        "        torch.neuron.synchronize()\n"
        "    except RuntimeError:\n"
        "        pass\n"
    )
    assert "never seen" not in run_faulty(code).stderr


# Autograd's threads let go of a graph after backward() has returned, and need the GIL for it, which
# this program does not give away until it ends.
AFTER_BACKWARD = """
import sys, torch
xs = [torch.ones(2, device=f"neuron:{i}", requires_grad=True) for i in range(2)]
def loss():
    return sum((x * 2).sum().to("neuron:0") for x in xs)
loss().backward()
sys.setswitchinterval(1000)
END
sys.exit(7)
"""


@pytest.mark.parametrize(
    "end",
    [
        "loss().backward()",
        """
xs[0].register_hook(lambda grad: 1 / 0)
try:
    loss().backward()
except ZeroDivisionError:
    pass
""",
    ],
    ids=["good", "failed"],
)
def test_an_exit_right_after_backward_is_clean(run_python, end):
    for _ in range(3):
        out = run_python(AFTER_BACKWARD.replace("END", end), check=False)
        assert out.returncode == 7, out.stderr
        assert "terminate" not in out.stderr


THREADS = """
import sys, threading, torch
torch.ones(1, device="neuron").cpu()
started = threading.Barrier(4)

def ask():
    started.wait()
    while True:
        torch.neuron.mem_get_info()

for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
started.wait()
sys.exit(7)
"""


def test_threads_that_wait_for_the_daemon_do_not_abort_the_exit(run_python):
    out = run_python(THREADS, check=False)
    assert out.returncode == 7, out.stderr
    assert "terminate" not in out.stderr


def test_a_process_whose_daemon_is_gone_ends_with_its_own_status(run_python):
    code = (
        "import os, signal, sys, torch, torch_neuronx._C as C\n"
        "x = torch.ones(3, device='neuron')\n"
        "x.cpu()\n"
        "os.kill(C.session_info()['pid'], signal.SIGKILL)\n"
        "sys.exit(7)\n"
    )
    assert run_python(code, check=False).returncode == 7
