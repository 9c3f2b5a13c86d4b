"""Processes: fork, a daemon that dies, a second process that finds everything made."""

FORK = """
import os, sys, torch
x = torch.ones(3, device="neuron")
x.cpu()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        try:
            x + 1
        except RuntimeError as e:
            code = 0 if "forked subprocess" in str(e) else 2
        del x
    finally:
        os._exit(code)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert (x + 1).cpu().tolist() == [2.0, 2.0, 2.0]
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

DAEMON_DEATH = """
import os, signal, time, torch
import torch_neuronx._C as C
x = torch.ones(3, device="neuron")
x.cpu()
os.kill(C.session_info()["pid"], signal.SIGKILL)
time.sleep(0.3)
for attempt in range(2):
    try:
        (x + 1).cpu()
    except RuntimeError as e:
        assert "daemon" in str(e), e
    else:
        raise SystemExit("no error")
y = torch.ones(3, device="neuron")
assert (y + 1).cpu().tolist() == [2.0, 2.0, 2.0]
try:
    x.cpu()
except RuntimeError as e:
    assert "daemon" in str(e), e
else:
    raise SystemExit("an old handle came back to life")
del x
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
    run_python(FORK)


def test_forked_data_loader_workers(run_python):
    run_python(LOADER)


def test_daemon_death_is_a_clear_error_and_the_next_use_starts_anew(run_python):
    run_python(DAEMON_DEATH)


def test_a_second_process_traces_nothing(run_python, tmp_path):
    import pathlib
    import shutil
    import tempfile

    home = pathlib.Path(tempfile.mkdtemp(prefix="neurond-w-"))
    env = {
        "NEURON_RT_ADDRESS": home / "neurond.sock",
        "NEURON_COMPILE_CACHE_URL": home / "cache",
    }
    try:
        cold = run_python(WARM, **env).stdout.split()
        warm = run_python(WARM, **env).stdout.split()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    assert int(cold[1]) > 0
    assert int(warm[1]) == 0
    assert cold[0] == warm[0]
