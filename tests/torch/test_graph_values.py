"""What backward sees of a state that forward writes; the strides of new tensors in a graph;
subclasses.
"""

import pytest
import torch

from graph_calls import check, compiled
from mirror import equal

pytestmark = [
    pytest.mark.usefixtures("no_fallback"),
    pytest.mark.filterwarnings("ignore"),
]


class Scaled(torch.nn.Module):
    """Its state is written before its value is used, or after."""

    def __init__(self, late):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("steps", torch.arange(6.0).view(2, 3))
        self.late = late

    def forward(self, x):
        if self.late:
            y = self.linear(x) * self.steps.clone() * self.steps.t()[1, 0].exp()
            self.steps.mul_(2)
            return y
        self.steps += 1
        with torch.no_grad():
            self.linear.bias.mul_(2)
        return (self.linear(x) * self.linear.bias).tanh() * self.steps.sin() * self.steps[0]


def scaled_gradients(device, late):
    torch.manual_seed(0)
    module = Scaled(late).to(device)
    run = compiled(module, device)
    x = torch.arange(6.0).view(2, 3).div(5).to(device).requires_grad_()
    gradients = []
    for _ in range(3):
        module.zero_grad()
        x.grad = None
        run(x).sum().backward()
        gradients.append([x.grad.clone(), *(p.grad.clone() for p in module.parameters())])
    return gradients, module.steps


@pytest.mark.parametrize("late", [False, True])
def test_backward_sees_the_state_that_forward_used(late):
    equal(scaled_gradients("neuron", late), scaled_gradients("cpu", late), skip=("version",))


def new_tensors(x):
    t = x.transpose(0, 2)
    return [
        torch.empty_like(t).zero_(),
        torch.empty_like(t).fill_(2),
        torch.empty_like(t, memory_format=torch.contiguous_format).fill_(2),
        torch.empty_strided((2, 2), (1, 2), device=x.device).fill_(1),
        torch.empty_permuted((2, 3, 4), (1, 2, 0), device=x.device).fill_(1),
        t.new_empty((3, 2)).fill_(1),
        t.new_empty_strided((3, 2), (1, 3)).fill_(1),
        torch.empty(2, 3, 4, 5, device=x.device, memory_format=torch.channels_last).fill_(1),
        torch.rand_like(t).ge(0),
        torch.randn_like(t).abs().ge(0),
        torch.randint_like(t, 1),
        torch.empty_like(t).uniform_().ge(0),
        torch.empty_like(t).normal_().abs().ge(0),
        torch.empty_like(t).exponential_().gt(0),
        torch.empty_like(t).random_(0, 1),
    ]


def test_new_tensors_have_their_strides():
    check(new_tensors, lambda device, i: (torch.ones(2, 3, 4).to(device),))


def test_numbers_drawn_into_transposed_tensors_are_those_of_eager_code():
    def draw(x):
        return torch.rand_like(x.t()), torch.empty_like(x.t()).normal_()

    x = torch.ones(3, 4, device="neuron")
    torch.manual_seed(5)
    want = [t.cpu() for t in draw(x)]
    torch.manual_seed(5)
    equal(compiled(draw, "neuron")(x), want, skip=("version",))


class Tagged(torch.Tensor):
    """A subclass without behaviour of its own."""


def test_a_subclass_without_behaviour():
    x = torch.arange(3.0, device="neuron").as_subclass(Tagged)
    run = compiled(lambda x: x * 2, "neuron")
    for _ in range(2):
        y = run(x)
        assert type(y) is Tagged and y.tolist() == [0.0, 2.0, 4.0]
