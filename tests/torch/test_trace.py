"""Eager misses: the Program that the tracer makes of an op computes what the op computes on the
CPU.

No device: Programs run in the reference interpreter (program_interpreter.py), requests are made
from CPU tensors.
"""

import os
import subprocess
import sys
import threading

import pytest
import torch

from trace_harness import Request, call, cpu_scalar, output_entries, trace

from torch_neuronx._proto import program_pb2 as pb  # isort: skip


def randn(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, dtype=dtype)


def positive(*sizes):
    return torch.rand(*sizes) + 0.1


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def ops_of(result) -> list:
    return [node.op for node in pb.Program.FromString(result["program"]).nodes]


# Thunks, so that every test has fresh tensors.
FUNCTIONAL = {
    "aten::add.Tensor": lambda: (randn(3), randn(2, 3)),
    "aten::mul.Tensor": lambda: (randn(4, 4).t(), randn(4, 4)),
    "aten::div.Tensor_mode": lambda: (randn(5), 2.0, {"rounding_mode": "floor"}),
    "aten::pow.Tensor_Scalar": lambda: (randn(3), 3),
    "aten::rsub.Scalar": lambda: (randn(3), 1, 2),
    "aten::clamp": lambda: (randn(4), -0.5, 0.5),
    "aten::where.self": lambda: (randn(3) > 0, randn(3), randn(3)),
    "aten::mm": lambda: (randn(2, 3), randn(4, 3).t()),
    "aten::addmm": lambda: (randn(4), randn(2, 3), randn(3, 4)),
    "aten::bmm": lambda: (randn(2, 3, 4), randn(2, 4, 5)),
    "aten::_softmax": lambda: (randn(3, 4), 1, False),
    "aten::_log_softmax": lambda: (randn(3, 4), 1, False),
    "aten::_log_softmax_backward_data": lambda: (randn(3, 4), randn(3, 4), 1, torch.float32),
    "aten::gelu": lambda: (randn(4),),
    "aten::gelu_backward": lambda: (randn(4), randn(4)),
    "aten::silu_backward": lambda: (randn(4), randn(4)),
    "aten::native_layer_norm": lambda: (randn(3, 4), [4], randn(4), randn(4), 1e-5),
    "aten::native_group_norm": lambda: (randn(2, 4, 3), randn(4), randn(4), 2, 4, 3, 2, 1e-5),
    "aten::convolution": lambda: (
        randn(2, 3, 8, 8),
        randn(4, 3, 3, 3),
        randn(4),
        [1, 1],
        [1, 1],
        [1, 1],
        False,
        [0, 0],
        1,
    ),
    "aten::convolution_backward": lambda: (
        randn(2, 4, 8, 8),
        randn(2, 3, 8, 8),
        randn(4, 3, 3, 3),
        [4],
        [1, 1],
        [1, 1],
        [1, 1],
        False,
        [0, 0],
        1,
        [True, True, True],
    ),
    "aten::max_pool2d_with_indices": lambda: (randn(2, 3, 8, 8), [2, 2]),
    "aten::nll_loss_forward": lambda: (randn(3, 4), torch.tensor([0, 1, 3]), None, 1, -100),
    "aten::embedding": lambda: (randn(5, 3), torch.tensor([0, 4, 2])),
    "aten::embedding_dense_backward": lambda: (randn(3, 3), torch.tensor([0, 4, 2]), 5, -1, False),
    "aten::index.Tensor": lambda: (randn(4, 4), [torch.tensor([0, 2]), None]),
    "aten::gather": lambda: (randn(3, 4), 1, torch.tensor([[0], [1], [2]])),
    "aten::sort": lambda: (randn(5),),
    "aten::max.dim": lambda: (randn(3, 4), 1),
    "aten::var_mean.correction": lambda: (randn(3, 4), [1]),
    "aten::_to_copy": lambda: (randn(3), {"dtype": torch.int32}),
    "aten::clone": lambda: (randn(4, 4).t(),),
    "aten::cat": lambda: ([randn(2, 3), torch.empty(0), randn(1, 3)],),
    "aten::split_with_sizes_copy": lambda: (randn(5), [2, 3]),
    "aten::_foreach_sqrt": lambda: ([positive(2), positive(3)],),
    "aten::_foreach_norm.Scalar": lambda: ([randn(2), randn(3)], 2),
    "aten::_foreach_pow.ScalarAndTensor": lambda: (0.5, [randn(2), randn(3)]),
    "aten::upsample_nearest2d": lambda: (randn(1, 2, 4, 4), [8, 8]),
    "aten::_adaptive_avg_pool2d": lambda: (randn(1, 2, 4, 4), [2, 2]),
}

IN_PLACE = {
    "aten::add_.Tensor": lambda: (randn(4, 4).t(), randn(4, 4), {"alpha": 2}),
    "aten::mul_.Tensor": lambda: (randn(4, 4)[:, ::2], 3),
    "aten::fill_.Scalar": lambda: (randn(4, 4)[1:, 0], 3),
    "aten::fill_.Tensor": lambda: (randn(3), torch.tensor(2.0)),
    "aten::zero_": lambda: (randn(4)[2:],),
    "aten::copy_": lambda: (randn(4, 4)[0], randn(4).double()),
    "aten::masked_fill_.Scalar": lambda: (randn(3), randn(3) > 0, float("-inf")),
    "aten::index_put_": lambda: (randn(4, 4), [torch.tensor([0, 2])], randn(4)),
    "aten::index_put_.mask": lambda: (randn(4, 3), [randn(4) > 0], torch.tensor(2.0)),
    "aten::index_put_.columns": lambda: (
        randn(4, 3),
        [None, randn(3) > 0],
        torch.tensor(2.0),
        True,
    ),
    "aten::_index_put_impl_": lambda: (randn(4, 4), [torch.tensor([1, 1])], randn(4), True),
    "aten::lerp_.Scalar": lambda: (randn(3), randn(3), 0.3),
    "aten::addcdiv_": lambda: (randn(3), randn(3), positive(3), {"value": -0.1}),
    "aten::add.out": lambda: (randn(4, 4), randn(4, 4), {"out": randn(4, 4).t()}),
    "aten::sum.IntList_out": lambda: (
        randn(3, 4),
        [1],
        {"out": torch.zeros(3, dtype=torch.float64)},
    ),
    "aten::mean.out": lambda: (randn(3, 4), [1], {"out": randn(3)}),
    "aten::full.out": lambda: ([3], 2.5, {"out": torch.zeros(3)}),
    "aten::arange.start_out": lambda: (0.5, 4.5, 1.0, {"out": torch.zeros(4)}),
    "aten::eye.m_out": lambda: (3, 4, {"out": torch.zeros(3, 4)}),
    "aten::linspace.out": lambda: (0.0, 1.0, 5, {"out": torch.zeros(5)}),
    "aten::_foreach_add_.List": lambda: ([randn(2), randn(3)], [randn(2), randn(3)], {"alpha": 2}),
    "aten::_foreach_addcdiv_.ScalarList": lambda: (
        [randn(2), randn(3)],
        [randn(2), randn(3)],
        [positive(2), positive(3)],
        [0.1, -0.2],
    ),
    "aten::_foreach_zero_": lambda: ([randn(2), randn(3)],),
    "aten::_foreach_copy_": lambda: ([randn(2), randn(3)], [randn(2), randn(3)]),
    "aten::native_batch_norm": lambda: (
        randn(4, 3, 5, 5),
        randn(3),
        randn(3),
        torch.zeros(3),
        torch.ones(3),
        True,
        0.1,
        1e-5,
    ),
    "aten::_amp_update_scale_": lambda: (
        torch.tensor([4.0]),
        torch.tensor([1], dtype=torch.int32),
        torch.zeros(1),
        2.0,
        0.5,
        2,
    ),
    "aten::_amp_foreach_non_finite_check_and_unscale_": lambda: (
        [randn(2), torch.tensor([1.0, float("inf")])],
        torch.zeros(1),
        torch.tensor([0.5]),
    ),
    "aten::_fused_sgd_": lambda: (
        [randn(2)],
        [randn(2)],
        [randn(2)],
        {
            "weight_decay": 0.1,
            "momentum": 0.9,
            "lr": 0.1,
            "dampening": 0.1,
            "nesterov": False,
            "maximize": False,
            "is_first_step": False,
        },
    ),
}


def split_kwargs(made):
    return (made[:-1], made[-1]) if isinstance(made[-1], dict) else (made, {})


@pytest.mark.parametrize("op", FUNCTIONAL)
def test_functional_op_equals_the_cpu(op):
    args, kwargs = split_kwargs(FUNCTIONAL[op]())
    call(op, *args, **kwargs)


@pytest.mark.parametrize("op", IN_PLACE)
def test_written_buffers_equal_the_cpu(op):
    args, kwargs = split_kwargs(IN_PLACE[op]())
    call(op.removesuffix(".mask").removesuffix(".columns"), *args, **kwargs)


@pytest.mark.parametrize("op", ["aten::add.Tensor", "aten::_softmax", "aten::native_layer_norm"])
def test_outputs_without_a_cpu_run(op):
    args, kwargs = split_kwargs(FUNCTIONAL[op]())
    result = call(op, *args, outputs=False, **kwargs)
    assert all(entry[0] == "new" for entry in result["outputs"])


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("op", ["aten::_fused_adam_", "aten::_fused_adamw_"])
def test_fused_adam(op, amsgrad):
    def states():
        return [positive(2), positive(3)]

    steps = [torch.tensor(3.0), torch.tensor(3.0)]
    call(
        op,
        states(),
        states(),
        states(),
        states(),
        states() if amsgrad else [],
        steps,
        lr=0.01,
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.1,
        eps=1e-8,
        amsgrad=amsgrad,
        maximize=amsgrad,
    )


def fused_adamw(lr, run_time):
    def one():
        return [positive(2)]

    return call(
        "aten::_fused_adamw_",
        one(),
        one(),
        one(),
        one(),
        [],
        [torch.tensor(3.0)],
        lr=lr,
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.1,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
        run_time=run_time,
    )


def test_conjugated_argument_is_written_conjugated():
    z = randn(3, dtype=torch.complex64)
    call("aten::mul_.Tensor", z.conj(), randn(3, dtype=torch.complex64))


def test_in_place_result_is_the_argument_itself():
    result = call("aten::add_.Tensor", randn(3), randn(3))
    assert result["outputs"] == [("arg", 0)]
    assert not result["created"]


def test_batch_norm_writes_its_running_statistics():
    mean, var = torch.zeros(3), torch.ones(3)
    call(
        "aten::native_batch_norm", randn(4, 3, 5, 5), randn(3), randn(3), mean, var, True, 0.1, 1e-5
    )
    assert mean.abs().sum() > 0  # the CPU run wrote them, and `call` compared the buffers


class TestScalars:
    def test_a_python_number_is_a_run_time_scalar(self):
        a, b = (call("aten::add.Tensor", torch.ones(3), torch.ones(3), alpha=x) for x in (2.0, 3.0))
        assert a["static"] == []
        assert a["program"] == b["program"]

    def test_zero_and_one_are_not_special(self):
        programs = {call("aten::mul.Tensor", torch.ones(3), x)["program"] for x in (0, 1, 2)}
        assert len(programs) == 1

    def test_equal_scalars_stay_apart(self):
        result = call("aten::clamp", randn(4), 0.5, 0.5)
        assert len(pb.Program.FromString(result["program"]).scalars) == 2

    def test_a_scalar_that_shapes_the_result_is_static(self):
        result = call("aten::arange.start_out", 2, 10, 2, out=torch.zeros(4, dtype=torch.int64))
        assert result["static"] == [0, 1, 2]

    def test_arithmetic_on_scalars_is_in_the_program(self):
        result = fused_adamw(lr=0.01, run_time=("lr", "weight_decay"))
        assert 0 not in result["static"]  # lr
        assert {"sym.mul", "sym.add"} <= set(ops_of(result))

    def test_learning_rate_of_a_fused_optimizer_is_a_run_time_scalar(self):
        programs = {fused_adamw(lr=lr, run_time=("lr",))["program"] for lr in (0.1, 0.01)}
        assert len(programs) == 1

    def test_static_by_request(self):
        result = call("aten::add.Tensor", randn(3), 2.0, static={0})
        assert pb.Program.FromString(result["program"]).word_count == 1  # alpha stays
        assert result["static"] == []

    def test_cpu_tensor_takes_part_in_promotion(self):
        call("aten::add.Tensor", torch.arange(3), cpu_scalar(0.5, torch.float64))
        call("aten::add.Tensor", randn(3), cpu_scalar(0.5, torch.float64))
        call("aten::mul.Tensor", torch.tensor(2.0), cpu_scalar(0.5, torch.float64))

    def test_wrapped_number_where_a_tensor_is_wanted(self):
        call("aten::where.self", randn(3) > 0, randn(3), cpu_scalar(0.0, torch.float32))

    def test_complex_number(self):
        call("aten::mul.Tensor", randn(3, dtype=torch.complex64), 2j)


class TestRandom:
    @pytest.mark.parametrize(
        "op, args",
        [
            ("uniform_", lambda: (torch.zeros(64), 2.0, 3.0)),
            ("normal_", lambda: (torch.zeros(64), 1.0, 2.0)),
            ("bernoulli_.float", lambda: (torch.zeros(64), 0.5)),
            ("bernoulli_.Tensor", lambda: (torch.zeros(64), torch.full((64,), 0.5))),
            ("random_.from", lambda: (torch.zeros(64), 2, 7)),
            ("exponential_", lambda: (torch.zeros(64),)),
            ("log_normal_", lambda: (torch.zeros(64),)),
            ("geometric_", lambda: (torch.zeros(64), 0.3)),
            ("cauchy_", lambda: (torch.zeros(64),)),
            ("native_dropout", lambda: (torch.ones(64), 0.5, True)),
            ("randn", lambda: ([64],)),
            ("normal.Tensor_Tensor", lambda: (torch.zeros(64), torch.ones(64))),
        ],
    )
    def test_rewritten_to_one_reservation(self, op, args):
        result = call(f"aten::{op}", *args(), random=True, outputs=False)
        assert result["offsets"] > 0
        ops = ops_of(result)
        assert ops[0] == "neuron.rng_state.default"
        assert ops.count("neuron.rng_state.default") == 1
        assert not any(
            name in o for o in ops for name in ("aten.rand", "aten.bernoulli", "aten.normal")
        )

    def test_values_lie_where_they_should(self):
        result = call(
            "aten::randint_like.low_dtype", torch.zeros(256), 2, 5, random=True, outputs=False
        )
        assert set(result["created"][0].tolist()) == {2.0, 3.0, 4.0}
        result = call(
            "aten::native_dropout", torch.ones(256), 0.25, True, random=True, outputs=False
        )
        out, mask = result["created"]
        assert torch.equal(out, mask / 0.75)

    def test_randperm_is_a_permutation(self):
        result = call("aten::randperm", 10, random=True, outputs=False)
        assert sorted(result["created"][0].tolist()) == list(range(10))

    def test_no_random_op_no_words(self):
        assert call("aten::add.Tensor", randn(3), randn(3))["offsets"] == 0


class TestStatus:
    @staticmethod
    def ask(op, *args, **kwargs):
        return trace(Request(op, args, kwargs).request(None))

    def test_size_that_depends_on_data_is_dynamic(self):
        assert self.ask("aten::nonzero", randn(3))["status"] == "dynamic"

    def test_value_that_depends_on_data_is_dynamic(self):
        assert self.ask("aten::_local_scalar_dense", torch.tensor(1.0))["status"] == "dynamic"

    def test_bad_arguments_are_refused_by_name(self):
        result = self.ask("aten::mm", randn(2, 3), randn(2, 3))
        assert result["status"] == "refused"
        assert "aten.mm.default" in result["reason"]

    def test_result_that_does_not_fit_its_destination(self):
        result = self.ask("aten::add_.Tensor", randn(3), randn(2, 3))
        assert result["status"] == "refused"
        assert "output with shape [3]" in result["reason"]

    def test_sizes_other_than_the_cpus_are_refused(self):
        request = Request("aten::mm", (randn(2, 3), randn(3, 2)))
        result = trace(request.request([("new", 12, (9, 9), (9, 1))]))
        assert result["status"] == "refused"


class TestViews:
    def test_offset_is_a_word_unless_the_view_is_the_whole_buffer(self):
        base = randn(6)
        whole = pb.Program.FromString(call("aten::neg", base)["program"])
        part = pb.Program.FromString(call("aten::neg", base[2:])["program"])
        assert whole.inputs[0].view.offset_word == -1
        assert part.inputs[0].view.offset_word == 0

    def test_arguments_that_share_a_buffer(self):
        base = randn(6)
        result = call("aten::add_.Tensor", base[:3], base[3:])
        assert len(pb.Program.FromString(result["program"]).buffers) == 1

    def test_tensor_without_elements_is_a_constant(self):
        result = call("aten::sum", torch.empty(0, 3))
        program = pb.Program.FromString(result["program"])
        assert len(program.inputs) == 0
        call("aten::add_.Tensor", torch.empty(0), torch.empty(0))


def test_same_program_bytes_in_another_process():
    code = (
        "import sys, hashlib; sys.path.insert(0, {here!r}); import torch, trace_harness as h;"
        "r = h.call('aten::native_layer_norm', torch.ones(3, 4), [4], torch.ones(4), None, 1e-5);"
        "r2 = h.call('aten::gelu_backward', torch.ones(3), torch.ones(3));"
        "print(hashlib.sha256(r['program'] + r2['program']).hexdigest())"
    ).format(here=__file__.rsplit("/", 1)[0])
    seen = set()
    for seed in ("0", "1"):
        out = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        seen.add(out.stdout)
    assert len(seen) == 1


class TestState:
    """Whatever state the miss happens in, the trace is the same."""

    @pytest.fixture
    def plain(self):
        return call("aten::gelu_backward", randn(3), randn(3))["program"]

    def again(self):
        request = Request("aten::gelu_backward", (randn(3), randn(3)))
        out = request.func(*request.args)
        return lambda: trace(request.request(output_entries(request, request.func, out)))["program"]

    def test_autocast(self, plain):
        ask = self.again()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert ask() == plain

    def test_inference_mode(self, plain):
        ask = self.again()
        with torch.inference_mode():
            assert ask() == plain

    def test_default_device(self, plain):
        ask = self.again()
        with torch.device("meta"):
            assert ask() == plain

    def test_dispatch_mode_sees_nothing(self, plain):
        from torch.utils._python_dispatch import TorchDispatchMode

        seen = []

        class Spy(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        ask = self.again()
        with Spy():
            assert ask() == plain
        assert not seen

    def test_inside_vmap(self, plain):
        ask = self.again()
        got = []

        def f(x):
            got.append(ask())
            return x

        torch.vmap(f)(torch.ones(2))
        assert got == [plain]

    def test_threads(self, plain):
        asks = [self.again() for _ in range(4)]
        got = []
        threads = [threading.Thread(target=lambda a=a: got.append(a())) for a in asks]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert got == [plain] * 4
