"""Assignment through masks: the size of what is written is known from the values, so that it runs
on the device, in eager programs and in graphs; a count that does not fit raises as on the CPU.
"""

import pytest
import torch

from mirror import counting, equal, outcome, same_on_both, text_of


def mask_of(d, *sizes):
    return counting(d, *sizes) % 3 == 1


# Each takes x of sizes (2, 3, 4), whose mask has nine true places of 24, and writes.
WRITES = {
    "a list of values": lambda x: (mask_of(x.device, 2, 3, 4), (9,)),
    "one value": lambda x: (mask_of(x.device, 2, 3, 4), (1,)),
    "a mask of leading dimensions": lambda x: (mask_of(x.device, 2, 3), (2, 4)),
    "values spread over the rest": lambda x: (mask_of(x.device, 2, 3), (2, 1)),
    "values of the rest alone": lambda x: (mask_of(x.device, 2, 3), (4,)),
    "a mask of the middle": lambda x: ((slice(None), mask_of(x.device, 3)), (2, 1, 4)),
    "a mask of the end": lambda x: ((..., mask_of(x.device, 4)), (2, 3, 2)),
    "nothing chosen": lambda x: (mask_of(x.device, 2, 3, 4) & False, (0,)),
    "through a slice": lambda x: ((slice(0, 1), slice(1, 3), mask_of(x.device, 4)), (1, 2, 2)),
}
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float64]


def assigned(x, index, values):
    x[index] = values
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", WRITES)
def test_assignment_through_a_mask(name, dtype, no_fallback):
    def run(d):
        x = counting(d, 2, 3, 4, dtype=dtype)
        index, sizes = WRITES[name](x)
        columns = counting(d, 4, 3, 2, dtype=dtype).permute(2, 1, 0)
        return [assigned(t, index, counting(d, *sizes).mul(3).to(dtype)) for t in (x, columns)]

    skip = ("version",)
    same_on_both(run, skip)
    same_on_both(run, skip)  # known now


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_by_a_mask(accumulate, no_fallback):
    same_on_both(
        lambda d: counting(d, 2, 3).index_put(
            (mask_of(d, 2, 3),), counting(d, 2), accumulate=accumulate
        )
    )


def test_a_byte_mask_warns_as_on_the_cpu():
    same_on_both(lambda d: assigned(counting(d, 7), mask_of(d, 7).byte(), counting(d, 3)))


@pytest.mark.parametrize("sizes", [(2,), (4,), (0,)], ids=str)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_another_count_than_the_masks_raises_as_on_the_cpu(sizes, compiled):
    def run(d):
        put = torch.index_put
        if compiled and d != "cpu":
            put = torch.compile(lambda *a: torch.index_put(*a), backend="neuron")
        return put(counting(d, 7), (mask_of(d, 7),), counting(d, *sizes))

    assert outcome(run, "cpu")[0][0] == "RuntimeError"
    with pytest.raises(RuntimeError) as error:
        run("neuron")
        torch.neuron.synchronize()
    assert text_of(error.value) == outcome(run, "cpu")[0][1]


# What the CPU refuses at the call, of whatever values.
REFUSED = {
    "another dtype": lambda d: assigned(counting(d, 7), mask_of(d, 7), counting(d, 3).long()),
    "a mask of other sizes": lambda d: assigned(counting(d, 7), mask_of(d, 6), counting(d, 3)),
    "values of other sizes": lambda d: assigned(
        counting(d, 7, 2), mask_of(d, 7), counting(d, 3, 3)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_errors_have_the_cpus_words(name):
    assert outcome(REFUSED[name], "neuron")[0] == outcome(REFUSED[name], "cpu")[0]


@pytest.mark.parametrize(
    "index",
    [lambda d: mask_of(d, 2, 3), lambda d: (slice(None), mask_of(d, 3)), lambda d: mask_of(d, 2)],
)
def test_gradients_of_what_a_mask_reads_and_writes(index):
    def run(d):
        x = counting(d, 2, 3).requires_grad_()
        read = x[index(d)]
        y = x * 2
        values = (read.detach() + 1).requires_grad_()
        y[index(d)] = values * 3
        (read.square().sum() + y.square().sum()).backward()
        return x.grad, values.grad

    equal(run("neuron"), run("cpu"))


def test_a_compiled_step_writes_through_a_mask():
    def step(x, values):
        x = x.clone()
        x[x > 4] = values
        x[:, 1][x[:, 1] < 2] = -1
        return x * 2

    compiled = torch.compile(step, backend="neuron")
    same_on_both(
        lambda d: (step if d == "cpu" else compiled)(counting(d, 2, 5), counting(d, 6)),
    )
