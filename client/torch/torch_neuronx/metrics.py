"""Counters by name: ops on the device, ops on the CPU, the miss path."""

from . import _C

_cleared = {}


def _all() -> dict:
    counters = {f"neuron.{name}": n for name, n in _C.counters().items()}
    counters |= {f"executed.{name}": n for name, n in _C.executed_ops().items()}
    counters |= {f"fallback.{name}": n for name, n in _C.fallback_ops().items()}
    return counters


def get_counter_names() -> list:
    return sorted(_counters())


def get_counter_value(name: str):
    """The counter's value, or None if there is no such counter."""
    return _counters().get(name)


def _counters() -> dict:
    current = {name: n - _cleared.get(name, 0) for name, n in _all().items()}
    return {name: n for name, n in current.items() if n > 0}


def get_metric_names() -> list:
    return sorted({name.split(".")[0] for name in _counters()})


def get_metric_data(name: str):
    """(count, total) over the counters of a group ("neuron", "executed", "fallback"), or None."""
    values = [n for key, n in _counters().items() if key.split(".")[0] == name]
    return (len(values), sum(values)) if values else None


def clear_all() -> None:
    _cleared.clear()
    _cleared.update(_all())


def report() -> str:
    counters = _counters()
    return "\n".join(f"{name}: {counters[name]}" for name in sorted(counters))
