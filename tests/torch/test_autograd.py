"""Training: gradients and optimizers equal the CPU."""

import pytest
import torch

from compare import both, same

pytestmark = pytest.mark.usefixtures("no_fallback")


def grads(fn):
    def run(*args):
        out = fn(*args)
        out.sum().backward()
        return [out] + [a.grad for a in args if a.requires_grad]

    return run


def leaf(*shape):
    return torch.randn(*shape).requires_grad_()


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda x, w: torch.nn.functional.linear(x, w), ((3, 4), (5, 4))),
        (lambda x: torch.nn.functional.gelu(x), ((3, 4),)),
        (lambda x: torch.nn.functional.layer_norm(x, (4,)), ((3, 4),)),
        (lambda x: torch.softmax(x, -1), ((3, 4),)),
        (lambda x: torch.nn.functional.log_softmax(x, -1), ((3, 4),)),
        (lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), ((2, 3, 6, 6), (4, 3, 3, 3))),
        (lambda x, w: torch.nn.functional.conv_transpose2d(
            x, w, stride=(1, 2), padding=1, output_padding=(1, 2), dilation=(2, 3)),
         ((2, 2, 4, 5), (2, 3, 3, 2))),
        (lambda x: torch.nn.functional.max_pool2d(x, 2), ((2, 3, 6, 6),)),
        (lambda x: torch.nn.functional.avg_pool2d(x, 2), ((2, 3, 6, 6),)),
        (lambda x: torch.nn.functional.batch_norm(x, None, None, training=True), ((4, 3),)),
        (lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
         ((2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4))),
        (lambda x: x[:, 1:].t().reshape(-1) * 2, ((3, 4),)),
    ],
)  # fmt: skip
def test_gradients(fn, args):
    torch.manual_seed(0)
    both(grads(fn), *[leaf(*shape) for shape in args], rtol=1e-4, atol=1e-5)


def train(device, make_optimizer):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    model.to(device)
    x, y = x.to(device), y.to(device)
    optimizer = make_optimizer(model.parameters())
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return [loss.detach()] + [p.detach() for p in model.parameters()]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.AdamW(p, lr=1e-2),
        lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=False),
        lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
        lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
        lambda p: torch.optim.RMSprop(p, lr=1e-2),
    ],
    ids=["sgd", "adamw", "adamw-loop", "adamw-foreach", "adamw-fused", "rmsprop"],
)
def test_optimizers(make):
    same([t.cpu() for t in train("neuron", make)], train("cpu", make), rtol=1e-4, atol=1e-5)


def test_a_changing_learning_rate_traces_nothing_new():
    import torch_neuronx

    p = torch.ones(17, device="neuron", requires_grad=True)
    optimizer = torch.optim.AdamW([p], lr=0.1)
    counts = []
    for step in range(6):
        optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
        optimizer.zero_grad()
        (p * 2).sum().backward()
        optimizer.step()
        counts.append(torch_neuronx.metrics.get_counter_value("neuron.traces"))
    assert counts[2] == counts[-1]


def test_checkpoint_and_hooks():
    def run(x):
        return torch.utils.checkpoint.checkpoint(lambda a: torch.sin(a) * a, x, use_reentrant=False)

    both(grads(run), leaf(5), rtol=1e-4)


def test_lstm_and_gru():
    for cell in (torch.nn.LSTM, torch.nn.GRU):
        torch.manual_seed(0)
        model = cell(3, 4)
        x = torch.randn(2, 5, 3)
        want = model(x)[0]
        want.sum().backward()
        want_grads = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model.to("neuron")
        got = model(x.neuron())[0]
        got.sum().backward()
        same(got.cpu(), want, rtol=1e-4, atol=1e-5)
        same([p.grad.cpu() for p in model.parameters()], want_grads, rtol=1e-4, atol=1e-5)


def test_autocast():
    x, w = torch.randn(4, 8, device="neuron"), torch.randn(8, 8, device="neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert (x @ w).dtype == torch.bfloat16
        assert torch.exp(x).dtype == torch.float32
        assert (x + x).dtype == torch.float32
