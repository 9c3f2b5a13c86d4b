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


def test_a_generator_of_another_device_is_refused():
    generator = torch.Generator()
    for draw in (
        lambda: torch.randn(3, device="neuron", generator=generator),
        lambda: torch.empty(3, device="neuron").uniform_(generator=generator),
        lambda: torch.multinomial(torch.ones(3, device="neuron"), 1, generator=generator),
        lambda: torch.randperm(3, device="neuron", generator=generator),
    ):
        with pytest.raises(RuntimeError, match="Expected a 'neuron' device type for generator"):
            draw()


def test_samplers_draw_on_the_cpu_whatever_the_default_device():
    data = torch.utils.data.TensorDataset(torch.arange(20.0))
    loader = torch.utils.data.DataLoader(data, shuffle=True)
    with torch.device("neuron"):
        assert sorted(batch[0].item() for batch in loader) == list(range(20))
        assert torch.ones(1).device.type == "neuron"
        assert torch.rand(2, generator=torch.Generator("neuron")).device.type == "neuron"
        a, b = torch.utils.data.random_split(data, [15, 5])
    assert len(a) == 15 and len(b) == 5


@pytest.mark.parametrize("compile_it", [False, True])
@pytest.mark.parametrize(
    "low, high", [(-(2**63), 2**63 - 1), (-(2**62), 2**62 + 5), (-3, 2**63 - 1)]
)
def test_integers_of_a_wide_range_reach_both_ends(low, high, compile_it):
    torch.manual_seed(0)

    def draw():
        return torch.randint(low, high, (4000,), device="neuron")

    numbers = (torch.compile(draw, backend="neuron") if compile_it else draw)().tolist()
    assert low <= min(numbers) and max(numbers) < high
    eighth = (high - low) // 8
    counts = [sum((n - low) // eighth == i for n in numbers) for i in range(8)]
    assert all(400 < count < 600 for count in counts)


def test_every_bit_of_an_integer_is_drawn():
    x = torch.empty(2000, dtype=torch.int64, device="neuron").random_(-(2**63), None).cpu()
    for bit in range(64):
        assert 800 < ((x >> bit) & 1).sum() < 1200
