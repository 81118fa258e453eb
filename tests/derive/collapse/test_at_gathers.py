"""What is only read at gathered places is made there, and nothing else is."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive.collapse.at_gathers import at_gathers
from derive.notation import amax, axes, concat, exp, index, log, mean, op, sigmoid, sum, tensor, where
from tests.derive.against_loops import code_of
from tests.derive.live import module

n, m, c, d, i, j, k = axes("n m c d i j k")


@op
def between_cuts(f, z: tensor[n], th: tensor[k], y: index(i)[n]):
    f.cut[j] = concat(-9, th[k], 9, along=j)
    f.cdf[n, j] = sigmoid(f.cut[j] - z[n])
    f.pr[n, i] = f.cdf[n, i + 1] - f.cdf[n, i]
    f.loss[()] = mean(f.pr[n, y[n]] ** 2, over=n)
    return f.loss


@op
def mixed(f, a: tensor[n, k], z: tensor[n, k, c], y: index(c)[n]):
    f.p[n, c] = sum(a[n, k] ** 2 * exp(z[n, k, c]), over=k)
    f.loss[n] = log(f.p[n, y[n]])
    return f.loss


@op
def of_other_rows(f, x: tensor[n, c], w: tensor[d], row: index(n)[m], y: index(c)[m]):
    f.q[n, c] = exp(x[n, c]) * w[c]
    f.loss[m] = f.q[row[m], y[m]] * 2
    return f.loss


@op
def picked_softmax(f, z: tensor[n, c], y: index(c)[n]):
    f.top[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.top[n])
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.loss[n] = f.p[n, y[n]] ** 0.7
    return f.loss


@op
def guarded(f, z: tensor[n, c], y: index(c)[n]):
    f.q[n, c] = exp(z[n, c]) * 3
    f.loss[n] = where(y[n] >= 0, f.q[n, y[n]], 1)
    return f.loss


@op
def read_elsewhere(f, z: tensor[n, c], y: index(c)[n]):
    f.q[n, c] = exp(z[n, c])
    f.loss[n] = f.q[n, y[n]] + sum(f.q[n, c], over=c)
    return f.loss


@op
def given_back(f, z: tensor[n, c], y: index(c)[n]):
    f.q[n, c] = exp(z[n, c])
    f.loss[n] = f.q[n, y[n]] ** 2
    return f.q, f.loss


@op
def by_its_place(f, z: tensor[n, c], y: index(c)[n]):
    f.q[n, c] = exp(z[n, c] * c)
    f.loss[n] = f.q[n, y[n]] ** 2
    return f.loss


@op
def as_many(f, z: tensor[n], y: index(n)[m]):
    f.q[n] = exp(z[n])
    f.loss[m] = f.q[y[m]] ** 2
    return f.loss


MOVED = [
    (
        between_cuts,
        ["cut[j] = concat(-9, th[k], 9, along=j)", "cut_at[i] = cut[i + 1]", "cut_at2[i] = cut[i]",
         "pr[n] = sigmoid(cut_at[y[n]] - z[n]) - sigmoid(cut_at2[y[n]] - z[n])"],
    ),
    (mixed, ["p[n] = sum(exp(z[n, k, y[n]])*a[n, k]**2, over=k)"]),
    (of_other_rows, ["q[m] = exp(x[row[m], y[m]])*w[y[m]]"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "equations"), MOVED, ids=[made.op.name for made, _ in MOVED])
def test_it_moves(made, equations: list[str]) -> None:
    before, after = made.op, at_gathers(made.op)
    assert [str(e) for e in after.equations[:-1]] == equations
    assert len(before.equations[-1].axes) == len(after.equations[-1].axes)


@pytest.mark.parametrize("made", [read_elsewhere, given_back, by_its_place, as_many])
def test_it_stays(made) -> None:
    assert at_gathers(made.op) == made.op


def test_every_gradient_that_is_asked_for_is_there() -> None:
    asked = replace(mixed.op, stepwise=True)
    assert at_gathers(asked) == asked


def cut_apart(z: Tensor, th: Tensor, y: Tensor) -> Tensor:
    cdf = torch.sigmoid(functional.pad(functional.pad(th, (1, 0), value=-9), (0, 1), value=9) - z[:, None])
    return cdf.diff(dim=1).gather(1, y[:, None]).square().mean()


def _picked(q: Tensor, y: Tensor) -> Tensor:
    return q.gather(1, y[:, None])[:, 0]


@op
def several_picked(f, z: tensor[n, c], y: index(c)[n, k]):
    """A softmax at several places of each row, which may be the same."""
    f.m[n] = amax(z[n, c], over=c)
    f.u[n, c] = exp(z[n, c] - f.m[n])
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.o[n, k] = f.p[n, y[n, k]]
    return f.o


def mixed_apart(a: Tensor, z: Tensor, y: Tensor) -> Tensor:
    return _picked((a[:, :, None] ** 2 * z.exp()).sum(1), y).log()


def R(*lengths: int) -> Tensor:
    return torch.randn(*lengths, dtype=torch.float64, generator=torch.Generator().manual_seed(len(lengths)))


I = torch.tensor
CASES = [
    (between_cuts, cut_apart, (R(5), R(3).sort().values, I([0, 3, 3, 1, 2]))),
    (between_cuts, cut_apart, (R(1), R(1), I([1]))),
    (mixed, mixed_apart, (R(3, 4), R(3, 4, 5), I([4, 0, 4]))),
    (mixed, mixed_apart, (R(3, 3), R(3, 3, 3), I([1, 1, 1]))),
    (of_other_rows, lambda x, w, row, y: (x.exp() * w)[row, y] * 2, (R(3, 4), R(4), I([2, 0, 2, 1]), I([3, 0, 3, 1]))),
    (of_other_rows, lambda x, w, row, y: (x.exp() * w)[row, y] * 2, (R(3, 3), R(3), I([2, 0, 2]), I([2, 0, 0]))),
    (picked_softmax, lambda z, y: _picked(z.softmax(1), y) ** 0.7, (R(3, 4), I([0, 3, 0]))),
    (several_picked, lambda z, y: z.softmax(1).gather(1, y), (R(3, 4), I([[0, 3, 0], [1, 1, 1], [2, 0, 3]]))),
    (guarded, lambda z, y: torch.where(y >= 0, _picked(z.exp() * 3, y.clamp(0)), 1), (R(3, 4), I([0, -7, 3]))),
]


@pytest.mark.parametrize(("made", "right", "given"), CASES, ids=[f"{c[0].op.name}-{k}" for k, c in enumerate(CASES)])
def test_against_autograd(made, right, given: tuple[Tensor, ...]) -> None:
    ours, theirs = ([v.clone().requires_grad_(v.is_floating_point()) for v in given] for _ in range(2))
    got, want = getattr(module(made.op), made.op.name)(*ours), right(*theirs)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
    dy = torch.randn_like(want)
    got.backward(dy)
    want.backward(dy)
    for a, b in zip(ours, theirs, strict=True):
        if b.is_floating_point():
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-12, atol=1e-14)


def test_nothing_is_computed_that_nobody_reads() -> None:
    code = code_of(between_cuts.op)
    assert "cut_at.index_select(0, y)" in code and "cdf" not in code.partition("_forward(")[2], code


def test_what_is_added_at_places_is_summed_there() -> None:
    """The sum of `dp * p` over a row is that over what was picked; no row of zeros is made for `dp`."""
    backward = code_of(several_picked.op).partition("_backward(")[2]
    assert "zeros" not in backward and "scatter_add_" in backward, backward


def test_lengths_are_checked_as_they_are_written() -> None:
    """`w` is read as `w[c]` in the spec, and only at gathered places in the code."""
    made = module(of_other_rows.op)
    row, y = torch.tensor([0, 1]), torch.tensor([2, 0])
    with pytest.raises(ValueError, match="axis c is 3 in x but 5 in w"):
        made.of_other_rows(torch.randn(2, 3), torch.randn(5), row, y)
    with pytest.raises(IndexError, match="between_cuts, equation loss: y holds 3, but axis i has length 3"):
        module(between_cuts.op).between_cuts(torch.randn(2), torch.randn(2), torch.tensor([0, 3]))
