"""Failures on the device: raised once, at a synchronizing call, with op and the user's line."""

import pytest
import torch

INDEX_PROGRAM = """
import torch
x = torch.arange(4.0, device="neuron")
i = torch.tensor([1, 9], device="neuron")
def user_function():
    return x[i]          # the line
y = user_function()
z = y + 1                # depends on it
good = x * 2             # does not
try:
    torch.neuron.synchronize()
except IndexError as e:
    print(str(e))
    assert "out of bounds" in str(e) or "out of range" in str(e), str(e)
    assert "user_function" in str(e) and "line 6" in str(e), str(e)
    assert "neuron:0" in str(e)
else:
    raise SystemExit("no error")
torch.neuron.synchronize()   # reported once
assert good.cpu().tolist() == [0.0, 2.0, 4.0, 6.0]
"""


def test_index_out_of_range_raises_once_with_the_line(run_python):
    run_python(INDEX_PROGRAM)


def test_reading_a_failed_tensor_raises():
    x = torch.arange(4.0, device="neuron")
    y = x[torch.tensor([7], device="neuron")]
    with pytest.raises(IndexError):
        y.cpu()
    assert (x + 1).cpu().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_integer_division_by_zero():
    x = torch.tensor([4, 2], device="neuron")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.div(x, torch.tensor([2, 0], device="neuron"), rounding_mode="trunc").cpu()


def test_parameters_keep_their_last_values_after_a_failed_step():
    w = torch.ones(3, device="neuron")
    bad = torch.arange(3.0, device="neuron")[torch.tensor([5, 5, 5], device="neuron")]
    w.sub_(bad)
    with pytest.raises(IndexError):
        torch.neuron.synchronize()
    assert w.cpu().tolist() == [1.0, 1.0, 1.0]


OUT_OF_MEMORY = """
import torch
free, total = torch.neuron.mem_get_info()
assert total == 64 << 20, total
kept = torch.ones(4 << 20, device="neuron")
try:
    torch.empty(16 << 20, device="neuron")
except torch.OutOfMemoryError as e:
    assert "Tried to allocate 64.00 MiB" in str(e), e
else:
    raise SystemExit("no error")
try:
    torch.cat([kept] * 8)
except torch.OutOfMemoryError as e:
    assert "Tried to allocate 128.00 MiB" in str(e), e
else:
    raise SystemExit("no error")
assert (kept + 1).sum().item() == 8 << 20
"""


def test_out_of_memory_raises_at_the_call_and_does_not_stick(run_python):
    run_python(OUT_OF_MEMORY, NEURON_RT_DAEMON_ARGS=f"--device-memory-bytes {64 << 20}")


@pytest.mark.parametrize("value", ["1", "true"])
def test_strict_switch_forbids_the_cpu(run_python, value):
    out = run_python(
        "import torch; torch.nonzero(torch.ones(3, device='neuron'))",
        check=False,
        TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=value,
    )
    assert out.returncode != 0
    assert "nonzero" in out.stderr


FALLBACKS = """
import warnings, torch, torch_neuronx
warnings.simplefilter("always")
x = torch.tensor([0.0, 1.0, 2.0], device="neuron")
with warnings.catch_warnings(record=True) as caught:
    assert torch.nonzero(x).cpu().tolist() == [[1], [2]]
    assert torch.nonzero(x).shape == (2, 1)
texts = [str(w.message).split(" (")[0] for w in caught]
assert texts == ["neuron: aten::nonzero runs on the CPU: the size of its result depends on data"]
assert torch_neuronx.get_fallback_ops() == ["aten::nonzero"] * 2
torch_neuronx.clear_op_tracking()
assert torch_neuronx.get_fallback_ops() == []
"""


def test_fallbacks_are_counted_and_warn_once(run_python):
    run_python(FALLBACKS)
