"""Which ops ran where, counted in C++ for every op."""

from . import _C

_LIST_MAX = 1_000_000  # a long training has more executions than a list should hold


def _expand(counts: dict) -> list:
    """One item per execution, as scripts expect; past _LIST_MAX items, in proportion."""
    total = sum(counts.values())
    scale = 1 if total <= _LIST_MAX else total / _LIST_MAX
    names = []
    for name, count in counts.items():
        names += [name] * max(1, int(count / scale))
    return names


def get_executed_ops() -> list:
    """Names of the ops that ran on the device, with repeats."""
    return _expand(_C.executed_ops())


def get_fallback_ops() -> list:
    """Names of the ops that ran on the CPU because no program could be made, with repeats."""
    return _expand(_C.fallback_ops())


def clear_op_tracking() -> None:
    _C.clear_op_counts()
