"""The catalogue on the samples of PyTorch's own test suite, which nobody here wrote: values, gradients, `gradcheck`.

The samples come from `torch.testing._internal.common_methods_invocations`, in float64. `python -m tests.opinfo.report`
prints how many of each op's fall inside our signature, and why the others do not.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import generated
from derive.catalogue import catalogue
from tests.opinfo.samples import samples
from tests.opinfo.table import TABLE, WITHOUT

EXACT = 1e-10  # float64, relative to the largest element


def test_every_op_is_in_the_table_or_has_no_opinfo() -> None:
    assert sorted([*TABLE, *WITHOUT]) == sorted(op.name for op in catalogue())


@pytest.mark.parametrize("name", TABLE)
def test_agrees_with_autograd(name: str) -> None:
    function = getattr(generated, name)
    for number, tried in enumerate(samples(name)):
        if tried.call is None:
            continue
        where = f"{name}, sample {number}"
        wanted = tried.native()
        found = tried.call.back(function(*tried.call.tensors, **tried.call.numbers))
        _same(found.reshape(wanted.shape), wanted, f"{where}: output")
        cotangent = torch.randn(wanted.shape, dtype=wanted.dtype, generator=torch.Generator().manual_seed(number))
        leaves = tried.leaves
        expected = torch.autograd.grad(wanted, leaves, cotangent, allow_unused=True)
        gradients = torch.autograd.grad(found, leaves, cotangent.reshape(found.shape), allow_unused=True)
        for k, (mine, theirs) in enumerate(zip(gradients, expected, strict=True)):
            zero = torch.zeros_like(leaves[k])
            _same(zero if mine is None else mine, zero if theirs is None else theirs, f"{where}: gradient {k}")


@pytest.mark.parametrize("name", TABLE)
def test_gradcheck(name: str) -> None:
    """The samples that are small enough for a full Jacobian."""
    function = getattr(generated, name)
    for tried in samples(name):
        if tried.call is None or sum(t.numel() for t in tried.call.tensors) > 120 or not tried.smooth:
            continue
        tensors = [torch.empty(t.shape, dtype=t.dtype).copy_(t.detach()) for t in tried.call.tensors]  # no stride 0
        for fresh, t in zip(tensors, tried.call.tensors, strict=True):
            fresh.requires_grad_(t.requires_grad)
        if any(t.requires_grad for t in tensors):
            numbers = tried.call.numbers
            assert torch.autograd.gradcheck(lambda *t, numbers=numbers: function(*t, **numbers), tensors)


def test_how_many_samples_are_inside() -> None:
    """Pinned: a mapping that lets fewer samples in has to say so here."""
    inside: dict[str, tuple[int, int]] = {}
    for name in TABLE:
        tried = samples(name)
        inside[name] = (sum(t.call is not None for t in tried), len(tried))
    assert inside == INSIDE


INSIDE: dict[str, tuple[int, int]] = {
    "abs": (1, 1), "add": (9, 11), "add_bias": (0, 11), "add_column": (0, 11), "add_number": (3, 11),
    "add_outer": (1, 11), "amax": (13, 20), "attention": (4, 25), "attention_with_bias": (1, 25),
    "avg_pool2d": (0, 7), "batched_matmul": (1, 1), "batchnorm": (5, 12), "bce_with_logits": (6, 26),
    "bilinear": (16, 16), "causal_attention": (4, 25), "concatenate": (7, 9), "conv1d": (2, 10),
    "conv1d_stride2_dilation3": (0, 10), "conv2d": (2, 30), "conv2d_stride2_dilation2": (0, 30),
    "cross_entropy_ignore_index": (1, 21), "cross_entropy_label_smoothing": (0, 21),
    "cross_entropy_probabilities": (2, 21), "cross_entropy_weighted": (1, 21), "depthwise_conv2d": (4, 30),
    "diagonal": (1, 15), "div": (9, 9), "div_column": (0, 9), "dot": (1, 1), "dropout": (0, 19), "elu": (3, 3),
    "embedding": (3, 3), "exp": (3, 3), "flatten": (1, 6), "gather_rows": (3, 7), "gelu": (4, 8), "gelu_tanh": (4, 8),
    "global_avg_pool": (0, 10), "grouped_query_attention": (0, 25), "groupnorm": (21, 21), "huber": (3, 9),
    "kl_div": (1, 16), "kl_div_log_target": (1, 16), "l1": (4, 6), "l2_normalize": (3, 8), "layernorm": (6, 6),
    "leaky_relu": (9, 9), "linear": (18, 18), "log": (3, 3), "log_softmax": (5, 7), "logsumexp": (12, 15),
    "matmul": (3, 3), "matvec": (1, 1), "max_pool2d": (20, 1440), "mean": (13, 20), "mean_all": (11, 20),
    "mse": (4, 6), "mul": (9, 9), "mul_column": (0, 9), "mul_row": (0, 9), "neg": (1, 1), "nll": (2, 61),
    "outer": (1, 1), "pow": (3, 9), "pow_elementwise": (9, 9), "reciprocal": (3, 3), "relu": (4, 4),
    "rmsnorm": (6, 6), "scale": (3, 9), "sequence_cross_entropy": (3, 21), "sigmoid": (3, 3), "silu": (3, 3),
    "softmax": (5, 7), "softmax_cross_entropy": (5, 21), "softplus": (0, 3), "sqrt": (1, 1), "square": (3, 3),
    "sub": (9, 11), "sub_outer": (1, 11), "sum": (13, 20), "sum_all": (11, 20), "sum_rows": (7, 20), "tanh": (1, 1),
    "trace": (1, 5), "transpose": (3, 8), "tril": (4, 8), "var": (7, 14),
}  # fmt: skip
"""Samples inside our signature, of all samples, by op, for the version of PyTorch in constraints.txt."""


def _same(got: Tensor, want: Tensor, what: str) -> None:
    assert (
        got.shape == want.shape and got.dtype == want.dtype
    ), f"{what}: {list(got.shape)}, expected {list(want.shape)}"
    got, want = got.detach(), want.detach()
    off = torch.where(want.isfinite(), (got - want).abs().nan_to_num(nan=torch.inf), 0.0)
    finite = want[want.isfinite()].abs()
    scale = max(1e-3, float(finite.max())) if finite.numel() else 1.0
    assert off.numel() == 0 or float(off.max()) <= EXACT * scale, f"{what} is off by {float(off.max()):.2e}"
