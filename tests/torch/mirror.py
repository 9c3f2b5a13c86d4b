"""A function of a device, run on the CPU and on `neuron`, that must do the same on both.

`same_on_both(fn)` compares what `fn(device)` returns or raises and what it warns of: values,
sizes, strides, offset, dtype, version counter, conj and neg bits, the bytes of the storage.
"""

from __future__ import annotations

import re
import warnings

import torch

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


def text_of(error) -> str:
    """The first line of an error or warning without the device's and the tensor types' names."""
    text = str(error).split("\n")[0].split(" (Triggered")[0]
    text = re.sub(r"(CPU|neuron|torch\.)(\w+?)(Type|Tensor)\b", r"\2", text)
    return re.sub(r"\b(neuron|privateuseone)(:\d+)?", "cpu", text)


def attributes(tensor: torch.Tensor) -> dict:
    return {
        "dtype": tensor.dtype,
        "sizes": tuple(tensor.shape),
        "strides": tensor.stride(),
        "offset": tensor.storage_offset(),
        "version": tensor._version,
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "requires_grad": tensor.requires_grad,
        "bytes": tensor.untyped_storage().nbytes(),
    }


def equal(device, cpu, where: str = "", skip: tuple = ()) -> None:
    """`device` equals `cpu`: tensors in every attribute that is not in `skip`, containers item by
    item.
    """
    if isinstance(cpu, (list, tuple)):
        assert len(device) == len(cpu), where
        for i, (d, c) in enumerate(zip(device, cpu, strict=True)):
            equal(d, c, f"{where}[{i}]", skip)
        return
    if isinstance(cpu, dict):
        assert list(device) == list(cpu), where
        for key in cpu:
            equal(device[key], cpu[key], f"{where}.{key}", skip)
        return
    if not isinstance(cpu, torch.Tensor):
        assert device == cpu, f"{where}: {device}, the CPU: {cpu}"
        return
    a, b = attributes(device), attributes(cpu)
    different = {k: (a[k], b[k]) for k in a if a[k] != b[k] and k not in skip}
    assert not different, f"{where}: device and CPU: {different}"
    exact = not (cpu.is_floating_point() or cpu.is_complex())
    tolerance = 0 if exact else TOLERANCE.get(cpu.dtype, 1e-5)
    torch.testing.assert_close(
        device.detach().cpu().resolve_conj().resolve_neg(),
        cpu.detach().resolve_conj().resolve_neg(),
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
        msg=lambda m: f"{where}: {m}",
    )


def outcome(fn, device: str) -> tuple:
    """("returned", value) or the error's (type, text), and the texts of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = ("returned", fn(device))
            if device != "cpu":
                torch.neuron.synchronize()
        except Exception as e:  # whatever the CPU raises is what is wanted
            result = (type(e).__name__, text_of(e))
    texts = [text_of(w.message) for w in caught]
    return result, [t for t in texts if "computes float64 as float32" not in t]


def same_on_both(fn, skip: tuple = ()) -> None:
    want, want_warnings = outcome(fn, "cpu")
    got, got_warnings = outcome(fn, "neuron")
    if "returned" in (want[0], got[0]):
        assert got[0] == want[0], f"device: {got}, the CPU: {want}"
        equal(got[1], want[1], skip=skip)
    else:
        assert got == want
    assert got_warnings == want_warnings


def counting(device: str, *sizes, dtype=torch.float32) -> torch.Tensor:
    """1, 2, 3 ... 10, 0, 1 ... of these sizes."""
    numel = 1
    for size in sizes:
        numel *= size
    return (torch.arange(1, numel + 1) % 11).reshape(sizes).to(dtype).to(device)
