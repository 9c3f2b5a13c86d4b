"""What Dynamo asks about a device while it traces.

Registered as soon as torch._dynamo is imported, never before: importing it takes seconds that
`import torch` should not pay.
"""

import importlib.abc
import importlib.util
import sys

_MODULE = "torch._dynamo.device_interface"


def register_when_imported() -> None:
    if _MODULE in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _AfterImport())


class _AfterImport(importlib.abc.MetaPathFinder):
    """Lets the ordinary finders import one module, and registers when it has run."""

    def find_spec(self, name, path=None, target=None):
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            _register(module)

        spec.loader.exec_module = exec_module
        return spec


def _register(module=None) -> None:
    module = sys.modules[_MODULE] if module is None else module
    import torch

    from . import neuron

    class NeuronInterface(module.DeviceInterface):
        device = neuron.device
        Event = neuron.Event
        Stream = neuron.Stream
        current_device = staticmethod(neuron.current_device)
        set_device = staticmethod(neuron.set_device)
        device_count = staticmethod(neuron.device_count)
        is_available = staticmethod(neuron.is_available)
        stream = staticmethod(neuron.stream)
        current_stream = staticmethod(neuron.current_stream)
        set_stream = staticmethod(neuron.set_stream)
        synchronize = staticmethod(neuron.synchronize)
        get_device_properties = staticmethod(neuron.get_device_properties)
        exchange_device = staticmethod(neuron._exchange_device)
        maybe_exchange_device = staticmethod(neuron._maybe_exchange_device)

        class Worker:
            @staticmethod
            def set_device(device: int):
                neuron.set_device(device)

            @staticmethod
            def current_device() -> int:
                return neuron.current_device()

            @staticmethod
            def get_device_properties(device=None):
                return neuron.get_device_properties(device)

        @staticmethod
        def _set_stream_by_id(stream_id: int, device_index: int, device_type: int):
            neuron.set_stream(
                torch.Stream(
                    stream_id=stream_id, device_index=device_index, device_type=device_type
                )
            )

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            return torch.accelerator.current_stream(device_idx).stream_id

        @staticmethod
        def get_compute_capability(device=None):
            return 0

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return neuron.is_bf16_supported()

        @staticmethod
        def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
            return True

        @staticmethod
        def memory_allocated(device=None) -> int:
            return neuron.memory_allocated(device)

        @staticmethod
        def is_triton_capable(device=None) -> bool:
            return False

        @staticmethod
        def raise_if_triton_unavailable(device=None) -> None:
            raise RuntimeError("neuron has no Triton backend")

    module.register_interface_for_device("neuron", NeuronInterface)
