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
from tests.opinfo.samples import Tried, samples
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
        tensors = [t.detach().contiguous().clone().requires_grad_(t.requires_grad) for t in tried.call.tensors]
        if any(t.requires_grad for t in tensors):
            numbers = tried.call.numbers
            assert torch.autograd.gradcheck(lambda *t, numbers=numbers: function(*t, **numbers), tensors)


def test_how_many_samples_are_inside() -> None:
    """Pinned: a mapping that lets fewer samples in has to say so here."""
    inside: dict[str, tuple[int, int]] = {}
    for name in TABLE:
        tried: list[Tried] = samples(name)
        inside[name] = (sum(t.call is not None for t in tried), len(tried))
    assert inside == INSIDE


INSIDE: dict[str, tuple[int, int]] = {}
"""Samples inside our signature, of all samples, by op, for the version of PyTorch in constraints.txt."""


def _same(got: Tensor, want: Tensor, what: str) -> None:
    assert (
        got.shape == want.shape and got.dtype == want.dtype
    ), f"{what}: {list(got.shape)}, expected {list(want.shape)}"
    off = torch.where(want.isfinite(), (got - want).abs().nan_to_num(nan=torch.inf), 0.0)
    finite = want[want.isfinite()].abs()
    scale = max(1e-3, float(finite.max())) if finite.numel() else 1.0
    assert off.numel() == 0 or float(off.max()) <= EXACT * scale, f"{what} is off by {float(off.max()):.2e}"
