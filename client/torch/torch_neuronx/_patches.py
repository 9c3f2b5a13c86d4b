"""Where torch itself does not know a renamed PrivateUse1 device, and has no hook for one."""

import functools

import torch
from torch import _meta_registrations
from torch.utils import _device


def apply() -> None:
    _dlpack()
    _printing()
    _storage_files()
    _default_device()
    _cells_without_bias()


def _cells_without_bias() -> None:
    """The rule for the sizes of a fused LSTM cell reads the device of a bias that may be None."""
    original = _meta_registrations.rnn_cell_checkSizes

    @functools.wraps(original)
    def check(input_gates, hidden_gates, input_bias, *args):
        if input_bias is not None:
            original(input_gates, hidden_gates, input_bias, *args)

    _meta_registrations.rnn_cell_checkSizes = check


def _default_device() -> None:
    """With a default device and a generator of another one, the generator decides: DataLoader's
    samplers draw their order with one of the CPU.
    """
    context = _device.DeviceContext
    original = context.__torch_function__

    @functools.wraps(original)
    def torch_function(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        generator = kwargs.get("generator")
        if self.device.type == "neuron" and generator is not None:
            if generator.device.type != "neuron" and kwargs.get("device") is None:
                return func(*args, **kwargs)
        return original(self, func, types, args, kwargs)

    context.__torch_function__ = torch_function


def _printing() -> None:
    """Printing formats element by element: on the device, ops of many new shapes."""
    module = torch._tensor_str
    original = module._tensor_str

    @functools.wraps(original)
    def tensor_str(self, indent):
        return original(self.cpu() if self.device.type == "neuron" else self, indent)

    module._tensor_str = tensor_str


def _storage_files() -> None:
    """pickle and torch.save's old format write and read a storage by its address."""
    write, read = torch.UntypedStorage._write_file, torch.UntypedStorage._set_from_file

    @functools.wraps(write)
    def write_file(self, *args):
        return write(self.cpu() if self.device.type == "neuron" else self, *args)

    @functools.wraps(read)
    def set_from_file(self, *args):
        if self.device.type != "neuron":
            return read(self, *args)
        return self.copy_(read(torch.UntypedStorage(self.nbytes()), *args))

    torch.UntypedStorage._write_file = write_file
    torch.UntypedStorage._set_from_file = set_from_file


def _dlpack() -> None:
    """Tensor.__dlpack_device__ compares with the literal "privateuse1" and would raise about an
    unknown device type."""
    original = torch.Tensor.__dlpack_device__
    original_dlpack = torch.Tensor.__dlpack__

    def refuse():
        raise BufferError(
            "Can't export a tensor on a neuron device through DLPack: its memory belongs to the "
            "daemon and has no address in this process. Use tensor.cpu() first."
        )

    @functools.wraps(original)
    def dlpack_device(self):
        if self.device.type == "neuron":
            refuse()
        return original(self)

    @functools.wraps(original_dlpack)
    def dlpack(self, *args, **kwargs):
        if self.device.type == "neuron":
            refuse()
        return original_dlpack(self, *args, **kwargs)

    torch.Tensor.__dlpack_device__ = dlpack_device
    torch.Tensor.__dlpack__ = dlpack
