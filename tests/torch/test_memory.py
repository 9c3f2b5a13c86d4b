"""Memory statistics count live storages."""

import gc

import pytest
import torch


def test_allocated_bytes_follow_tensors():
    gc.collect()
    before = torch.neuron.memory_allocated()
    x = torch.empty(1000, device="neuron")
    assert torch.neuron.memory_allocated() == before + 4000
    y = x[10:]
    assert torch.neuron.memory_allocated() == before + 4000
    del x, y
    assert torch.neuron.memory_allocated() == before


def test_nested_and_flat_keys_agree():
    torch.ones(5, device="neuron")
    stats = torch.neuron.memory_stats()
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes"):
        for field in ("current", "peak", "allocated", "freed"):
            assert stats[name][field] == stats[f"{name}.all.{field}"]
    assert torch.accelerator.memory_allocated() == torch.neuron.memory_allocated()
    assert torch.neuron.memory_reserved() >= torch.neuron.memory_allocated()


def test_peak_and_reset():
    torch.neuron.reset_peak_memory_stats()
    base = torch.neuron.memory_allocated()
    x = torch.empty(5000, device="neuron")
    del x
    assert torch.neuron.max_memory_allocated() >= base + 20000
    torch.neuron.reset_peak_memory_stats()
    assert torch.neuron.max_memory_allocated() == torch.neuron.memory_allocated()


def test_empty_cache_returns_the_grant():
    torch.ones(5, device="neuron")
    torch.neuron.empty_cache()
    assert torch.neuron.memory_reserved() == torch.neuron.memory_allocated()
    free, total = torch.neuron.mem_get_info()
    assert 0 < free <= total
    assert "allocated" in torch.neuron.memory_summary()


TRAIN = """
import gc
import torch
from fault_kit import raises

def train(batch, width=256):
    model = torch.nn.Sequential(
        torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
    ).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x = torch.randn(batch, 64).to("neuron")
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]

total = torch.neuron.mem_get_info()[1]
assert total == 32 << 20, total
for _ in range(2):
    with raises(torch.OutOfMemoryError, "Tried to allocate", "total capacity of 32.00 MiB"):
        train(40_000)  # one activation alone is larger than the device
    torch.neuron.synchronize()  # refused at the call: nothing is left to report
    train(1_000)
stats = torch.neuron.memory_stats()
assert stats["num_ooms"] == 2
gc.collect()  # an optimizer is in a cycle
assert torch.neuron.memory_allocated() == 0
x = torch.empty(7 << 20, device="neuron")  # 28 MiB: all is free again
"""


def test_a_smaller_step_trains_after_running_out_of_memory(run_python):
    run_python(TRAIN, NEURON_RT_DAEMON_ARGS=f"--device-memory-bytes {32 << 20}")


def test_memory_never_written_reads_as_zeros():
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16):
        assert torch.equal(
            torch.empty(5, dtype=dtype, device="neuron").cpu(), torch.zeros(5, dtype=dtype)
        )
    x = torch.empty(4, 3, device="neuron")
    x[1] = 7  # a partial write keeps the rest
    assert x.tolist() == [[0] * 3, [7] * 3, [0] * 3, [0] * 3]
    y = torch.empty(3, device="neuron")
    y[:2].copy_(torch.ones(2))  # from the host
    assert y.tolist() == [1, 1, 0]
    assert (torch.empty(3, device="neuron") + torch.empty_like(y)).tolist() == [0] * 3
    z = torch.empty(2, device="neuron")
    z.resize_(4)
    assert z.tolist() == [0] * 4


def test_freed_memory_is_never_seen_again():
    for _ in range(20):
        x = torch.full((1000,), 7.0, device="neuron")
        (x + 1).cpu()
        del x
        assert torch.empty(1000, device="neuron").count_nonzero().item() == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda d, device: torch.empty(3, dtype=d, device=device),
        lambda d, device: torch.empty_strided((2, 2), (1, 3), dtype=d, device=device),
        lambda d, device: torch.empty_like(torch.zeros(3, dtype=d, device=device)),
        lambda d, device: torch.zeros(2, dtype=d, device=device).resize_(5)[2:],
    ],
    ids=["empty", "empty_strided", "empty_like", "resize_"],
)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool]
)
def test_deterministic_fill_is_as_on_the_cpu(make, dtype):
    torch.use_deterministic_algorithms(True)
    try:
        cpu, device = make(dtype, "cpu"), make(dtype, "neuron").cpu()
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(device, cpu, rtol=0, atol=0, equal_nan=True)
    assert device.isnan().all() if dtype.is_floating_point else (device != 0).all()
