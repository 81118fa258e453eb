"""A choice by whether a place is the one that an index names puts one value a row there: no place is compared."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from derive import amax, axes, eq, exp, index, log, mean, ne, oo, op, relu, scalar, sqrt, sum, tensor, where
from derive.ir.equations import Op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, chooses, module

c, d, n, t = axes("c d n t")


@op
def margins(f, z: tensor[n, c], y: index(c)[n]):
    """The hinge loss of several classes: all but the label's own."""
    f.loss[()] = mean(sum(where(ne(c, y[n]), relu(1 + z[n, c] - z[n, y[n]]), 0), over=c), over=n)
    return f.loss


@op
def rotated(f, z: tensor[n, c], y: index(c)[n], cosine: scalar = 0.9, sine: scalar = 0.4):
    """A function of the label's own logit in its place (ArcFace), and the tensor it is of is read again."""
    f.u[n, c] = exp(z[n, c])
    f.l[n, c] = where(eq(y[n], c), cosine * f.u[n, c] - sine * sqrt(f.u[n, c] ** 2 + 1), f.u[n, c])
    f.o[n, c] = f.l[n, c] / sum(f.l[n, c] ** 2, over=c)
    return f.o


@op
def with_margin(f, z: tensor[n, c], y: index(c)[n], k: scalar = 0.3):
    """Cross-entropy where the label's own logit is a function of itself: the gradient there is scaled."""
    f.l[n, c] = where(eq(y[n], c), sqrt(z[n, c] ** 2 + k), z[n, c])
    f.m[n] = amax(f.l[n, c], over=c)
    f.loss[()] = mean(f.m[n] + log(sum(exp(f.l[n, c] - f.m[n]), over=c)) - z[n, y[n]], over=n)
    return f.loss


@op
def signed(f, z: tensor[n, c], y: index(c)[n]):
    """Two numbers, told apart by the label."""
    f.s[n, c] = where(eq(c, y[n]), 1, -1)
    f.o[n, c] = exp(-f.s[n, c] * z[n, c])
    return f.o


@op
def shifted(f, z: tensor[n, t, c], y: index(c)[n, t], b: tensor[n, t]):
    """A value a row, subtracted at one place of the last of three axes."""
    f.u[n, t, c] = z[n, t, c] ** 2
    f.o[n, t, c] = exp(f.u[n, t, c] - where(eq(c, y[n, t]), b[n, t], 0))
    return f.o


@op
def strongest_rival(f, z: tensor[c, n], y: index(c)[n]):
    """The axis comes first, and what is left out is -oo."""
    f.o[n] = amax(where(eq(c, y[n]), -oo, z[c, n]), over=c)
    return f.o


@op
def of_every_row(f, z: tensor[n, t, c], y: index(c)[n]):
    """An index that lacks an axis is no index of `scatter`: the mask is made of the others alone."""
    f.o[n, t, c] = where(eq(c, y[n]), z[n, t, c], 0)
    return f.o


@op
def left_out(f, z: tensor[n, c], y: index(c)[n]):
    """What is asked of the index elsewhere says that it may name no place: the choice stays, and matches nothing."""
    f.o[n, c] = where(eq(c, y[n]), z[n, c] ** 2, z[n, c]) * where(y[n] >= 0, 1, 2)
    return f.o


def _is_own(z: Tensor, y: Tensor) -> Tensor:
    return torch.arange(z.shape[-1]) == y[..., None]


def _margins(z: Tensor, y: Tensor) -> Tensor:
    return (1 + z - z.gather(1, y[:, None])).relu().masked_fill(_is_own(z, y), 0).sum(1).mean()


def _rotated(z: Tensor, y: Tensor) -> Tensor:
    u = z.exp()
    left = torch.where(_is_own(z, y), 0.9 * u - 0.4 * (u**2 + 1).sqrt(), u)
    return left / (left**2).sum(1, keepdim=True)


def _with_margin(z: Tensor, y: Tensor) -> Tensor:
    left = torch.where(_is_own(z, y), (z**2 + 0.3).sqrt(), z)
    return (left.logsumexp(1) - z.gather(1, y[:, None])[:, 0]).mean()


def _signed(z: Tensor, y: Tensor) -> Tensor:
    return (-torch.where(_is_own(z, y), z, -z)).exp()


def _shifted(z: Tensor, y: Tensor, b: Tensor) -> Tensor:
    return (z**2 - _is_own(z, y) * b[..., None]).exp()


def _strongest_rival(z: Tensor, y: Tensor) -> Tensor:
    return z.T.masked_fill(_is_own(z.T, y), -torch.inf).amax(1)


def _of_every_row(z: Tensor, y: Tensor) -> Tensor:
    return z * (torch.arange(z.shape[2]) == y[:, None, None])


def _left_out(z: Tensor, y: Tensor) -> Tensor:
    return torch.where(_is_own(z, y), z**2, z) * torch.where(y >= 0, 1, 2)[:, None]


CASES = [
    (margins.op, _margins, ((4, 3), (4,))),
    (rotated.op, _rotated, ((4, 3), (4,))),
    (with_margin.op, _with_margin, ((4, 3), (4,))),
    (signed.op, _signed, ((4, 3), (4,))),
    (shifted.op, _shifted, ((4, 2, 3), (4, 2), (4, 2))),
    (strongest_rival.op, _strongest_rival, ((3, 4), (4,))),
    (of_every_row.op, _of_every_row, ((4, 2, 3), (4,))),
    (left_out.op, _left_out, ((4, 3), (4,))),
]


def _inputs(made: Op, shapes: tuple[tuple[int, ...], ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    out = []
    for o, shape in zip(made.operands, shapes, strict=False):
        if o.kind == "index":
            out.append(torch.arange(4 * 2)[: torch.Size(shape).numel()].reshape(shape) % 3)
        else:
            out.append(torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_())
    return out


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES, ids=lambda v: getattr(v, "name", None))
def test_gradients(made: Op, plain, shapes) -> None:
    inputs = _inputs(made, shapes)
    leaves = [v for v in inputs if v.requires_grad]
    assert_alike(getattr(module(made), made.name)(*inputs), plain(*inputs), leaves)


@pytest.mark.parametrize("made", [margins.op, rotated.op, with_margin.op, signed.op, shifted.op, strongest_rival.op])
def test_no_place_is_compared(made: Op) -> None:
    code = code_of(made)
    assert "scatter" in code and not chooses(code) and "arange" not in code, code


def test_what_is_scaled_at_one_place_is_scaled_there_alone() -> None:
    backward = code_of(with_margin.op).partition("_backward(")[2]
    assert ".scatter_(" in backward and "new_full" not in backward and backward.count(".mul_(") == 0, backward


def test_what_stays_a_choice() -> None:
    code = code_of(left_out.op)
    assert chooses(code) and "scatter" not in code, code


def test_what_is_read_at_the_place_is_not_written_over_before() -> None:
    """`u` is ours and nothing reads it behind: all of it would be squared in place, were it not read there as well."""
    assert "u.mul_" not in code_of(rotated.op) and "u.sub_" not in code_of(shifted.op)


def test_a_value_that_is_no_place_is_refused_by_name() -> None:
    z = torch.zeros(2, 3)
    for made in (margins.op, signed.op):
        with pytest.raises((IndexError, RuntimeError, ValueError), match=f"{made.name}.*y"):
            getattr(module(made), f"{made.name}_forward")(z, torch.tensor([0, 3]))
    y, _ = module(left_out.op).left_out_forward(torch.full((1, 2), 3.0), torch.tensor([-1]))
    assert y.tolist() == [[6.0, 6.0]]
