"""scaled_dot_product_attention is one op of the lowering, eager and compiled, and equals the CPU.

Torch's math path remains for what has no fused form: other ranks and dtypes, dropout, a mask that
wants a gradient, sdpa_kernel(MATH), sizes that only broadcast.
"""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_neuronx
from mirror import equal, same_on_both

FORWARD = "aten::_scaled_dot_product_fused_attention_overrideable"
FUSED = {FORWARD, FORWARD + "_backward"}
PLAIN = (2, 4, 6, 8)
NARROW = (2, 4, 3, 8)


def case(*shapes, dtype=torch.float32, mask=None, **kwargs):
    return {"shapes": shapes or (PLAIN,) * 3, "dtype": dtype, "mask": mask, "kwargs": kwargs}


def keep(*sizes):
    return lambda g: torch.rand(sizes, generator=g) > 0.4


def bias(*sizes):
    return lambda g: torch.randn(sizes, generator=g)


def no_key_for_a_row(g):
    mask = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    mask[:, :, 2] = False
    return mask


def no_key_for_a_row_as_bias(g):
    mask = torch.zeros(2, 1, 6, 6)
    mask[:, :, 2] = -float("inf")
    return mask


ONE_OP = {
    "plain": case(),
    "causal": case(is_causal=True),
    "causal, fewer queries": case(NARROW, PLAIN, PLAIN, is_causal=True),
    "causal, fewer keys": case(PLAIN, NARROW, NARROW, is_causal=True),
    "scale": case(scale=0.3),
    "values of another width": case(PLAIN, PLAIN, (2, 4, 6, 5)),
    "bool mask": case(mask=keep(6, 6)),
    "bool mask per batch": case(mask=keep(2, 1, 6, 6)),
    "bool mask of keys": case(mask=keep(2, 1, 1, 6)),
    "bool mask per head": case(mask=keep(4, 6, 6)),
    "float mask": case(mask=bias(2, 4, 6, 6)),
    "bool mask hides a row": case(mask=no_key_for_a_row),
    "float mask hides a row": case(mask=no_key_for_a_row_as_bias),
    "bfloat16": case(dtype=torch.bfloat16, mask=bias(6, 6)),
    "grouped heads": case(PLAIN, (2, 2, 6, 8), (2, 2, 6, 8), enable_gqa=True),
    "one key head, causal": case(
        PLAIN, (2, 1, 6, 8), (2, 1, 6, 8), enable_gqa=True, is_causal=True
    ),
}
MATH_PATH = {
    "three dimensions": case(PLAIN[1:], PLAIN[1:], PLAIN[1:]),
    "two dimensions": case(PLAIN[2:], PLAIN[2:], PLAIN[2:]),
    "five dimensions": case(*((2, *PLAIN),) * 3),
    "float64": case(dtype=torch.float64),
    "broadcast batch": case(PLAIN, (1, 4, 6, 8), (1, 4, 6, 8)),
    "no batch": case(*((0, 4, 6, 8),) * 3),
    "no query": case((2, 4, 0, 8), PLAIN, PLAIN),
    "no key": case(PLAIN, (2, 4, 0, 8), (2, 4, 0, 8)),
}
ERRORS = {
    "mask of another size": case(mask=keep(5, 6)),
    "mask of another dtype": case(mask=lambda g: torch.ones(6, 6, dtype=torch.int64)),
    "queries of another width": case(PLAIN, (2, 4, 6, 7), PLAIN),
    "heads that do not divide": case(PLAIN, (2, 3, 6, 8), (2, 3, 6, 8), enable_gqa=True),
}


def attend(spec, device, compiled=False, mask_grad=False, context=contextlib.nullcontext):
    g = torch.Generator().manual_seed(1)
    inputs = [
        torch.randn(s, generator=g).to(spec["dtype"]).to(device).requires_grad_()
        for s in spec["shapes"]
    ]
    mask = None
    if spec["mask"] is not None:
        mask = spec["mask"](g)
        mask = mask.to(spec["dtype"]) if mask.is_floating_point() else mask
        mask = mask.to(device)
    if mask_grad:
        inputs.append(mask.requires_grad_())

    def attention(q, k, v, m):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m, **spec["kwargs"])

    if compiled and device == "neuron":
        torch._dynamo.reset()
        attention = torch.compile(attention, backend="neuron")
    with context():
        y = attention(*inputs[:3], mask)
    w = torch.randn(y.shape, generator=g).to(spec["dtype"]).to(device)
    grads = torch.autograd.grad(y, inputs, w)
    # Fused attention keeps the query's layout on a device, the CPU its own.
    return [t.detach().contiguous() for t in (y, *grads)]


def fused_ops() -> set:
    return FUSED & set(torch_neuronx.get_executed_ops())


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("name", ONE_OP)
def test_attention_is_one_op_each_way(name):
    torch_neuronx.clear_op_tracking()
    got = attend(ONE_OP[name], "neuron")
    assert fused_ops() == FUSED
    equal(got, attend(ONE_OP[name], "cpu"), skip=("version", "strides"))


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("name", MATH_PATH)
def test_the_rest_takes_the_math_path(name):
    torch_neuronx.clear_op_tracking()
    got = attend(MATH_PATH[name], "neuron")
    assert not fused_ops()
    equal(got, attend(MATH_PATH[name], "cpu"), skip=("version", "strides"))


def test_half_precision_is_as_near_the_truth_as_the_cpu():
    spec = case(dtype=torch.float16, mask=keep(6, 6))
    wide = [t.half() for t in attend(spec | {"dtype": torch.float32}, "cpu")]
    for got, truth in zip(attend(spec, "neuron"), wide, strict=True):
        torch.testing.assert_close(got.cpu(), truth, rtol=1e-2, atol=5e-3)


@pytest.mark.parametrize("name", ERRORS)
def test_what_does_not_fit_is_refused_in_the_cpus_words(name):
    same_on_both(lambda device: attend(ERRORS[name], device))


def test_a_mask_with_gradient_gets_it():
    spec = case(mask=bias(4, 6, 6))
    got = attend(spec, "neuron", mask_grad=True)
    equal(got, attend(spec, "cpu", mask_grad=True), skip=("version", "strides"))


def test_math_can_be_asked_for():
    torch_neuronx.clear_op_tracking()
    attend(case(), "neuron", context=lambda: sdpa_kernel(SDPBackend.MATH))
    assert not fused_ops()


def test_attention_inside_vmap():
    def run(device):
        g = torch.Generator().manual_seed(2)
        q = torch.randn(3, *PLAIN, generator=g).to(device)
        masks = (torch.rand(3, 6, 6, generator=g) > 0.4).to(device)

        def attention(x, mask=None):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

        gradient = torch.func.grad(lambda x: attention(x).sin().sum())
        return (
            torch.func.vmap(attention)(q),
            torch.func.vmap(gradient)(q),
            torch.func.vmap(lambda m: attention(q[0], m))(masks),
        )

    equal(run("neuron"), run("cpu"), skip=("version", "strides"))


def test_dropout_is_reproducible_and_has_the_gradient_of_its_mask():
    q = torch.randn(1, 2, 16, 8, device="neuron")
    v = torch.eye(16, device="neuron").expand(1, 2, 16, 16).contiguous().requires_grad_()

    def run():
        torch.manual_seed(3)
        return F.scaled_dot_product_attention(q, q, v, dropout_p=0.5)

    y = run()
    assert torch.equal(y, run())
    # The value rows are unit vectors: y is the dropped-out probabilities.
    dropped = (y == 0).float().mean().item()
    assert 0.35 < dropped < 0.65
    (grad,) = torch.autograd.grad(y.sum(), v)
    column = y.detach().sum(-2)  # how much of row s was used
    torch.testing.assert_close(grad.cpu(), column.unsqueeze(-1).expand_as(grad).cpu())


def compiled_ops() -> set:
    """What the registered graphs consist of."""
    from torch_neuronx._trace import graphs

    return {
        str(node.target).removesuffix(".default").replace("aten.", "aten::")
        for graph in graphs._graphs.values()
        for node in graph.segment.nodes
    }


@pytest.mark.parametrize(
    "name", ["causal", "bool mask hides a row", "float mask", "grouped heads", "bfloat16"]
)
def test_compiled_attention_is_one_op_each_way(name, monkeypatch):
    from torch_neuronx._trace import graphs

    monkeypatch.setattr(graphs, "_graphs", {})
    got = attend(ONE_OP[name], "neuron", compiled=True)
    assert compiled_ops() >= FUSED
    equal(got, attend(ONE_OP[name], "cpu"), skip=("version", "strides"))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    )


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("make", [gpt2, llama])
def test_attention_of_transformers_is_one_op(make, compiled, monkeypatch):
    from torch_neuronx._trace import graphs

    monkeypatch.setattr(graphs, "_graphs", {})
    torch.manual_seed(0)
    model = make().eval()  # (no dropout)
    tokens = torch.arange(20).reshape(2, 10) % 32

    def step(model, tokens):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        return loss.detach(), [p.grad.detach() for p in model.parameters()]

    want = step(model, tokens)
    model.zero_grad()
    model.to("neuron")
    torch_neuronx.clear_op_tracking()
    torch._dynamo.reset()
    run = torch.compile(model, backend="neuron") if compiled else model
    loss = run(input_ids=tokens.neuron(), labels=tokens.neuron()).loss
    loss.backward()
    used = compiled_ops() if compiled else set(torch_neuronx.get_executed_ops())
    assert used >= FUSED
    got = loss.detach(), [p.grad.detach() for p in model.parameters()]
    equal(got, want, skip=("version", "strides"))


MASKS = {
    "none": {},
    "padding": {"src_key_padding_mask": torch.arange(5).ge(torch.tensor([[3], [5]]))},
    "nothing left of a row": {"src_key_padding_mask": torch.tensor([[True], [False]]).expand(2, 5)},
    "causal": {"mask": nn.Transformer.generate_square_subsequent_mask(5), "is_causal": True},
}


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}])
def test_transformer_layers_stay_on_the_device_without_gradients(options, mask):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        want = encoder(x, **MASKS[mask])
        encoder.to("neuron")
        moved = {k: v.neuron() if k != "is_causal" else v for k, v in MASKS[mask].items()}
        got = encoder(x.neuron(), **moved)
    # (the CPU gives zeros, not the row itself, where its nested tensors had no elements)
    hidden = MASKS[mask].get("src_key_padding_mask", torch.zeros(2, 5, dtype=torch.bool))
    torch.testing.assert_close(got.cpu()[~hidden], want[~hidden], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("average", [True, False])
def test_multi_head_attention_gives_its_weights_without_gradients(average):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        want = module(x, x, x, average_attn_weights=average)
        moved = module.to("neuron")
        got = moved(x.neuron(), x.neuron(), x.neuron(), average_attn_weights=average)
    equal(got, want, skip=("strides",))
