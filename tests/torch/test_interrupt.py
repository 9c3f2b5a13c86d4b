"""Ctrl-C, and whatever else a signal's handler raises, ends every wait for the daemon at once, and
leaves tensors, memory and session as they were before the call that waited."""

import pytest

# The daemon is stopped, so that waits last until they are interrupted. The handler lets most of the
# signals pass: the wait goes on after them, and by the last one the program surely waits.
PROGRAM = """
import os, signal, threading, torch, torch_neuronx
from fault_kit import stop
from torch_neuronx import _C

x = torch.arange(4.0, device="neuron")
y = torch.arange(4.0, device="neuron", requires_grad=True)
(y * 2).sum().backward()
y.grad = None
host = torch.arange(16 << 20)
big = host.to("neuron")
z = x + 1
session = _C.session_info()
torch.neuron.synchronize()
before = torch.neuron.memory_allocated()

# A function of its own: CPython 3.11 takes a signal between two turns of a loop that is the first
# thing within a try to lie outside of it.
def for_ever(call):
    while True:
        call()

handled = threading.Semaphore(0)
signals = 0

def handler(*_):
    global signals
    signals += 1
    handled.release()
    if signals == 20:
        raise KIND("enough")

def send():
    for _ in range(20):
        os.kill(os.getpid(), signal.SIGINT)
        handled.acquire()

signal.signal(signal.SIGINT, handler)
stop(session["pid"])
sender = threading.Thread(target=send, daemon=True)
sender.start()
kept = []
try:
    WAIT
except KIND as error:
    assert str(error) == "enough", error
else:
    raise AssertionError("no exception")
finally:
    os.kill(session["pid"], signal.SIGCONT)
sender.join()
signal.signal(signal.SIGINT, signal.SIG_DFL)
kept.clear()
y.grad = None
assert torch.neuron.memory_allocated() == before
assert x.tolist() == [0, 1, 2, 3] and z.tolist() == [1, 2, 3, 4]
assert torch.equal(big.cpu(), host)
(y * 2).sum().backward()
assert y.grad.tolist() == [2, 2, 2, 2]
assert _C.session_info() == session
assert not torch_neuronx.get_fallback_ops()
torch.neuron.synchronize()
"""

WAITS = {
    "item": "(x + 1)[0].item()",
    "read": "big.cpu()",
    "synchronize": "x + 1; torch.neuron.synchronize()",
    "accelerator": "x + 1; torch.accelerator.synchronize()",
    "event": "x + 1; e = torch.Event(device='neuron'); e.record(); e.synchronize()",
    "stream": "x + 1; torch.accelerator.current_stream().synchronize()",
    "full ring": "for_ever(lambda: z + 1)",
    "full ring of new tensors": "for_ever(lambda: kept.append(torch.empty(1, device='neuron')))",
    "new op": "x.sin()",
    "new graph": "torch.compile(lambda x: x.sin() + 1, backend='neuron')(x)",
    "memory": "torch.empty(1 << 30, dtype=torch.uint8, device='neuron')",
    "upload": "kept.append(host.to('neuron'))",
    "backward": "(y * 2).sum().backward(); y.grad.tolist()",
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_ends(run_python, wait):
    run_python(PROGRAM.replace("WAIT", wait).replace("KIND", "KeyboardInterrupt"))


def test_any_exception_of_a_handler_ends_it(run_python):
    run_python(PROGRAM.replace("WAIT", WAITS["item"]).replace("KIND", "LookupError"))


CONNECTING = """
import os, signal, threading, torch
def send():
    os.kill(os.getpid(), signal.SIGINT)
    sent.set()
sent = threading.Event()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    threading.Thread(target=send).start()
    torch.ones(1, device="neuron")
    sent.wait()
except KeyboardInterrupt:
    os.kill(int(os.environ["DAEMON"]), signal.SIGCONT)
else:
    raise AssertionError("no exception")
assert torch.ones(1, device="neuron").item() == 1
"""


def test_connecting_ends(own_daemon):
    first = own_daemon.start(
        "import torch\n"
        "from fault_kit import stop\n"
        "from torch_neuronx import _C\n"
        "torch.ones(1, device='neuron').item()\n"
        "pid = _C.session_info()['pid']\n"
        "stop(pid)\n"
        "print(pid, flush=True)\n"
        "input()\n"
    )
    own_daemon.run(CONNECTING, DAEMON=first.stdout.readline().strip())
    first.communicate("\n")
    assert first.returncode == 0


def test_an_interrupted_trace_is_no_verdict_on_the_op(run_python):
    """A handler that raises inside a trace ends the call; the next one traces again."""
    run_python(
        "import signal, torch, torch_neuronx\n"
        "from torch_neuronx import _C\n"
        "from torch_neuronx._trace import trace\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a job's may be ignored\n"
        "x = torch.ones(3, device='neuron')\n"
        "def interrupted(request):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return trace.trace(request)\n"
        "_C.set_tracer(interrupted)\n"
        "for call in (lambda: x + 1, lambda: torch.compile(torch.sin, backend='neuron')(x)):\n"
        "    try:\n"
        "        call()\n"
        "    except KeyboardInterrupt:\n"
        "        pass\n"
        "    else:\n"
        "        raise AssertionError('no KeyboardInterrupt')\n"
        "_C.set_tracer(trace.trace)\n"
        "assert (x + 1).tolist() == [2, 2, 2]\n"
        "torch.compile(torch.sin, backend='neuron')(x)\n"
        "assert not torch_neuronx.get_fallback_ops()\n"
    )
