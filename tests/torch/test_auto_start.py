"""The daemon that a torch process starts ends by itself, however its clients end."""

import os
import select
import shutil
import signal

CLIENT = """
import os, sys, torch, torch_neuronx._C as C
w = torch.ones(4, device="neuron", requires_grad=True)
(w * 2).sum().backward()
assert w.grad.tolist() == [2] * 4
print(C.session_info()["pid"], flush=True)
sys.stdin.readline()
"""


def ended(pid: int) -> bool:
    """Whether the process ends; patient, because the machine may be slow."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(60_000))
    finally:
        os.close(fd)


def test_an_idle_daemon_ends_after_its_last_client(own_daemon):
    own_daemon.daemon_args = "--idle-exit-seconds 1"
    clients = [own_daemon.start(CLIENT) for _ in range(2)]
    (pid,) = {int(client.stdout.readline()) for client in clients}
    os.kill(clients[0].pid, signal.SIGKILL)
    clients[1].communicate("\n")
    assert clients[1].returncode == 0
    assert ended(pid)
    assert not (own_daemon.home / "neurond.sock").exists()


def test_a_daemon_whose_directory_is_gone_ends_too(own_daemon):
    own_daemon.daemon_args = "--idle-exit-seconds 1 --cache-dir ''"  # nothing is written meanwhile
    client = own_daemon.start(CLIENT)
    pid = int(client.stdout.readline())
    shutil.rmtree(own_daemon.home)
    client.communicate("\n")
    assert client.returncode == 0
    assert ended(pid)


def test_training_on_the_cpu_starts_no_daemon(run_python):
    run_python(
        "import torch, torch_neuronx._C as C\n"
        "w = torch.ones(3, requires_grad=True)\n"
        "(w * 2).sum().backward()\n"
        "assert not C.is_connected()\n"
    )
