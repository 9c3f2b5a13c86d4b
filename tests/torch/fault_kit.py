"""For programs that tests run in processes of their own: steer the fake plugin, expect failures.

The user's line of a failure is told by its source: the program marks it with a comment.
"""

import contextlib
import glob
import os
import signal

import torch


def script(text: str) -> None:
    """The fake plugin's rules from now on; they count from here."""
    path = os.environ["NEURON_TEST_SCRIPT"]
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


@contextlib.contextmanager
def raises(kind, *parts):
    """The body raises `kind` (not a subclass) and its text has all the parts."""
    try:
        yield
    except Exception as error:
        text = str(error)
        assert type(error) is kind, f"expected {kind.__name__}, got {type(error).__name__}: {text}"
        for part in parts:
            assert part in text, f"expected {part!r} in: {text}"
    else:
        raise AssertionError(f"no {kind.__name__}")


def nothing_left() -> None:
    """Every failure was reported: no synchronizing call has one to raise."""
    torch.accelerator.synchronize()
    torch.accelerator.current_stream().synchronize()
    event = torch.Event(device="neuron")
    event.record()
    event.synchronize()
    (torch.ones(1, device="neuron") + 1).item()


def stop(pid: int) -> None:
    """Stops the process (SIGSTOP), and returns once none of its threads runs any more."""
    os.kill(pid, signal.SIGSTOP)
    for stat in glob.glob(f"/proc/{pid}/task/*/stat"):
        with open(stat) as file:
            while file.read().rpartition(")")[2].split()[0] != "T":
                file.seek(0)
