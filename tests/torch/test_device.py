"""The device is found, named and counted; indices that do not exist raise."""

import pytest
import torch

import torch_neuronx


def test_import_torch_alone_finds_the_device(run_python):
    out = run_python(
        "import torch; print(torch.device('neuron').type, torch.accelerator.current_accelerator(),"
        "torch.neuron.is_available(), torch.neuron.is_initialized())"
    )
    assert out.stdout.split() == ["neuron", "neuron", "True", "False"]


def test_every_name_for_the_device_works():
    x = torch.ones(3)
    for y in (x.to("neuron"), x.neuron(), x.to("neuron:0"), torch.ones(3, device="neuron")):
        assert y.device == torch.device("neuron", 0)
        assert y.is_neuron
        assert y.cpu().tolist() == [1.0, 1.0, 1.0]


def test_count_and_properties():
    assert torch.neuron.device_count() == torch.accelerator.device_count() >= 1
    properties = torch.neuron.get_device_properties(0)
    assert properties.name
    assert properties.total_memory >= 0
    assert torch.neuron.get_device_name() == properties.name


def test_a_device_that_does_not_exist_raises():
    for use in (
        lambda: torch.empty(1, device="neuron:99"),
        lambda: torch.ones(1).to("neuron:99"),
        lambda: torch.neuron.set_device(99),
        lambda: torch.neuron.synchronize(99),
        lambda: torch.neuron.get_device_properties(99),
        lambda: torch.neuron.memory_stats(99),
        lambda: torch.neuron.current_stream(99),
        lambda: torch.neuron.default_stream(99),
        lambda: torch.accelerator.current_stream(99),
        lambda: torch.neuron.Stream(99),
        lambda: torch.Generator("neuron:99"),
        lambda: torch.neuron.get_rng_state(99),
        lambda: torch.neuron.set_rng_state(torch.neuron.get_rng_state(), 99),
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal: neuron:99"):
            use()


def test_current_device_context():
    last = torch.neuron.device_count() - 1
    with torch.neuron.device(last):
        assert torch.neuron.current_device() == last
        assert torch.empty(1, device="neuron").device.index == last
    assert torch.neuron.current_device() == 0


def test_mixed_devices_raise_torchs_words():
    x = torch.ones(3, device="neuron")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3).add_(x)
    if torch.neuron.device_count() > 1:
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            x + torch.ones(3, device="neuron:1")


def test_copies_between_devices():
    if torch.neuron.device_count() < 2:
        pytest.skip("one device")
    x = torch.arange(12.0).reshape(3, 4)
    y = x.to("neuron:0").t().to("neuron:1")
    assert y.device.index == 1
    assert torch.equal(y.cpu(), x.t())
    assert torch.equal((y * 2).cpu(), x.t() * 2)


def test_package_names():
    for name in torch_neuronx.__all__:
        assert hasattr(torch_neuronx, name)
    for name in (
        "is_available",
        "synchronize",
        "Stream",
        "Event",
        "memory_stats",
        "get_dynamo_metrics",
    ):
        assert hasattr(torch.neuron, name)


@pytest.mark.parametrize("first", ["torch", "torch_neuronx"])
def test_either_package_may_be_imported_first(first, run_python):
    out = run_python(f"import {first}, torch; print(torch.ones(1, device='neuron').is_neuron)")
    assert out.stdout.split() == ["True"]


# Autograd asks once how many devices there are, here before there is a daemon to ask.
MANY = """
import torch, torch_neuronx._C as C
w = torch.ones(3, requires_grad=True)
(w * 2).sum().backward()
assert not C.is_connected()
assert torch.neuron.device_count() == torch.accelerator.device_count() == 8
for index in range(8):
    x = torch.full((3,), float(index), device=f"neuron:{index}", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2 * index] * 3
try:
    torch.ones(1, device="neuron:8")
except RuntimeError as e:
    assert "invalid device ordinal: neuron:8 (this process sees 8 devices)" in str(e), e
else:
    raise AssertionError("no error")
"""


def test_autograd_serves_every_device_whenever_it_started(run_faulty):
    run_faulty(MANY, NEURON_RT_DAEMON_ARGS="--devices 8")


def test_a_later_daemon_shows_no_more_devices_than_autograd_knows(own_daemon):
    code = """
import os, signal, torch, torch_neuronx._C as C, torch_neuronx._loader as loader
from fault_kit import raises
x = torch.ones(2, device="neuron", requires_grad=True)
(x * 2).sum().backward()
assert torch.neuron.device_count() == 2
os.kill(C.session_info()["pid"], signal.SIGKILL)
with raises(RuntimeError, "has ended"):
    x.cpu()
os.environ["NEURON_RT_DAEMON_ARGS"] += " --devices 4"
C.configure(loader._daemon_path(), loader._daemon_args(), "other")
assert torch.neuron.device_count() == 2
y = torch.ones(2, device="neuron:1", requires_grad=True)
(y * 2).sum().backward()
assert y.grad.tolist() == [2, 2]
"""
    own_daemon.run(code, NEURON_RT_DAEMON_ARGS="--devices 2")
