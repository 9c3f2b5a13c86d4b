"""Fixtures of tests/models. NEURON_TEST_DEVICE=cpu rehearses the tests without a daemon."""

from __future__ import annotations

import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import pytest
import torch


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device(os.environ.get("NEURON_TEST_DEVICE", "neuron"))


@pytest.fixture(autouse=True)
def everything_on_the_device(device):
    """Fails a test in which an op fell back to the CPU."""
    if device.type != "neuron":
        yield
        return
    import torch_neuronx

    torch_neuronx.clear_op_tracking()
    yield
    fallbacks = torch_neuronx.get_fallback_ops()
    assert not fallbacks, f"ran on the CPU: {sorted(set(fallbacks))}"
