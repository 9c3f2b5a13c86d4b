"""torch.compile through the backend "neuron" without a device: CPU tensors stand for neuron
tensors (fake_runtime.py).

Values are judged against eager PyTorch; what a program may and may not contain is judged on its
bytes.
"""

import copy
import os
import subprocess
import sys

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import fake_runtime
from torch_neuronx._proto import program_pb2 as pb
from torch_neuronx._trace import dynamo
from torch_neuronx._trace.dynamo import neuron


@pytest.fixture(scope="module", autouse=True)
def _fake_runtime():
    fake_runtime.install()
    yield
    fake_runtime.uninstall()
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    fake_runtime.log.clear()


def compiled(fn, **kwargs):
    return torch.compile(fn, backend=neuron, **kwargs)


def programs(name=None) -> list:
    return [
        pb.Program.FromString(b)
        for n, _, b in fake_runtime.log
        if name is None or n.startswith(name)
    ]


class CNN(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.linear, self.dropout = nn.Linear(8 * 4 * 4, 10), dropout

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.linear(F.dropout(x.flatten(1), self.dropout, self.training))


class GPT(nn.Module):
    """Two blocks with scaled_dot_product_attention and a tied head."""

    def __init__(self, width=16, heads=2, words=20):
        super().__init__()
        self.embed, self.heads = nn.Embedding(words, width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        for _ in range(2):
            b, t, d = x.shape
            q, k, v = (
                self.qkv(self.norm(x))
                .view(b, t, 3, self.heads, d // self.heads)
                .permute(2, 0, 3, 1, 4)
            )
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
            x = x + self.mlp(self.norm(x))
        return self.head(x)


def train(model, loss, steps=3):
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-2, eps=1e-3
    )  # (small gradients as noise)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses, [v.detach().clone() for v in model.state_dict().values()]


def same_training(model, loss):
    want = train(copy.deepcopy(model), loss)
    got = train(model, compiled(loss))
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    assert programs("forward") and programs("backward")


def test_cnn_trains(_fresh):
    x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 10, (6,))
    same_training(CNN(), lambda m: F.cross_entropy(m(x), y))
    (forward, *_) = programs("forward")
    assert (
        sum(o.WhichOneof("to") == "write" for o in forward.outputs) == 3
    )  # mean, variance, batches seen


def test_cnn_in_eval_mode():
    x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 10, (6,))
    same_training(CNN().eval(), lambda m: F.cross_entropy(m(x), y))


def test_gpt_trains():
    ids = torch.randint(0, 20, (2, 8))
    same_training(GPT(), lambda m: F.cross_entropy(m(ids).flatten(0, 1), ids.flatten()))


def test_input_mutation_is_a_write():
    def f(x):
        y = x.t()
        y.mul_(2)
        return y

    x = torch.arange(6.0).view(2, 3)
    want = x * 2
    out = compiled(f)(x)
    torch.testing.assert_close(x, want)
    assert out.data_ptr() == x.data_ptr()
    assert out.stride() == (1, 3)
    (program,) = programs()
    assert program.outputs[-1].WhichOneof("to") == "write"


def test_returned_views_alias_their_base():
    def f(x):
        y = x * 2
        return y, y[1:], y.expand(3, 4), x

    x = torch.arange(4.0)
    y, part, wide, same = compiled(f)(x)
    y[1] = -1
    assert part[0] == -1
    assert wide[2, 1] == -1
    assert wide.stride() == (0, 1)
    assert same is x


class TestRandom:
    def test_dropout_draws_once_and_backward_repeats_it(self):
        x = torch.ones(64, 8, requires_grad=True)
        out = compiled(lambda x: F.dropout(x * 3, 0.5))(x)
        out.sum().backward()
        assert torch.equal(x.grad, torch.where(out > 0, 6.0, 0.0))
        (forward,) = programs("forward")
        assert forward.offsets_used == 64 * 8

    def test_checkpoint_recomputes_the_same_mask(self):
        from torch.utils.checkpoint import checkpoint

        w = torch.randn(8, 8, requires_grad=True)
        x = torch.randn(8, 8)

        def f(x):
            return checkpoint(lambda t: F.dropout(torch.sin(t @ w), 0.5), x, use_reentrant=False)

        out = compiled(f)(x)
        out.sum().backward()
        (want,) = torch.autograd.grad((torch.sin(x @ w) * 2 * (out != 0)).sum(), w)
        torch.testing.assert_close(w.grad, want)
        (backward,) = programs("backward")
        assert backward.offsets_used == 0  # it draws from what the forward graph reserved

    def test_two_draws_do_not_overlap(self):
        a, b = compiled(lambda x: (torch.rand_like(x), torch.rand_like(x)))(torch.ones(32))
        assert not torch.equal(a, b)


class TestSizes:
    def test_a_second_size_is_one_graph_bound_at_the_call(self):
        f = compiled(lambda x: torch.softmax(x.reshape(-1) + x.shape[0], 0).view(x.shape).sum(0))
        for n in (2, 3, 5):
            x = torch.randn(n, 4)
            torch.testing.assert_close(f(x), torch.softmax(x.reshape(-1) + n, 0).view(n, 4).sum(0))
        hashes = [h for _, h, _ in fake_runtime.log]
        assert hashes[1] == hashes[2]
        assert fake_runtime.log[1][2] != fake_runtime.log[2][2]

    def test_dynamic_true_is_refused(self):
        with pytest.raises(Exception, match=r"dynamic=True"):
            compiled(lambda x: x + 1, dynamic=True)(torch.ones(3))

    def test_backward_of_a_symbolic_graph(self):
        w = torch.randn(4, requires_grad=True)
        f = compiled(lambda x, w: (x * w).softmax(0).square().sum() * x.shape[0])
        for n in (2, 3, 5):
            x = torch.randn(n, 4)
            (got,) = torch.autograd.grad(f(x, w), w)
            (want,) = torch.autograd.grad((x * w).softmax(0).square().sum() * n, w)
            torch.testing.assert_close(got, want)


def test_second_float_value_is_a_run_time_scalar():
    f = compiled(lambda x, k: x * k + 1)
    for k in (1.5, 2.5, 3.5):
        torch.testing.assert_close(f(torch.ones(3), k), torch.ones(3) * k + 1)
    assert fake_runtime.log[1][1:] == fake_runtime.log[2][1:]  # the same hash, the same program


def test_constant_tensors_are_literals():
    f = compiled(lambda x: x + torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(f(torch.zeros(3)), torch.tensor([1.0, 2.0, 3.0]))


def test_nothing_to_compute():
    x = torch.arange(4.0)
    assert compiled(lambda x: x.shape[0] + 1)(x) == 5
    torch.testing.assert_close(compiled(lambda: torch.arange(3) * 2)(), torch.arange(3) * 2)


class TestOptions:
    def test_a_mode_warns(self):
        dynamo._warned.clear()
        with pytest.warns(UserWarning, match="reduce-overhead"):
            compiled(lambda x: x + 1, mode="reduce-overhead")(torch.ones(3))


class TestUnlowerable:
    """An op that the daemon refuses: run_graph raises and names it."""

    @pytest.fixture
    def no_sin(self, monkeypatch):
        def run_graph(request):
            result = real(request)
            program = pb.Program.FromString(result["program"])
            if any(n.op == "aten.sin.default" for n in program.nodes):
                return {"status": "refused", "reason": "aten.sin.default: no lowering"}
            return result

        real = fake_runtime.trace.trace
        monkeypatch.setattr(fake_runtime.trace, "trace", run_graph)

    def test_raises_and_names_the_op(self, no_sin):
        with pytest.raises(RuntimeError, match=r"aten\.sin\.default"):
            compiled(lambda x: torch.cos(torch.sin(x * 2)))(torch.ones(3))

    def test_runs_eagerly_when_allowed(self, no_sin, monkeypatch):
        monkeypatch.setenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "false")
        dynamo._warned.clear()
        x = torch.rand(3)
        with pytest.warns(UserWarning, match=r"aten\.sin\.default"):
            got = compiled(lambda x: torch.cos(torch.sin(x * 2)))(x)
        torch.testing.assert_close(got, torch.cos(torch.sin(x * 2)))
        assert [[n.op for n in p.nodes] for p in programs()] == [
            ["aten.mul.Tensor"],
            ["aten.cos.default"],
        ]


def test_saved_tensors_die_as_backward_runs():
    """The caller's list is emptied, so that nothing but the running step holds an input."""
    import weakref

    seen = []
    x = torch.randn(4, 4, requires_grad=True)
    out = compiled(lambda x: (x * 2).exp().sin().sum())(x)
    call = dynamo.CompiledCall.__call__

    def spy(self, args):
        refs = [weakref.ref(a) for a in args if isinstance(a, torch.Tensor)]
        result = call(self, args)
        seen.append((len(args), refs))
        return result

    dynamo.CompiledCall.__call__, before = spy, call
    try:
        out.backward()
    finally:
        dynamo.CompiledCall.__call__ = before
    ((left, _),) = seen
    assert left == 0


def test_hash_repeats_in_another_process_and_follows_the_users_lines(tmp_path):
    code = (
        "import sys; sys.path.insert(0, {here!r})\n"
        "import fake_runtime, torch; fake_runtime.install()\n"
        "from torch_neuronx._trace.dynamo import neuron\n{pad}"
        "def f(x, w): return torch.softmax(x @ w, -1).sum()\n"
        "x = torch.ones(2, 3); w = torch.ones(3, 4, requires_grad=True)\n"
        "torch.compile(f, backend=neuron)(x, w).backward()\n"
        "print([h for _, h, _ in fake_runtime.log])"
    )
    seen = []
    for seed, pad in (("0", ""), ("7", ""), ("0", "\n\n\n")):
        script = tmp_path / "script.py"
        script.write_text(code.format(here=__file__.rsplit("/", 1)[0], pad=pad))
        out = subprocess.run(
            [sys.executable, script],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        assert out.returncode == 0, out.stderr
        seen.append(out.stdout)
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_transformers_model_trains(kind, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    ids = torch.randint(0, 20, (2, 8))
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=40,
            n_positions=16,
            n_embd=16,
            n_layer=2,
            n_head=2,
            resid_pdrop=0,
            embd_pdrop=0,
            attn_pdrop=0,
            use_cache=False,
            bos_token_id=1,
            eos_token_id=1,
        )
        model = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.LlamaConfig(
            vocab_size=40,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=32,
            use_cache=False,
        )
        model = transformers.LlamaForCausalLM(config)
    same_training(model, lambda m: m(input_ids=ids, labels=ids).loss)
