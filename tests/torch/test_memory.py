"""Memory statistics count live storages."""

import gc

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
