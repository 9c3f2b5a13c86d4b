"""What PyTorch refuses, the device refuses at the call: the same exception, the same words."""

import json

import pytest
import torch

import bad_calls
from compare import both


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", bad_calls.BAD)
def test_a_bad_call_raises_as_on_the_cpu(name):
    call = bad_calls.BAD[name]
    cpu = bad_calls.refusal(call, "cpu")
    assert cpu is not None
    assert bad_calls.refusal(call, "neuron") == cpu


# Without a reference run, words may come from the trace; these keep theirs.
ABOVE_THE_LIMIT = """
import json, warnings
warnings.simplefilter("ignore")
import torch, bad_calls
print(json.dumps(bad_calls.differing()))
"""


def test_the_same_without_a_reference_run(run_python):
    out = run_python(ABOVE_THE_LIMIT, NEURON_REFERENCE_BYTES_MAX=0)
    assert json.loads(out.stdout) == []


def test_a_large_call_is_judged_by_a_small_one():
    # 2.5 G elements, none of them in memory: far above what the CPU would run.
    a = torch.zeros(1, device="neuron").expand(50_000, 50_000)
    n = 50_000
    cases = {
        "expected m1 and m2 to have the same dtype, but got: float != double": lambda: (
            a @ torch.zeros(1, device="neuron", dtype=torch.float64).expand(n, 3)
        ),
        f"mat1 and mat2 shapes cannot be multiplied ({n}x{n} and 3x{n})": lambda: (
            a @ torch.zeros(1, device="neuron").expand(3, n)
        ),
        "index_select(): Expected dtype int32 or int64 for index": lambda: a.index_select(
            0, torch.zeros(2, device="neuron")
        ),
        f"The size of tensor a ({n}) must match the size of tensor b (7)": lambda: (
            a + torch.zeros(7, device="neuron")
        ),
    }
    for words, call in cases.items():
        with pytest.raises(RuntimeError) as error:
            call()
        assert words in str(error.value)
    torch.neuron.synchronize()


def test_a_graph_that_cannot_be_lowered_names_the_op():
    def user_function(x):
        return torch.linalg.eigvals(x + 1).abs()

    with pytest.raises(Exception, match="linalg_eig"):
        torch.compile(user_function, backend="neuron")(torch.ones(3, 3, device="neuron"))
    torch.neuron.synchronize()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_numbers_beyond_int64_are_the_cpus(number):
    both(lambda x: [x + number, x == number, x * number], torch.tensor([1.0, 2.0**63]))
    both(lambda x: x + number, torch.tensor([1, -5]))
    both(lambda x: x.fill_(number), torch.zeros(2, dtype=torch.uint64))
