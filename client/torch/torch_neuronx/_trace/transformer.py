"""The fused inference ops that `nn.MultiheadAttention` and `nn.TransformerEncoderLayer` take when
nothing needs a gradient, taken apart as PyTorch's CPU kernels compute them
(aten/src/ATen/native/transformers).
"""

import math

import torch

_SOURCE_MASK, _PADDING_MASK, _FULL_MASK = 0, 1, 2


def _masked(scores, mask, mask_type):
    """True: hidden. [L, L], [B, L] of keys, or all of [B, H, L, L]."""
    if mask is None:
        return scores
    batch, _, length, keys = scores.shape
    sizes = {
        _SOURCE_MASK: (1, 1, length, keys),
        _PADDING_MASK: (batch, 1, 1, keys),
        _FULL_MASK: tuple(mask.shape),
    }[mask_type]
    return scores.masked_fill(mask.to(torch.bool).reshape(sizes), -math.inf)


def multi_head_attention(
    query,
    key,
    value,
    embed_dim,
    num_head,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
):
    """-> ([B, L, E], probabilities)."""
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    heads = [
        torch.nn.functional.linear(x, w, b).unflatten(-1, (num_head, -1)).transpose(1, 2)
        for x, w, b in zip((query, key, value), weights, biases, strict=True)
    ]
    q, k, v = heads
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
    probabilities = torch.softmax(_masked(scores, mask, mask_type), -1)
    mixed = (probabilities @ v).transpose(1, 2).flatten(2)
    projected = torch.nn.functional.linear(mixed, proj_weight, proj_bias)
    if need_weights and average_attn_weights:
        probabilities = probabilities.sum(1) / num_head
    return projected, probabilities


def encoder_layer(
    src,
    embed_dim,
    num_heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu,
    norm_first,
    eps,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type=None,
):
    def attention(x):
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        return multi_head_attention(
            x, x, x, embed_dim, num_heads, *projections, mask, False, False, mask_type
        )[0]

    def feed_forward(x):
        hidden = torch.nn.functional.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = torch.nn.functional.gelu(hidden) if use_gelu else torch.relu(hidden)
        return torch.nn.functional.linear(hidden, ffn_weight_2, ffn_bias_2)

    x = src
    blocks = (attention, norm_weight_1, norm_bias_1), (feed_forward, norm_weight_2, norm_bias_2)
    for block, weight, bias in blocks:

        def norm(t, weight=weight, bias=bias):
            return torch.nn.functional.layer_norm(t, [embed_dim], weight, bias, eps)

        x = x + block(norm(x)) if norm_first else norm(block(x) + x)
    return x
