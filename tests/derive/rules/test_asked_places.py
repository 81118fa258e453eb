"""What is summed of the place that an index names is read there, where the index lies inside in any case."""

import torch

from derive import amax, axes, constant, eq, exp, index, log, mean, op, sqrt, sum, tensor, where
from derive.pipeline import derivation_of
from derive.rules.index.asked_places import indices_inside
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

n, c = axes("n c")


@op
def own_label(f, z: tensor[n, c], y: index(c)[n]):
    """A margin on the logit of the label, which is made of that logit (Deng et al., 2019)."""
    f.r[n] = sqrt(1 + z[n, y[n]] ** 2)
    f.s[n, c] = where(eq(c, y[n]), z[n, c] - f.r[n], z[n, c])
    f.m[n] = amax(f.s[n, c], over=c)
    f.loss[()] = mean(f.m[n] + log(sum(exp(f.s[n, c] - f.m[n]), over=c)) - f.s[n, y[n]], over=n)
    return f.loss


@op
def compared(f, z: tensor[n, c], b: tensor[n], y: index(c)[n]):
    """A label that is compared alone."""
    f.s[n, c] = where(eq(c, y[n]), z[n, c] - b[n], z[n, c])
    f.t[n, c] = exp(f.s[n, c])
    return f.t


@op
def guarded(f, z: tensor[n, c], b: tensor[n], y: index(c)[n], k: constant[n]):
    """A label that is asked whether it is one, and may lie outside."""
    f.s[n, c] = where((y[n] >= 0) & eq(c, y[n]), z[n, c] - b[n], z[n, c])
    f.loss[()] = sum(where(k[n] > 0, f.s[n, y[n]] ** 2, 0), over=n) + sum(exp(f.s[n, c]), over=(n, c))
    return f.loss


@op
def margin(f, z: tensor[n, c], m: tensor[c], y: index(c)[n]):
    """A learned margin a class, taken off the logit of the label (Cao et al., 2019)."""
    f.s[n, c] = z[n, c] - where(eq(c, y[n]), m[c], 0)
    f.t[n] = sum(exp(f.s[n, c]), over=c)
    return f.t


def test_which_indices_lie_inside() -> None:
    for spec in (own_label, compared, margin):
        assert indices_inside(derivation_of(spec.op).named) == {("y", "c")}
    assert ("y", "c") not in indices_inside(derivation_of(guarded.op).named)


def test_no_tensor_of_zeros_is_made_to_gather_from() -> None:
    assert "zeros" not in code_of(own_label.op) + code_of(compared.op)
    assert "scatter" not in code_of(margin.op).split("def margin_backward")[1] and "arange" not in code_of(margin.op)


def margins(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    r = (1 + z.gather(1, y[:, None]) ** 2).sqrt()
    own = torch.nn.functional.one_hot(y, z.shape[1]) * r
    return torch.nn.functional.cross_entropy(z - own, y)


def test_it_is_right() -> None:
    z, b = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((5, 4), 5))
    y = torch.tensor([0, 3, 1, 1, 2])
    assert_alike(module(own_label.op).own_label(z, y), margins(z, y), (z,))
    own = (torch.arange(4) == y[:, None]) * b[:, None]
    assert_alike(module(compared.op).compared(z, b, y), (z - own).exp(), (z, b))
    m = torch.randn(4, dtype=torch.float64, requires_grad=True)
    taken = z - torch.nn.functional.one_hot(y, 4) * m
    assert_alike(module(margin.op).margin(z, m, y), taken.exp().sum(1), (z, m))
    k = (y != 1).double()
    s = z - own
    picked = s.gather(1, y[:, None])[:, 0] ** 2 * k
    assert_alike(module(guarded.op).guarded(z, b, y, k), picked.sum() + s.exp().sum(), (z, b))
