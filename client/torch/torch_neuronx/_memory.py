"""Memory of a device: logical bytes of this process's tensors, and the grant that it holds for them
(`reserved`)."""

from . import _C
from ._utils import _get_device_index

_FIELDS = ("current", "peak", "allocated", "freed")


def memory_stats(device=None) -> dict:
    """Bytes, by nested keys (`["allocated_bytes"]["current"]`) and by flat ones
    (`["allocated_bytes.all.current"]`)."""
    if not _C.is_connected():
        flat = {}
    else:
        flat = _C.memory_stats(_get_device_index(device, True))
    stats = {}
    for name in (
        "allocated_bytes",
        "reserved_bytes",
        "active_bytes",
        "requested_bytes",
        "allocation",
        "active",
    ):
        nested = {field: flat.get(f"{name}.{field}", 0) for field in _FIELDS}
        for field, value in nested.items():
            stats[f"{name}.all.{field}"] = value
        stats[name] = nested
    for name in ("num_ooms", "num_alloc_retries"):
        stats[name] = flat.get(name, 0)
    return stats


def memory_allocated(device=None) -> int:
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None) -> int:
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None) -> int:
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device=None) -> int:
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device=None) -> None:
    if _C.is_connected():
        _C.reset_memory_stats(_get_device_index(device, True), True)


def reset_accumulated_memory_stats(device=None) -> None:
    if _C.is_connected():
        _C.reset_memory_stats(_get_device_index(device, True), False)


def empty_cache() -> None:
    """Gives the unused part of every grant back to the daemon."""
    _C.empty_cache()


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes of the device, over all processes."""
    return _C.mem_get_info(_get_device_index(device, True))


def memory_summary(device=None, abbreviated: bool = False) -> str:
    index = _get_device_index(device, True)
    stats = memory_stats(index)
    lines = [
        f"neuron:{index} memory, bytes",
        f"{'':<20}{'current':>16}{'peak':>16}{'allocated':>16}{'freed':>16}",
    ]
    for name in (
        ("allocated_bytes", "reserved_bytes")
        if abbreviated
        else ("allocated_bytes", "reserved_bytes", "allocation")
    ):
        row = stats[name]
        lines.append(f"{name:<20}" + "".join(f"{row[field]:>16,}" for field in _FIELDS))
    lines.append(f"out-of-memory errors: {stats['num_ooms']}")
    return "\n".join(lines)
