"""The models: each a small but whole network, with a batch and the loss of one training step.

Weights and batches come from a fixed seed on the CPU. Dropout is off: a device draws other numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 96


@dataclasses.dataclass
class Job:
    """A model on the CPU, its batch (tensors by name), and how to get (outputs, loss) from both."""

    model: nn.Module
    batch: dict[str, torch.Tensor]
    step: Callable[[Callable, dict[str, torch.Tensor]], tuple[torch.Tensor, torch.Tensor]]


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def _classify(model, batch):
    logits = model(batch["x"])
    return logits, F.cross_entropy(logits, batch["y"])


def mlp() -> Job:
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(20, 64),
        nn.GELU(),
        nn.LayerNorm(64),
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Linear(32, 5),
    )
    batch = {
        "x": torch.randn(16, 20, generator=_generator()),
        "y": torch.randint(0, 5, (16,), generator=_generator()),
    }
    return Job(model, batch, _classify)


def cnn() -> Job:
    torch.manual_seed(4)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.0),
        nn.Linear(16 * 2 * 2, 10),
    )
    batch = {
        "x": torch.randn(12, 1, 8, 8, generator=_generator()),
        "y": torch.randint(0, 10, (12,), generator=_generator()),
    }
    return Job(model, batch, _classify)


class Block(nn.Module):
    """Pre-norm transformer block, causal attention through scaled_dot_product_attention."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Two layers, tied embedding and head. Input: ids [B, T] int64; output: logits [B, T, V]."""

    def __init__(self, width: int = 48, heads: int = 4, layers: int = 2, length: int = 16):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_token(model, batch):
    logits = model(batch["ids"])
    loss = F.cross_entropy(
        logits[:, :-1].reshape(-1, logits.shape[-1]), batch["ids"][:, 1:].reshape(-1)
    )
    return logits, loss


def _ids(length: int = 16) -> dict[str, torch.Tensor]:
    return {"ids": torch.randint(0, VOCABULARY, (3, length), generator=_generator())}


def gpt() -> Job:
    torch.manual_seed(5)
    return Job(GPT(), _ids(), next_token)


def _transformers(model, batch):
    answer = model(input_ids=batch["ids"], labels=batch["ids"], use_cache=False)
    return answer.logits, answer.loss


def gpt2() -> Job:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(6)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=32,
        n_embd=48,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    model.loss_type = (
        "ForCausalLM"  # its default is the same loss with a warning, which breaks graphs
    )
    return Job(model, _ids(), _transformers)


def llama() -> Job:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=True,
    )
    return Job(LlamaForCausalLM(config), _ids(), _transformers)


MODELS: dict[str, Callable[[], Job]] = {
    "mlp": mlp,
    "cnn": cnn,
    "gpt": gpt,
    "gpt2": gpt2,
    "llama": llama,
}
