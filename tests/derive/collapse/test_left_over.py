"""An elimination is taken where what it subtracts cancels, also where the value read that before."""

import pytest
import torch
from sympy import Expr
from torch import Tensor

from derive.collapse.inversions import inversions, subtracted
from derive.collapse.left_over import left_over, marked
from derive.ir.algebra import substitute
from derive.ir.terms.elements import At
from derive.ir.terms.elements import Tensor as Symbolic
from derive.notation import axes, constant, exp, log, op, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import module

n, d = axes("n d")


@op
def negative_binomial(f, la: tensor[n], r: tensor[()], y: constant[n]):
    f.mu[n] = exp(la[n])
    f.loss[()] = -sum(r[()] * log(r[()] / (r[()] + f.mu[n])) + y[n] * log(f.mu[n] / (r[()] + f.mu[n])), over=n)
    return f.loss


@op
def scaled_sum(f, u: constant[n, d], r: tensor[d], k: tensor[n]):
    f.z[n, d] = u[n, d] + r[d]
    f.y[n, d] = f.z[n, d] ** 3
    f.q[n, d] = k[n] * u[n, d] + k[n] * r[d]
    return f.y, f.q


def naive(la: Tensor, r: Tensor, y: Tensor) -> Tensor:
    mu = la.exp()
    return -(r * (r / (r + mu)).log() + y * (mu / (r + mu)).log()).sum()


def test_as_exact_in_float32_as_autograd() -> None:
    torch.manual_seed(0)
    at = [torch.randn(40), torch.tensor(1e5), torch.rand(40).mul(9).round()]
    made = module(negative_binomial.op).negative_binomial
    found = []
    for forward, dtype in ((naive, torch.float64), (naive, torch.float32), (made, torch.float32)):
        leaves = [t.to(dtype) for t in at]
        leaves[0].requires_grad_()
        found.append(torch.autograd.grad(forward(*leaves), leaves[0])[0].double())
    truth, theirs, ours = found
    assert (ours - truth).norm() <= 2 * (theirs - truth).norm()
    assert "mu" in derivation_of(negative_binomial.op).kept


def test_what_cancels_with_what_stood_there_is_eliminated() -> None:
    """`sum(dq*u) + sum(dq*r)` is `sum(dq*z)`, although the value read `r` before."""
    made = derivation_of(scaled_sum.op)
    assert made.kept == ("z", "k")
    assert "z" in {name for choice in made.closed.choices for name in choice.eliminate}


g, u, z = (At(Symbolic(name), n, d) for name in "guz")
r = At(Symbolic("r"), d)
KEPT = [
    pytest.param(g * u + g * r, True, id="all of it cancels"),
    pytest.param(g * u + 2 * g * r, True, id="some is left of what stood there"),
    pytest.param(g * u, False, id="left"),
    pytest.param(g * u - g * r, False, id="more of it is subtracted"),
    pytest.param(g * u + g * r / z, False, id="what stood there is another thing"),
    pytest.param(g * r * u / z - g * r, False, id="left with another factor"),
    pytest.param(g / u + r, False, id="divided by"),
    pytest.param(exp(u) + r, False, id="within a function"),
    pytest.param(exp(g) + r, True, id="nothing was eliminated"),
]


@pytest.mark.parametrize(("value", "cancels"), KEPT)
def test_nothing_of_it_is_left(value: Expr, cancels: bool) -> None:
    (by,) = (i for i in inversions(scaled_sum.op) if i.through == "z")
    lost = subtracted(by, scaled_sum.op)
    done, told = (substitute(value, {"u": (i.axes, i.value)}) for i in (by, marked(by, lost)))
    assert left_over(done, told) == (set() if cancels else {"u"})
    assert told.xreplace({m: 1 for m in told.free_symbols if m.name == "u"}) == done
