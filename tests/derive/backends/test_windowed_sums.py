"""Sums of products of what windows read, in PyTorch: a loop over the places in a window, without a table."""

import inspect

import pytest
import torch
from torch import Tensor

from derive import axes, constant, exp, mean, op, size, sqrt, sum, tensor, where
from derive.emit import render
from derive.ir.terms.choices import Where
from derive.notation.spec import OpCall
from derive.pipeline import derivation_of
from derive.rules.index.padding import padded
from derive.verify.verify import verify
from tests.derive.live import assert_derived, module

b, c, h, t, u, v, w, k = axes("b c h t u v w k")
p, q, r, many = axes("p=3 q=2 r=3 many=40")


@op
def filtered_anew(f, x: tensor[b, c, t], w: tensor[b, u, p]):
    """A filter of its own at every place."""
    f.y[b, c, u] = sum(w[b, u, p] * x[b, c, u + p], over=p)
    return f.y


@op
def near_scores(f, q: tensor[b, u, c], x: tensor[b, t, c]):
    f.s[b, u, p] = exp(sum(q[b, u, c] * x[b, u + p, c], over=c) / sqrt(4))
    return f.s


@op
def correlated(f, x: tensor[b, c, h, w], z: tensor[b, c, u, v]):
    f.y[b, p, q, u, v] = mean(z[b, c, u, v] * x[b, c, u + p, v + q], over=c)
    return f.y


@op
def of_as_many(f, x: tensor[b, c, t], w: tensor[b, u, k]):
    """As many places as an input has."""
    f.y[b, c, u] = sum(w[b, u, k] * x[b, c, u + 2 * k], over=k)
    return f.y


@op
def of_many(f, x: tensor[b, c, t], w: tensor[b, u, many]):
    f.y[b, c, u] = sum(w[b, u, many] * x[b, c, u + many], over=many)
    return f.y


@op
def of_those_near(f, a: tensor[b, u, k], z: tensor[b, u], x: tensor[b, u, c]):
    """Weights that may be infinite, of the places that there are."""
    inside = (u + k >= 2) & (u + k - 2 < size(u))
    f.y[b, u, c] = sum(where(inside, a[b, u, k] / z[b, u] * x[b, u + k - 2, c], 0), over=k)
    return f.y


@op
def of_frames(f, x: tensor[b, c, t], z: constant[b, c, u]):
    """Windows that hardly overlap: their table is as large as the signal."""
    f.y[b, u, p] = sum(z[b, c, u] * x[b, c, 2 * u + p], over=c)
    return f.y


@op
def of_a_table(f, x: tensor[b, c, t], g: constant[b, c, u, p]):
    """A table that is there already."""
    f.y[b, u, p] = sum(g[b, c, u, p] * x[b, c, u + p], over=c)
    return f.y


CASES = [
    (filtered_anew, lambda x, w: (x.unfold(2, 3, 1) * w[:, None]).sum(-1), {"x": (2, 3, 7), "w": (2, 5, 3)}),
    (near_scores, lambda q, x: ((q[..., None] * x.unfold(1, 3, 1)).sum(2) / 2).exp(), {"q": (2, 5, 4), "x": (2, 7, 4)}),
    (correlated, lambda x, z: (x.unfold(2, 3, 1).unfold(3, 2, 1) * z[..., None, None]).mean(1).movedim((1, 2), (3, 4)),
     {"x": (2, 3, 6, 5), "z": (2, 3, 4, 4)}),
    (of_as_many, lambda x, w: (x.unfold(2, 5, 1)[..., ::2] * w[:, None]).sum(-1), {"x": (2, 3, 9), "w": (2, 5, 3)}),
    (of_frames, lambda x, z: (x.unfold(2, 3, 2) * z[..., None]).sum(1), {"x": (2, 3, 9), "z": (2, 3, 4)}),
]  # fmt: skip
LOOPED = [filtered_anew, near_scores, correlated, of_as_many, of_those_near]


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES, ids=[made.op.name for made, *_ in CASES])
def test_values_and_gradients(made: OpCall, plain, shapes) -> None:
    assert_derived(made.op, plain, shapes)


@pytest.mark.parametrize("made", LOOPED, ids=lambda made: made.op.name)
def test_battery(made: OpCall) -> None:
    found = verify(made.op)
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


@pytest.mark.parametrize("made", LOOPED, ids=lambda made: made.op.name)
def test_no_table_of_all_windows(made: OpCall) -> None:
    assert "unfold" not in inspect.getsource(module(made.op))


@pytest.mark.parametrize("made", [of_many, of_frames, of_a_table], ids=lambda made: made.op.name)
def test_where_turns_are_short_or_a_table_is_small_it_is_made(made: OpCall) -> None:
    assert "unfold" in inspect.getsource(getattr(module(made.op), f"{made.op.name}_forward"))


def test_weights_of_the_last_dimension_lie_tap_by_tap() -> None:
    """Slices of them are read along that dimension, in the forward and where they scatter."""
    code = inspect.getsource(module(filtered_anew.op))
    assert code.count("w_by_p = w.permute(2, 0, 1).contiguous()") == 2 and "w_by_p[at_p][:, None]" in code
    assert "_by_" not in inspect.getsource(module(near_scores.op))


@op
def on_both_sides(f, z: tensor[u], x: tensor[u], a: tensor[k], h: tensor[v]):
    before = (u + k >= 1) & (u + k - 1 < size(u))
    behind = (u + v >= 2) & (u + v - 2 < size(u))
    f.y[u] = sum(where(before & behind, a[k] * h[v] * x[u + k - 1] * x[u + v - 2] / z[u], 0), over=(k, v))
    return f.y


def test_neither_end_is_asked_for_the_other() -> None:
    """What one condition makes 0, the other may leave infinite."""
    body = padded(on_both_sides.op).equation("y").body
    assert isinstance(body, Where), body  # no factor is 0 wherever the whole condition fails
    x, one = torch.tensor([torch.inf, 1, 2, 3]), torch.ones(1)
    y, _ = module(on_both_sides.op).on_both_sides_forward(torch.ones(4), x, one, one)
    assert y.tolist() == [0, 0, torch.inf, 2]
    assert verify(on_both_sides.op).right


def test_conditions_are_asked_of_the_weights() -> None:
    """Where nothing is read, a weight may be anything: it is 0 there, and so is its gradient."""
    made = module(of_those_near.op)
    code = inspect.getsource(made.of_those_near_forward)
    assert code.count("where_by_bits(") == 1 and code.index("where_by_bits(") < code.index("for at_k"), code
    assert ".addcmul_(y_share[:, :, at_k][:, :, None], x_padded[:, at_k : at_k + u])" in code
    a, z, x = torch.ones(1, 3, 2), torch.tensor([[0.0, 1, 2]]), torch.ones(1, 3, 1)
    y, saved = made.of_those_near_forward(a, z, x)
    assert y.flatten().tolist() == [0, 1, 1]
    da, _, dx = made.of_those_near_backward(torch.ones_like(y), *saved)
    assert da.flatten().tolist() == [0, 0, 0, 1, 0.5, 0.5] and dx.flatten().tolist() == [1.5, 0.5, 0]


@op
def energies(f, x: tensor[h, w]):
    """A function of two reads is taken slice by slice as well."""
    f.y[u, v] = sum(exp(-((x[u + p, v + r] - x[u + 1, v + 1]) ** 2)), over=(p, r))
    return f.y


def _energies(x: Tensor) -> Tensor:
    return (-((x.unfold(0, 3, 1).unfold(1, 3, 1) - x[1:-1, 1:-1, None, None]) ** 2)).exp().sum((2, 3))


def test_functions_of_pairs_are_added_up_in_turns() -> None:
    text = render(derivation_of(energies.op))
    forward = text[text.index("def energies_forward") : text.index("def energies_backward")]
    assert "unfold" not in forward and "y += (x[at_p" in forward, forward
    assert_derived(energies.op, _energies, {"x": (6, 7)})
