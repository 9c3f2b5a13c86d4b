"""Recurrent cells and layers, and normed weights: gradients, eager and compiled, are the CPU's."""

import pytest
import torch
from torch import nn

from compare import same


def unrolled(cell, x):
    state = None
    for step in x:
        state = cell(step, state)
    return state if isinstance(state, torch.Tensor) else state[0] + state[1].sin()


def gradients(make, run, device, compile_it):
    torch.manual_seed(0)
    module = make().to(device)
    x = torch.linspace(-1, 1, 24).view(4, 2, 3).to(device).requires_grad_()

    def forward(x):
        return run(module, x)

    torch._dynamo.reset()
    y = (torch.compile(forward, backend="neuron") if compile_it else forward)(x)
    (y * y.detach().cos()).sum().backward()
    return [y, x.grad, *(p.grad for p in module.parameters())]


CELLS = {
    "lstm cell": (lambda: nn.LSTMCell(3, 4), unrolled),
    "lstm cell without bias": (lambda: nn.LSTMCell(3, 4, bias=False), unrolled),
    "gru cell": (lambda: nn.GRUCell(3, 4), unrolled),
    "gru cell without bias": (lambda: nn.GRUCell(3, 4, bias=False), unrolled),
    "rnn cell": (lambda: nn.RNNCell(3, 4), unrolled),
    "lstm": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), lambda m, x: m(x)[0]),
    "gru": (lambda: nn.GRU(3, 4), lambda m, x: m(x)[0]),
    "weight norm": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
        lambda m, x: m(x),
    ),
    "weight norm of the last dimension": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4), dim=1),
        lambda m, x: m(x),
    ),
    "spectral norm": (
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
        lambda m, x: m(x),
    ),
}


@pytest.mark.parametrize("compile_it", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_gradients(name, compile_it, no_fallback):
    want = gradients(*CELLS[name], "cpu", False)
    same(gradients(*CELLS[name], "neuron", compile_it), [t.detach() for t in want], rtol=1e-4)
