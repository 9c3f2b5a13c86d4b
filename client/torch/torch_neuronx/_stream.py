"""Streams and events: torch.Stream and torch.Event on this device, with scripts' names."""

import torch

from . import _C
from ._utils import _get_device_index


class Stream(torch.Stream):
    """An in-order queue of work. `priority` is accepted; streams may share a hardware queue."""

    def __new__(cls, device=None, priority=0, **kwargs):
        if kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(
            cls, device=torch.device("neuron", _get_device_index(device, True)), priority=priority
        )

    def wait_event(self, event) -> None:
        event.wait(self)

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event


class _EventType(type):
    def __instancecheck__(cls, event):
        return isinstance(event, torch.Event) and event.device.type == "neuron"


class Event(metaclass=_EventType):
    """A torch.Event of this device. torch.Event refuses subclasses of itself in elapsed_time."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        return torch.Event(
            "neuron",
            enable_timing=enable_timing,
            blocking=blocking,
            interprocess=interprocess,
        )


def _wrap(stream: torch.Stream) -> Stream:
    if isinstance(stream, Stream):
        return stream
    return Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )


def current_stream(device=None) -> Stream:
    return _wrap(torch.accelerator.current_stream(_get_device_index(device, True)))


def default_stream(device=None) -> Stream:
    index = _get_device_index(device, True)
    kind = torch.accelerator.current_stream(index).device_type
    return Stream(stream_id=0, device_index=index, device_type=kind)


def set_stream(stream) -> None:
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Makes a stream the current one of its device within a `with`; None does nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is None:
            return None
        self._device = _C.current_device()
        _C.set_device(self.stream.device_index)
        self._before = torch.accelerator.current_stream(self.stream.device_index)
        torch.accelerator.set_stream(self.stream)
        return self.stream

    def __exit__(self, *exc):
        if self.stream is None:
            return
        torch.accelerator.set_stream(self._before)
        _C.set_device(self._device)


def stream(stream) -> StreamContext:
    return StreamContext(stream)
