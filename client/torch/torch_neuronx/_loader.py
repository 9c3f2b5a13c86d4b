"""Registers the device with torch, once: name, C++ kernels, Python module, tracer, daemon."""

import atexit
import hashlib
import os
import pathlib
import shlex
import sys

import torch

_loaded = False


def load() -> None:
    global _loaded
    if _loaded:
        return
    _loaded = True
    torch.utils.rename_privateuse1_backend("neuron")
    from . import _C

    _C.configure(_daemon_path(), _daemon_args(), _client_build(_C.__binary_file__))
    _C.register(*(f"{pathlib.Path(file).parent}/" for file in (torch.__file__, __file__)))
    _C.set_tracer(_trace)
    from . import neuron

    torch._register_device_module("neuron", neuron)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    from . import _dynamo_interface, _patches

    _patches.apply()
    _dynamo_interface.register_when_imported()
    atexit.register(_before_exit)


def _trace(request: dict) -> dict:
    """The tracer is imported at the first miss: warm processes never pay for it."""
    from ._trace.trace import trace

    return trace(request)


def _config(name: str) -> str:
    try:
        from . import _build_config
    except ImportError:
        return ""
    return getattr(_build_config, name)


def _daemon_path() -> str:
    if "NEURON_RT_DAEMON" in os.environ:
        return os.environ["NEURON_RT_DAEMON"]
    bundled = pathlib.Path(__file__).parent / "_bin" / "neurond"
    return str(bundled) if bundled.exists() else _config("DAEMON")


def _daemon_args() -> list:
    args = []
    plugin = os.environ.get("NEURON_PJRT_PLUGIN")
    if plugin is None:
        bundled = pathlib.Path(__file__).parent / "_bin" / "pjrt_cpu.so"
        plugin = str(bundled) if bundled.exists() else _config("PLUGIN")
    if plugin:
        args += ["--plugin", plugin]
    return args + shlex.split(os.environ.get("NEURON_RT_DAEMON_ARGS", ""))


def _client_build(binary: str) -> str:
    """Names this build of tracer, shim and torch: what one build traced, another never runs."""
    package = pathlib.Path(__file__).parent
    parts = [torch.__version__.encode(), pathlib.Path(binary).read_bytes()]
    for path in sorted(package.rglob("*.py")):
        parts += [str(path.relative_to(package)).encode(), path.read_bytes()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d\0%b" % (len(part), part))
    return digest.hexdigest()[:32]


def _before_exit() -> None:
    """Waits for autograd's threads and, a while, for the device: failures that no synchronizing
    call has raised are at least printed."""
    from . import _C

    try:
        unseen = _C.take_unreported()
    except Exception as error:  # the program's own end and status stand
        unseen = [str(error)]
    for text in unseen:
        print(f"neuron: an error was never seen by the program:\n{text}", file=sys.stderr)
