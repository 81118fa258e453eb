"""A sum whose index has a name of its own, as on paper, runs over the axis of what it reads."""

import pytest
import torch

from derive import amax, axes, constant, exp, log, mean, op, sum, tensor, where
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from tests.derive.live import module

n, c, i, j, k = axes("n c i j k")


@op
def on_paper(f, z: tensor[n, c]):
    """A softmax in one line."""
    f.p[n, c] = exp(z[n, c] - amax(z[n, k], over=k)) / sum(exp(z[n, j] - amax(z[n, k], over=k)), over=j)
    return f.p


@op
def by_one_name(f, z: tensor[n, c]):
    """The same, all sums over the axis that is declared."""
    f.p[n, c] = exp(z[n, c] - amax(z[n, c], over=c)) / sum(exp(z[n, c] - amax(z[n, c], over=c)), over=c)
    return f.p


def test_it_is_the_sum_over_the_declared_axis() -> None:
    assert on_paper.op.equations == by_one_name.op.equations
    assert [str(s) for s in derivation_of(on_paper.op).backward.statements] == [
        "sum_dp_p[n] = sum(dp[n, c] * p[n, c], over=c)",
        "dz[n, c] = p[n, c] * (dp[n, c] - sum_dp_p[n])",
    ]


def test_lengths_are_those_of_the_declared_axis() -> None:
    with pytest.raises(ValueError, match="axis c has length 0 in z, but its maximum needs at least one place"):
        module(on_paper.op).on_paper(torch.zeros(2, 0))


@op
def pairs(f, z: tensor[n, c]):
    """Both axes stand in one sum."""
    f.y[n] = sum(z[n, i] * z[n, j], over=(i, j))
    return f.y


@op
def among_others(f, z: tensor[n, c]):
    """The declared axis stands beside the one that is summed over."""
    f.y[n, c] = sum(where(z[n, j] < z[n, c], z[n, j], 0), over=j)
    return f.y


@op
def of_two(f, z: tensor[n, c], w: tensor[n, k]):
    """One name for the places of two tensors: they are as long as one another."""
    f.y[n] = sum(z[n, j], over=j) + sum(w[n, j], over=j)
    return f.y


@op
def named_elsewhere(f, z: tensor[n, c]):
    """Another equation has the axis on its left."""
    f.y[n] = sum(z[n, j], over=j)
    f.x[n, j] = z[n, j] - f.y[n]
    return f.x


KEPT = [(pairs.op, {"c", "j"}), (among_others.op, {"j"}), (of_two.op, {"j"}), (named_elsewhere.op, {"j"})]


@pytest.mark.parametrize("made, bound", KEPT, ids=[made.name for made, _ in KEPT])
def test_where_it_is_another_axis_it_keeps_its_name(made: Op, bound: set[str]) -> None:
    assert {a.base for e in made.equations for a in e.over} == bound


def test_two_tensors_under_one_name_are_as_long() -> None:
    with pytest.raises(ValueError, match="axis j is 4 in z but 3 in w"):
        module(of_two.op).of_two(torch.zeros(2, 4), torch.zeros(2, 3))


@op
def against_targets(f, s: tensor[n, c], a: constant[n, c]):
    """Targets that are a softmax themselves sum to 1 (Hinton et al., 2015)."""
    f.t[n, c] = exp(a[n, c]) / sum(exp(a[n, j]), over=j)
    f.loss[()] = mean(sum(f.t[n, c] * (log(sum(exp(s[n, k]), over=k)) - s[n, c]), over=c), over=n)
    return f.loss


def test_targets_sum_to_1_and_the_gradient_is_right() -> None:
    generator = torch.Generator().manual_seed(0)
    s, a = (torch.randn(4, 6, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2))
    loss = torch.nn.functional.cross_entropy(s, a.detach().softmax(1)) * 1.7
    (right,) = torch.autograd.grad(loss, s)
    (found,) = torch.autograd.grad(module(against_targets.op).against_targets(s, a.detach()) * 1.7, s)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)
    assert not any("sum(t[" in str(line) for line in derivation_of(against_targets.op).backward.statements)
