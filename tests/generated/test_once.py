"""Generated ops are differentiable once: a gradient that is differentiated again is an error, never a constant."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from generated import add, layernorm, linear, relu, silu, sum_rows

ONCE = "{0} is differentiable once: its backward has no derivative; where a gradient is differentiated again, write {0} in plain PyTorch"


def inputs() -> list[Tensor]:
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((4, 5), (5,), (5,))]


def gradient(of: Tensor, x: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(of, x, create_graph=True)
    return found


@pytest.mark.parametrize("cotangent", ["constant", "followed"])
@pytest.mark.parametrize("how", ["backward", "grad of the input", "grad of another"])
def test_a_gradient_penalty_is_an_error(cotangent: str, how: str) -> None:
    x, gamma, beta = inputs()
    y = layernorm(x.sin(), gamma, beta)
    score = y.square().sum() if cotangent == "followed" else (y * torch.randn(4, 5)).sum()
    loss = score + x.sum() + gradient(score, x).square().sum()
    with pytest.raises(RuntimeError, match=re.escape(ONCE.format("layernorm"))):
        if how == "backward":
            loss.backward()
        else:
            torch.autograd.grad(loss, x if how == "grad of the input" else gamma)


def test_an_input_that_is_not_kept_is_still_followed() -> None:
    """`silu` keeps its derivative, which autograd knows nothing of."""
    x = inputs()[0]
    score = silu(x).sum()
    with pytest.raises(RuntimeError, match=re.escape(ONCE.format("silu"))):
        torch.autograd.grad(gradient(score, x).sum() + score, x)


@pytest.mark.parametrize("op", [relu, lambda x: add(x, x), sum_rows], ids=["relu", "add", "sum_rows"])
def test_gradients_that_are_constant_stay_so(op: Callable[[Tensor], Tensor]) -> None:
    """Of what is linear, the second derivative is that of what comes before it."""
    x = inputs()[0]
    found = gradient(op(x.exp()).sum(), x)
    want = torch.autograd.grad(found.sum(), x)[0]
    torch.testing.assert_close(want, found.detach())


def test_linear_ops_do_not_pass_a_derivative_on() -> None:
    x = inputs()[0]
    with pytest.raises(RuntimeError, match=re.escape(ONCE.format("add"))):
        gradient(gradient(add(x, x).exp().sum(), x).sum(), x)


def test_an_input_that_nothing_follows() -> None:
    x, w, b = (torch.randn(s, dtype=torch.float64) for s in ((4, 5), (5, 3), (3,)))
    b.requires_grad_()
    with pytest.raises(RuntimeError, match=re.escape(ONCE.format("linear"))):
        gradient(gradient(linear(x, w, b).square().sum(), b).sum(), b)


def test_first_derivatives_with_a_graph_are_as_without() -> None:
    given = inputs()
    layernorm(*given).square().sum().backward()
    want = [t.grad for t in given]
    again = [t.detach().requires_grad_() for t in given]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a cycle between a tensor and its gradient
        layernorm(*again).square().sum().backward(create_graph=True)
    torch.testing.assert_close([t.grad.detach() for t in again], want)  # type: ignore[union-attr]
    assert torch.autograd.gradcheck(layernorm, inputs())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant: bool) -> None:
    given = inputs()
    checkpoint(layernorm, *given, use_reentrant=reentrant).square().sum().backward()
    want = torch.autograd.grad(layernorm(*given).square().sum(), given)
    torch.testing.assert_close([t.grad for t in given], list(want))
