"""Choices in sums: those that leave the sum."""

from collections.abc import Callable
from inspect import getsource

import pytest
import torch

from derive import axes, constant, exp, op, sum, tensor, where
from derive.ir.equations import Op
from derive.ir.nodes.products import is_matrix_product
from derive.ir.nodes.walking import walk
from derive.ir.program import Call, Reduce
from derive.pipeline import derive_op
from tests.derive.live import assert_derived, module

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


@op
def left_out(f, x: tensor[n, d], y: tensor[m, d], c: constant[d]):
    f.s[n, m] = sum(where(c[d] > 0, x[n, d] * y[m, d], 0), over=d)
    return f.s


def test_a_choice_of_what_is_summed_is_made_in_both_factors() -> None:
    """Nothing runs over all three axes, and what is left out may be infinite."""
    forward = getsource(module(left_out.op).left_out_forward)
    assert " @ " in forward and ".sum(" not in forward
    c = torch.tensor([1.0, 0.0, 1.0])
    x, y = (torch.randn(size, 3, dtype=torch.float64) for size in (5, 4))
    expected = x[:, c > 0] @ y[:, c > 0].T
    x[:, 1], y[2, 1] = torch.inf, torch.nan
    leaves = [x.requires_grad_(), y.requires_grad_()]
    ours = module(left_out.op).left_out(*leaves, c)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=0)
    for gradient in torch.autograd.grad(ours.sum(), leaves):
        assert gradient.isfinite().all() and (gradient[:, 1] == 0).all()
