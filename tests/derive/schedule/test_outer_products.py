"""Products over more axes than their factors have are left out where sums read them."""

import pytest

from derive import axes, op, sqrt, sum, tanh, tensor
from derive.ir.equations import Op
from derive.ir.program import Assign
from derive.pipeline import derive_op
from tests.derive.live import assert_derived

n, o, i = axes("n o i")


@op
def modulated(f, x: tensor[n, i], s: tensor[n, i], w: tensor[o, i]):
    f.m[n, o, i] = s[n, i] * w[o, i]
    f.y[n, o] = sum(f.m[n, o, i] * x[n, i], over=i) / sqrt(sum(f.m[n, o, i] ** 2, over=i) + 1)
    return f.y


@op
def squashed(f, s: tensor[n, i], w: tensor[o, i]):
    f.m[n, o, i] = s[n, i] * w[o, i]
    f.y[n, o] = sum(tanh(f.m[n, o, i]), over=i)
    return f.y


@op
def scaled(f, s: tensor[n, o, i], w: tensor[o, i]):
    f.m[n, o, i] = s[n, o, i] * w[o, i]
    f.y[n, o] = sum(f.m[n, o, i] ** 2, over=i)
    return f.y


REFERENCES = {
    "modulated": lambda x, s, w: (s * x) @ w.T / (s**2 @ (w**2).T + 1).sqrt(),
    "squashed": lambda s, w: (s[:, None] * w).tanh().sum(2),
    "scaled": lambda s, w: (s * w).square().sum(2),
}
SHAPES = {"x": (5, 3), "w": (4, 3)}


def _large(made: Op) -> list[str]:
    """What the forward and the backward make over all axes."""
    derived = derive_op(made)
    statements = [*derived.forward.statements, *derived.backward.statements]
    return [s.name for s in statements if isinstance(s, Assign) and len(s.axes) == 3]


def test_what_only_sums_read_is_not_made() -> None:
    assert _large(modulated.op) == []


@pytest.mark.parametrize("made", [squashed.op, scaled.op], ids=["not a factor", "no outer product"])
def test_any_other_is(made: Op) -> None:
    assert "m" in _large(made)


@pytest.mark.parametrize("made", [modulated.op, squashed.op, scaled.op], ids=REFERENCES)
def test_values_and_gradients(made: Op) -> None:
    shapes = SHAPES | {"s": (5, 4, 3) if made.name == "scaled" else (5, 3)}
    assert_derived(made, REFERENCES[made.name], shapes)
