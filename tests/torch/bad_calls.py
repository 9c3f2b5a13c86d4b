"""Calls that PyTorch refuses, for test_call_errors: each takes a maker of zeros on some device."""

import re

import torch
import torch.nn.functional as F


class Make:
    def __init__(self, device):
        self.device = device

    def f(self, *sizes, dtype=torch.float32):
        return torch.zeros(*sizes, device=self.device, dtype=dtype)

    def d(self, *sizes):
        return self.f(*sizes, dtype=torch.float64)

    def i(self, *sizes):
        return self.f(*sizes, dtype=torch.int64)

    def b(self, *sizes):
        return self.f(*sizes, dtype=torch.bool)

    def c(self, *sizes):
        return self.f(*sizes, dtype=torch.complex64)


def _overlapping(t):
    x = t.f(5)
    x[1:].add_(x[:-1])


def _overlapping_out(t):
    x = t.f(5)
    torch.mul(x[1:], x[1:], out=x[:-1])


BAD = {
    "add sizes": lambda t: t.f(2, 3) + t.f(2, 4),
    "mm sizes": lambda t: t.f(2, 3) @ t.f(2, 3),
    "mm vector": lambda t: torch.mm(t.f(3), t.f(3, 2)),
    "mm dtypes": lambda t: t.f(2, 3) @ t.d(3, 2),
    "mm int and float": lambda t: t.i(2, 3) @ t.f(3, 2),
    "bmm sizes": lambda t: torch.bmm(t.f(2, 3, 4), t.f(3, 4, 5)),
    "addmm sizes": lambda t: torch.addmm(t.f(3), t.f(2, 3), t.f(3, 4)),
    "dot sizes": lambda t: torch.dot(t.f(3), t.f(4)),
    "mv sizes": lambda t: torch.mv(t.f(2, 3), t.f(2)),
    "matmul scalar": lambda t: torch.matmul(t.f(2, 3), t.f()),
    "linear sizes": lambda t: F.linear(t.f(2, 3), t.f(4, 5)),
    "linear bias": lambda t: F.linear(t.f(2, 3), t.f(4, 3), t.f(5)),
    "linear dtypes": lambda t: F.linear(t.f(2, 3), t.f(4, 3, dtype=torch.bfloat16)),
    "conv channels": lambda t: F.conv2d(t.f(1, 3, 8, 8), t.f(4, 2, 3, 3)),
    "conv kernel": lambda t: F.conv2d(t.f(1, 3, 2, 2), t.f(4, 3, 3, 3)),
    "conv dims": lambda t: F.conv2d(t.f(3, 8), t.f(4, 3, 3, 3)),
    "conv bias": lambda t: F.conv2d(t.f(1, 3, 8, 8), t.f(4, 3, 3, 3), t.f(5)),
    "max_pool": lambda t: F.max_pool2d(t.f(1, 1, 2, 2), 4),
    "avg_pool": lambda t: F.avg_pool2d(t.f(1, 1, 2, 2), 4),
    "cat sizes": lambda t: torch.cat([t.f(2, 3), t.f(2, 4)]),
    "cat dim": lambda t: torch.cat([t.f(2, 3), t.f(2, 3)], dim=2),
    "stack sizes": lambda t: torch.stack([t.f(2), t.f(3)]),
    "view": lambda t: t.f(6).view(4),
    "reshape": lambda t: t.f(6).reshape(4, 2),
    "permute": lambda t: t.f(2, 3).permute(0, 0),
    "transpose": lambda t: t.f(2, 3).transpose(0, 2),
    "expand": lambda t: t.f(2, 3).expand(4, 3),
    "too many indices": lambda t: t.f(2, 3)[0, 0, 0],
    "int index": lambda t: t.f(2, 3)[5],
    "narrow": lambda t: t.f(5).narrow(0, 3, 4),
    "split": lambda t: t.f(5).split([2, 2]),
    "float index": lambda t: t.f(3)[t.f(2)],
    "index_select dtype": lambda t: t.f(3).index_select(0, t.f(2)),
    "gather dtype": lambda t: t.f(3).gather(0, t.f(2)),
    "gather dims": lambda t: t.f(3, 2).gather(0, t.i(2)),
    "gather sizes": lambda t: t.f(3, 2).gather(0, t.i(2, 4)),
    "scatter dtype": lambda t: t.f(3).scatter_(0, t.i(2), t.i(2)),
    "scatter sizes": lambda t: t.f(3).scatter_(0, t.i(5), t.f(2)),
    "index_put sizes": lambda t: t.f(3).index_put_((t.i(2),), t.f(3)),
    "index_put dtypes": lambda t: t.f(3).index_put_((t.i(2),), t.d(2)),
    "index_add dtypes": lambda t: t.f(3).index_add_(0, t.i(2), t.i(2)),
    "index_copy sizes": lambda t: t.f(3).index_copy_(0, t.i(2), t.f(3)),
    "masked_fill mask": lambda t: t.f(3).masked_fill(t.f(3), 1.0),
    "where condition": lambda t: torch.where(t.f(3), t.f(3), t.f(3)),
    "embedding dtype": lambda t: F.embedding(t.f(2), t.f(4, 3)),
    "embedding dims": lambda t: F.embedding(t.i(2), t.f(4)),
    "cross_entropy sizes": lambda t: F.cross_entropy(t.f(2, 3), t.i(3)),
    "cross_entropy dtype": lambda t: F.cross_entropy(t.f(2, 3), t.i(2).int()),
    "nll_loss dtype": lambda t: F.nll_loss(t.f(2, 3), t.f(2)),
    "mse_loss dtype": lambda t: F.mse_loss(t.i(2), t.i(2)),
    "in place cast": lambda t: t.i(3).add_(1.5),
    "in place cast of a quotient": lambda t: t.i(3).div_(2),
    "in place cast of a tensor": lambda t: t.i(3).mul_(t.f(3)),
    "in place bool": lambda t: t.b(3).add_(1),
    "in place broadcast": lambda t: t.f(3).add_(t.f(2, 3)),
    "in place expanded": lambda t: t.f(1).expand(3).add_(1),
    "in place overlap": _overlapping,
    "out dtype": lambda t: torch.add(t.f(3), t.f(3), out=t.i(3)),
    "out dtype of mm": lambda t: torch.mm(t.f(2, 3), t.f(3, 2), out=t.d(2, 2)),
    "out complex": lambda t: torch.add(t.c(3), 1, out=t.f(3)),
    "out overlap": _overlapping_out,
    "bitwise float": lambda t: t.f(3) & t.f(3),
    "not float": lambda t: ~t.f(3),
    "shift float": lambda t: t.f(3) << 1,
    "negative bool": lambda t: -t.b(3),
    "bool difference": lambda t: t.b(3) - t.b(3),
    "mean of ints": lambda t: t.i(3).mean(),
    "var of ints": lambda t: t.i(3).var(),
    "softmax of ints": lambda t: t.i(3).softmax(0),
    "softmax dim": lambda t: t.f(2, 3).softmax(3),
    "sum dim": lambda t: t.f(2, 3).sum(2),
    "sum dim twice": lambda t: t.f(2, 3).sum((0, 0)),
    "max of nothing": lambda t: t.f(0).max(),
    "argmax of nothing": lambda t: t.f(0).argmax(),
    "topk": lambda t: t.f(3).topk(4),
    "sort dim": lambda t: t.f(3).sort(1),
    "cumsum dim": lambda t: t.f(3).cumsum(1),
    "norm of ints": lambda t: torch.linalg.vector_norm(t.i(3)),
    "layer_norm shape": lambda t: F.layer_norm(t.f(2, 3), (4,)),
    "layer_norm weight": lambda t: F.layer_norm(t.f(2, 3), (3,), t.f(4)),
    "batch_norm one value": lambda t: F.batch_norm(t.f(1, 3), t.f(3), t.f(3), training=True),
    "batch_norm sizes": lambda t: F.batch_norm(t.f(2, 3), t.f(4), t.f(4)),
    "group_norm groups": lambda t: F.group_norm(t.f(2, 3), 2),
    "attention widths": lambda t: F.scaled_dot_product_attention(
        t.f(1, 2, 4, 8), t.f(1, 2, 4, 6), t.f(1, 2, 4, 8)
    ),
    "attention mask": lambda t: F.scaled_dot_product_attention(
        t.f(1, 2, 4, 8), t.f(1, 2, 4, 8), t.f(1, 2, 4, 8), attn_mask=t.f(3, 3)
    ),
    "dropout p": lambda t: F.dropout(t.f(3), 2.0),
    "bernoulli p": lambda t: t.f(3).bernoulli_(2.0),
    "normal std": lambda t: t.f(3).normal_(0, -1),
    "uniform range": lambda t: t.f(3).uniform_(2, 1),
    "randint range": lambda t: torch.randint(5, 2, (3,), device=t.device),
    "randperm": lambda t: torch.randperm(-1, device=t.device),
    "arange": lambda t: torch.arange(0, 5, -1, device=t.device),
    "linspace": lambda t: torch.linspace(0, 1, -2, device=t.device),
    "full size": lambda t: torch.full((-1,), 1.0, device=t.device),
    "tril": lambda t: t.f(3).tril(),
    "flip": lambda t: t.f(2, 2).flip(0, 0),
    "roll": lambda t: t.f(2, 2).roll((1, 2), 0),
    "pad": lambda t: F.pad(t.f(2, 2), (1, 1, 1, 1, 1, 1)),
    "reflection": lambda t: F.pad(t.f(1, 2, 2), (3, 3), mode="reflect"),
    "clamp": lambda t: t.f(3).clamp(),
    "lerp dtypes": lambda t: torch.lerp(t.f(3), t.d(3), 0.5),
    "negative power": lambda t: t.i(3) ** -1,
    "item of many": lambda t: t.f(3).item(),
    "bool of many": lambda t: bool(t.f(3)),
    "copy sizes": lambda t: t.f(3).copy_(t.f(4)),
    "copy smaller": lambda t: t.f(1).copy_(t.f(3)),
    "copy from the CPU": lambda t: t.f(2, 3).copy_(torch.zeros(2, 4)),
    "fill with many": lambda t: t.f(3).fill_(t.f(3)),
    "cross": lambda t: torch.linalg.cross(t.f(2, 3), t.f(2, 4)),
    "inv": lambda t: torch.linalg.inv(t.f(2, 3)),
    "compare complex": lambda t: t.c(3) < t.c(3),
    "glu": lambda t: F.glu(t.f(3)),
    "prelu": lambda t: F.prelu(t.f(2, 3), t.f(2)),
    "backward of many": lambda t: t.f(3).requires_grad_().mul(1).backward(),
    "leaf in place": lambda t: t.f(3).requires_grad_().add_(1),
    "int gradient": lambda t: t.i(3).requires_grad_(),
}


def refusal(call, device: str):
    """(type, first line) of what the call raises, device names made equal; None: it did not."""
    try:
        call(Make(device))
    except Exception as error:
        line = re.sub(r"neuron(:\d)?", "cpu", str(error).split("\n")[0])
        return type(error).__name__, line
    return None


def differing() -> list:
    """One text per call that the device answers in other words than the CPU."""
    texts = []
    for name, call in BAD.items():
        cpu, device = refusal(call, "cpu"), refusal(call, "neuron")
        torch.neuron.synchronize()  # a refused call leaves nothing behind
        if cpu is None or cpu != device:
            texts.append(f"{name}: the CPU {cpu}, the device {device}")
    return texts
