"""Processes: fork, clients and daemons that are killed, a second process that finds all made."""

FORK = """
import gc, os, sys, torch
from fault_kit import raises

def child(end):
    pid = os.fork()
    if pid == 0:
        try:
            end()
        except SystemExit:
            raise
        except BaseException as e:
            print(e, file=sys.stderr)
            os._exit(1)
        sys.exit(0)  # through atexit, with the inherited tensors alive
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def use():
    assert torch.ones(2, device="neuron").sum().item() == 2

def used_before():
    uses = {
        "op": lambda: x + 1, "new": lambda: torch.ones(2, device="neuron"), "read": x.cpu,
        "write": lambda: x.copy_(torch.zeros(3)), "item": lambda: x[0].item(),
        "graph": lambda: compiled(x), "event": lambda: torch.Event(device="neuron").record(),
        "memory": lambda: torch.neuron.mem_get_info(),
    }
    for name, call in uses.items():
        with raises(RuntimeError, "forked subprocess", "spawn"):
            call()
    assert torch.neuron._is_in_bad_fork()

def drops_everything():
    global x
    del x
    others.clear()
    gc.collect()
    torch.neuron.synchronize()

assert child(use) == 0  # before its parent's first use, a child is a process like any other
x = torch.ones(3, device="neuron")
compiled = torch.compile(lambda x: x.sin() + 1, backend="neuron")
compiled(x).cpu()
others = [torch.full((1000,), float(i), device="neuron") for i in range(20)]
w = torch.ones(2, device="neuron", requires_grad=True)
(w * 3).sum().backward()
for end in (used_before, drops_everything, lambda: None, lambda: os._exit(0)):
    assert child(end) == 0, end
    assert (x + 1).tolist() == [2, 2, 2]
    assert [o[7].item() for o in others] == list(range(20))
    (w * 3).sum().backward()
assert w.grad.tolist() == [15, 15]
"""

LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
x = torch.ones(3, device="neuron"); x.cpu()
data = TensorDataset(torch.arange(16.0))
total = 0.0
for (batch,) in DataLoader(data, batch_size=4, num_workers=2, pin_memory=True):
    total += batch.to("neuron").sum().item()
assert total == 120.0
"""

# Starts clients that are killed, and asks the daemon for its free memory.
KILLED_CLIENT = """
import os, subprocess, sys, torch

VICTIM = '''
import os, sys, torch
x = torch.ones(8 << 20, device="neuron")
x.cpu()
forks = sys.argv[1] == "True"
child = os.fork() if forks else 0
if child or not forks:
    print(child, flush=True)
sys.stdin.read()
'''

def free():
    return torch.neuron.mem_get_info()[0]

before = free()
for forks in (False, True):
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(forks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    child = int(victim.stdout.readline())
    assert free() <= before - (32 << 20)
    victim.kill()
    while free() != before:
        pass
    assert victim.wait() == -9
    if child:
        os.kill(child, 0)  # it lives, and holds the connection's descriptor
        os.kill(child, 9)
"""

CLIENT_OF_A_KILLED_DAEMON = """
import os, sys, torch, torch_neuronx._C as C
from fault_kit import raises, script

def loss_of(model):
    return model(torch.ones(2, 3, device="neuron")).square().mean()

compiled = torch.compile(loss_of, backend="neuron")

def train(loss_of, steps):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 3).to("neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    while len(losses) != steps:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == 2:
            ready()
    return losses

def ready():
    print(C.session_info()["pid"], flush=True)

def idle():
    ready()
    sys.stdin.readline()
    x.cpu()

def waiting():
    script("execute aten.sinh* 1 slow 600000")
    y = torch.ones(3, device="neuron:1").sinh()  # a device of its own: others must not wait for it
    ready()
    torch.neuron.synchronize("neuron:1")

def training():
    train(loss_of, -1)

def compiled_training():
    train(compiled, -1)

x = torch.ones(3, device="neuron")
x.cpu()
with raises(RuntimeError, "daemon", "has ended"):
    globals()[os.environ["ROLE"]]()
with raises(RuntimeError, "daemon", "has ended"):
    x + 1
# The next use starts anew, in the same process; what was before stays lost.
y = torch.ones(3, device="neuron")
assert (y + 1).tolist() == [2, 2, 2]
for lost in (x.cpu, lambda: x + 1, lambda: y + x, lambda: x.zero_()):
    with raises(RuntimeError, "daemon", "has ended"):
        lost()
eager = train(loss_of, 4)
assert eager[3] < eager[0]
torch.testing.assert_close(train(compiled, 4), eager)
del x
sys.stdin.readline()
"""

WARM = """
import torch, torch_neuronx
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to("neuron")
opt = torch.optim.AdamW(m.parameters(), lr=1e-2)
for _ in range(3):
    loss = m(torch.ones(5, 4, device="neuron")).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
print(loss.item(), torch_neuronx.metrics.get_counter_value("neuron.traces") or 0)
"""


def test_a_forked_child_gets_an_error_and_leaves_the_parent_unharmed(run_python):
    out = run_python(FORK)
    assert "terminate" not in out.stderr


def test_forked_data_loader_workers(run_python):
    run_python(LOADER)


def test_a_killed_clients_memory_is_freed_even_while_its_child_lives(run_python):
    run_python(KILLED_CLIENT)


def test_a_killed_daemon_is_a_clear_error_for_every_client_and_the_next_use_starts_anew(own_daemon):
    import os
    import signal

    own_daemon.fake()
    roles = ["idle", "training", "compiled_training", "waiting"]
    clients = [own_daemon.start(CLIENT_OF_A_KILLED_DAEMON, ROLE=role) for role in roles]
    first = {client.stdout.readline() for client in clients}
    assert len(first) == 1
    os.kill(int(first.pop()), signal.SIGKILL)
    clients[0].stdin.write("go\n")
    clients[0].stdin.flush()
    # Each trains anew; one daemon serves them all.
    second = {client.stdout.readline() for client in clients}
    assert len(second) == 1, second
    for role, client in zip(roles, clients):
        out, err = client.communicate("done\n", timeout=300)
        assert client.returncode == 0, f"{role}: {out}{err}"


def test_a_second_process_traces_nothing(own_daemon):
    cold = own_daemon.run(WARM).stdout.split()
    warm = own_daemon.run(WARM).stdout.split()
    assert int(cold[1]) > 0
    assert int(warm[1]) == 0
    assert cold[0] == warm[0]
