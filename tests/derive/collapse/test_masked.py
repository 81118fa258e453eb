"""What is bounded before it is exponentiated is asked once: the backward reads what the forward has under the mask."""

import torch

from derive.collapse.masked import masked, use_masked
from derive.ir.terms.axes import Axis
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Tensor
from derive.notation import amax, axes, constant, exp, oo, op, scalar, sigmoid, size, sqrt, sum, tensor, where
from derive.pipeline import derivation_of
from derive.verify.verify import verify
from tests.derive.live import assert_alike, assert_derived, module

t, s, u, v = axes("t s u v")


@op
def decays(f, a: tensor[t], x: tensor[t]):
    f.e[t, s] = exp(where(s <= t, a[t] - a[s], 0))
    f.l[t, s] = where(s <= t, f.e[t, s], 0)
    f.y[t] = sum(f.l[t, s] * x[s], over=s)
    return f.y


def at(name: str, *index: Axis) -> At:
    return At(Tensor(name), *index)


def test_under_the_same_condition_alone() -> None:
    known = masked(decays.op)
    one, other = (Where(c, 1, 0) for c in (u <= v, v <= u))
    found, why = use_masked(3 * at("x", u) * one * at("e", v, u), known)
    assert (str(found), why) == ("3*x[u]*l[v, u]", ("l[t, s] = where(s <= t, e[t, s], 0)",))
    for value in (other * at("e", v, u), one * at("e", u, v), one * at("x", u), at("e", v, u)):
        assert use_masked(value, known) == (value, ())


@op
def decays_by_weights(f, a: tensor[t], x: tensor[t], w: constant[t, s]):
    """What is masked out stands first: of nan `w <= 0` is no opposite of `w > 0`, and the choice stays as it is."""
    f.e[t, s] = exp(where(w[t, s] > 0, 0, a[t] - a[s]))
    f.l[t, s] = where(w[t, s] > 0, 0, f.e[t, s])
    f.y[t] = sum(f.l[t, s] * x[s], over=s)
    return f.y


def test_what_is_masked_out_may_stand_first() -> None:
    assert "where" not in str(derivation_of(decays_by_weights.op).backward)
    a, x = (torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    w = torch.randn(5, 5, dtype=torch.float64)
    wanted = torch.exp(a[:, None] - a).masked_fill(w > 0, 0) @ x
    assert_alike(module(decays_by_weights.op).decays_by_weights(a, x, w), wanted, (a, x))


def test_a_bounded_exponential_is_kept_once() -> None:
    assert not {"e"} & set(derivation_of(decays.op).kept)
    assert "where" not in str(derivation_of(decays.op).backward)
    a, x = (torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert_alike(module(decays.op).decays(a, x), torch.exp(a[:, None] - a).tril() @ x, (a, x))


@op
def activated(f, x: tensor[t, s], v: tensor[s, u]):
    """Sigmoid attention, of what came before (Ramapuram et al., 2024)."""
    f.p[t, s] = where(s <= t, sigmoid(x[t, s]), 0)
    f.y[t, u] = sum(f.p[t, s] * v[s, u], over=s)
    return f.y


def test_an_activation_under_a_mask_is_not_masked_again() -> None:
    assert derivation_of(activated.op).kept == ("p", "v")
    assert "where" not in str(derivation_of(activated.op).backward)

    def plain(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.sigmoid().tril() @ v

    assert_derived(activated.op, plain, {"x": (5, 5), "v": (5, 3)})
    assert_derived(activated.op, plain, {"x": (5, 7), "v": (7, 3)})


@op
def windowed_scores(f, q: tensor[t, u], k: tensor[s, u], w: tensor[s, v], width: scalar = 5):
    """Scores that stand scaled inside the choice."""
    f.a[t, s] = where((s <= t) & (t < s + width), sum(q[t, u] * k[s, u], over=u) / sqrt(size(u)), -oo)
    f.e[t, s] = exp(f.a[t, s] - amax(f.a[t, s], over=s))
    f.o[t, v] = sum(f.e[t, s] * w[s, v], over=s) / sum(f.e[t, s], over=s)
    return f.o


def test_what_scales_a_branch_scales_what_is_smaller() -> None:
    lines = [str(s) for s in derivation_of(windowed_scores.op).backward.statements]
    table = [line for line in lines if line.partition(" = ")[0].endswith("[t, s]")]
    assert table and not any("size(u)" in line for line in table), lines
    assert verify(windowed_scores.op).right
