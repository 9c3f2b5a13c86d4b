"""Generators: seeds repeat, states save and restore, draws have the right distribution."""

import pytest
import torch


def test_manual_seed_repeats():
    torch.manual_seed(3)
    a = torch.rand(100, device="neuron").cpu()
    b = torch.rand(100, device="neuron").cpu()
    torch.manual_seed(3)
    assert torch.equal(torch.rand(100, device="neuron").cpu(), a)
    assert not torch.equal(a, b)
    torch.manual_seed(4)
    assert not torch.equal(torch.rand(100, device="neuron").cpu(), a)


def test_draws_share_no_numbers():
    torch.manual_seed(11)
    numbers = [x for _ in range(5) for x in torch.rand(200, device="neuron").tolist()]
    assert len(set(numbers)) == len(numbers)


EACH_DEVICE = """
import torch
torch.manual_seed(1)
want = torch.rand(5, device="neuron:1").cpu()
torch.manual_seed(1)
torch.rand(5, device="neuron:0")
assert torch.equal(torch.rand(5, device="neuron:1").cpu(), want)
state = torch.neuron.get_rng_state("neuron:1")
torch.rand(5, device="neuron:0")
assert torch.equal(torch.neuron.get_rng_state("neuron:1"), state)
"""


def test_each_device_has_a_generator_of_its_own(run_python):
    run_python(EACH_DEVICE, NEURON_RT_DAEMON_ARGS="--devices 2")


def test_state_saves_and_restores():
    torch.rand(3, device="neuron")  # the state is more than its seed
    state = torch.neuron.get_rng_state()
    assert state.dtype == torch.uint8
    a = torch.randn(10, device="neuron").cpu()
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.randn(10, device="neuron").cpu(), a)


def test_fork_rng():
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type="neuron"):
        torch.rand(5, device="neuron")
    a = torch.rand(5, device="neuron").cpu()
    torch.manual_seed(1)
    assert torch.equal(torch.rand(5, device="neuron").cpu(), a)


def test_own_generator():
    g = torch.Generator(device="neuron").manual_seed(5)
    a = torch.rand(10, device="neuron", generator=g).cpu()
    g.manual_seed(5)
    assert torch.equal(torch.rand(10, device="neuron", generator=g).cpu(), a)
    state = g.get_state()
    b = torch.rand(10, device="neuron", generator=g).cpu()
    g.set_state(state)
    assert torch.equal(torch.rand(10, device="neuron", generator=g).cpu(), b)


def test_the_device_does_not_move_the_hosts_generator():
    torch.manual_seed(9)
    want = torch.rand(3)
    torch.manual_seed(9)
    torch.nn.functional.dropout(torch.ones(7, 3, device="neuron"), 0.5)
    torch.empty(13, device="neuron").bernoulli_(0.5)
    assert torch.equal(torch.rand(3), want)


@pytest.mark.parametrize(
    ("draw", "mean", "std"),
    [
        (lambda n: torch.rand(n, device="neuron"), 0.5, 0.2887),
        (lambda n: torch.randn(n, device="neuron"), 0.0, 1.0),
        (lambda n: torch.empty(n, device="neuron").uniform_(-2, 2), 0.0, 1.1547),
        (lambda n: torch.empty(n, device="neuron").normal_(3, 2), 3.0, 2.0),
        (lambda n: torch.empty(n, device="neuron").bernoulli_(0.25), 0.25, 0.433),
        (lambda n: torch.randint(0, 10, (n,), device="neuron").float(), 4.5, 2.872),
        (lambda n: torch.empty(n, device="neuron").exponential_(2.0), 0.5, 0.5),
        (lambda n: torch.nn.functional.dropout(torch.ones(n, device="neuron"), 0.25), 1.0, 0.577),
    ],
)
def test_distributions(draw, mean, std):
    torch.manual_seed(0)
    x = draw(20000).cpu()
    assert abs(x.mean().item() - mean) < 0.05 * max(1.0, std)
    assert abs(x.std().item() - std) < 0.05 * std


def test_randperm_and_multinomial():
    assert torch.randperm(50, device="neuron").cpu().sort().values.tolist() == list(range(50))
    picks = torch.multinomial(torch.tensor([0.0, 1.0, 0.0], device="neuron"), 4, replacement=True)
    assert picks.cpu().tolist() == [1, 1, 1, 1]
