"""Choices in sums: those that leave the sum."""

from collections.abc import Callable

import pytest
import torch

from derive import axes, constant, exp, op, sum, tensor, where
from derive.costs.cost import is_matrix_product
from derive.equations import Op
from derive.nodes.walking import walk
from derive.pipeline import derive_op
from derive.program import Call, Reduce
from tests.derive.live import assert_derived

n, m, t, s, d = axes("n m t s d")


@op
def mixed(f, x: tensor[n, t], a: tensor[t]):
    f.w[t, s] = exp(a[t] - a[s])
    f.y[n, t] = sum(where(s <= t, f.w[t, s] * x[n, s], 0), over=s)
    return f.y


@op
def paired(f, x: tensor[n, d], y: tensor[m, d], c: constant[n, m]):
    f.s[n, m] = sum(where(c[n, m] > 0, x[n, d] * y[m, d], 0), over=d)
    return f.s


@op
def summed(f, x: tensor[n, d], y: tensor[m, d], c: constant[n, m]):
    f.s[n] = sum(where(c[n, m] > 0, x[n, d] * y[m, d], 0), over=(m, d))
    return f.s


REFERENCES: dict[str, Callable[..., torch.Tensor]] = {
    "mixed": lambda x, a: x @ (a[:, None] - a).exp().tril().T,
    "paired": lambda x, y, c: torch.where(c > 0, x @ y.T, 0),
    "summed": lambda x, y, c: torch.where(c > 0, x @ y.T, 0).sum(1),
}
SHAPES = {"x": (5, 3), "y": (4, 3), "c": (5, 4), "a": (3,)}


@pytest.mark.parametrize("made", [mixed.op, paired.op, summed.op], ids=REFERENCES)
def test_a_choice_whose_condition_lacks_what_is_summed_comes_after_the_matrix_product(made: Op) -> None:
    derived = derive_op(made)
    statements = [*derived.forward.statements, *derived.backward.statements]
    chosen = [w for s in statements for w in walk(s.value) if isinstance(w, Call) and w.fn == "where"]
    assert any(is_matrix_product(p) for w in chosen for p in walk(w.args[1]) if isinstance(p, Reduce))


@pytest.mark.parametrize("made", [mixed.op, paired.op, summed.op], ids=REFERENCES)
def test_values_and_gradients(made: Op) -> None:
    assert_derived(made, REFERENCES[made.name], SHAPES)
