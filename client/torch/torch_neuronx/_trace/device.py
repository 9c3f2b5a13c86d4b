"""The device that traces happen on: a stand-in, Programs do not name devices."""

import torch

DEVICE = torch.device("neuron", 0)


def is_ours(device: torch.device) -> bool:
    return device.type == DEVICE.type
