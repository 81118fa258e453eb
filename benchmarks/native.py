"""PyTorch's own op for an op of the catalogue, where it has one: the column `native op`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

NATIVE: dict[str, Callable[..., Any]] = {
    "attention": F.scaled_dot_product_attention,
    "attention_with_bias": lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias),
    "batchnorm": lambda x, gamma, beta, correction: F.batch_norm(x, None, None, gamma, beta, training=True),
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "bias_gelu": lambda x, b: F.gelu(x + b),
    "bilinear": F.bilinear,
    "causal_attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "conv1d": F.conv1d,
    "conv1d_stride2_dilation3": lambda x, w, b: F.conv1d(x, w, b, stride=2, dilation=3),
    "conv2d": F.conv2d,
    "conv2d_stride2_dilation2": lambda x, k, b: F.conv2d(x, k, b, stride=2, dilation=2),
    "cross_entropy_ignore_index": F.cross_entropy,
    "cross_entropy_label_smoothing": lambda z, y: F.cross_entropy(z, y, label_smoothing=0.1),
    "cross_entropy_probabilities": F.cross_entropy,
    "depthwise_conv2d": lambda x, k, b: F.conv2d(x, k[:, None], b, groups=len(k)),
    "elu": F.elu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "groupnorm": lambda x, gamma, beta, groups: F.group_norm(x, groups, gamma, beta),
    "grouped_query_attention": lambda q, k, v: F.scaled_dot_product_attention(
        q, k.unsqueeze(-3).expand(*q.shape[:-2], *k.shape[-2:]), v.unsqueeze(-3).expand(*q.shape[:-2], *v.shape[-2:])
    ),
    "huber": F.huber_loss,
    "kl_div": lambda logp, t: F.kl_div(logp, t, reduction="batchmean"),
    "kl_div_log_target": lambda logp, logt: F.kl_div(logp, logt, reduction="batchmean", log_target=True),
    "l1": F.l1_loss,
    "l2_normalize": lambda x: F.normalize(x, dim=-1),
    "layernorm": lambda x, gamma, beta: F.layer_norm(x, gamma.shape, gamma, beta),
    "leaky_relu": F.leaky_relu,
    "linear": lambda x, w, b: F.linear(x, w.t(), b),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "mse": F.mse_loss,
    "nll": F.nll_loss,
    "rmsnorm": lambda x, gamma: F.rms_norm(x, gamma.shape, gamma, 1e-6),
    "sequence_cross_entropy": lambda z, y: F.cross_entropy(z.flatten(0, -2), y.flatten()),
    "silu": F.silu,
    "softmax": lambda x: F.softmax(x, -1),
    "softmax_cross_entropy": F.cross_entropy,
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "var": lambda x: x.var(-1),
}
