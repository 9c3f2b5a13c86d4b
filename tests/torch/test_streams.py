"""Streams and events, through torch.neuron and torch.accelerator."""

import pytest
import torch


def test_current_and_default_stream():
    assert torch.neuron.current_stream() == torch.neuron.default_stream()
    assert torch.neuron.default_stream().stream_id == 0
    s = torch.neuron.Stream(priority=-1)
    with torch.neuron.stream(s):
        assert torch.neuron.current_stream() == s
        assert torch.accelerator.current_stream().stream_id == s.stream_id
    assert torch.neuron.current_stream() == torch.neuron.default_stream()


def test_work_on_another_stream_sees_earlier_writes():
    x = torch.zeros(100, device="neuron")
    s = torch.neuron.Stream()
    for _ in range(10):
        x.add_(1)
    with torch.neuron.stream(s):
        y = x * 2
    x.zero_()
    s.synchronize()
    assert s.query()
    assert y.cpu()[0].item() == 20.0


def test_a_tensor_may_be_recorded_on_a_stream():
    side = torch.neuron.Stream()
    x = torch.ones(4, device="neuron")
    with torch.neuron.stream(side):
        y = x + 1
    x.record_stream(side)
    del x
    side.synchronize()
    assert y.tolist() == [2.0] * 4


def test_events():
    start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    s = torch.neuron.current_stream()
    start.record()
    x = torch.ones(64, 64, device="neuron")
    for _ in range(5):
        x = x @ x
    end.record(s)
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0
    other = torch.neuron.Stream()
    other.wait_event(end)
    other.wait_stream(s)
    assert other.record_event() is not None


def test_timing_needs_timed_events():
    a, b = torch.neuron.Event(), torch.neuron.Event()
    a.record()
    b.record()
    b.synchronize()
    with pytest.raises((RuntimeError, ValueError), match="enable_timing"):
        a.elapsed_time(b)


def test_accelerator_functions():
    assert torch.accelerator.current_accelerator().type == "neuron"
    torch.accelerator.synchronize()
    torch.accelerator.set_device_index(0)
    assert torch.accelerator.current_device_index() == 0
    assert torch.accelerator.memory_allocated() >= 0
