"""What is small is multiplied behind the sums over what it lacks, not with every element."""

from collections.abc import Callable

import pytest

from derive.ir.equations import Op
from derive.notation import axes, constant, exp, mean, op, sum, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

n, c, s = axes("n c s")


@op
def rows_scaled(f, x: tensor[n, c], g: constant[n], a: tensor[()]):
    """The gradient of `a` is a sum over all rows, each weighed."""
    f.y[n, c] = a[()] * g[n] * x[n, c]
    return f.y


@op
def tempered(f, x: tensor[n, c], w: constant[n], tau: tensor[()]):
    f.l[()] = sum(w[n] * sum(exp(tau[()] * x[n, c]), over=c), over=n)
    return f.l


@op
def of_maps(f, x: tensor[n, c, s], g: constant[n, c], a: tensor[c]):
    """Both sums have the channel's weight: over places first, over samples then."""
    f.y[n, c, s] = a[c] * g[n, c] * x[n, c, s] ** 2
    return f.y


@op
def meant(f, x: tensor[n, c], w: constant[c], k: tensor[()]):
    """A mean of means."""
    f.l[()] = mean(w[c] * (k[()] * x[n, c]) ** 3, over=(n, c))
    return f.l


CASES = [
    (rows_scaled.op, lambda x, g, a: a * g[:, None] * x, {"x": (4, 3), "g": (4,), "a": ()}),
    (tempered.op, lambda x, w, tau: w @ (tau * x).exp().sum(1), {"x": (4, 3), "w": (4,), "tau": ()}),
    (of_maps.op, lambda x, g, a: a[:, None] * g[:, :, None] * x**2, {"x": (4, 3, 5), "g": (4, 3), "a": (3,)}),
    (meant.op, lambda x, w, k: (w * (k * x) ** 3).mean(), {"x": (4, 3), "w": (3,), "k": ()}),
]


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_gradients(made: Op, plain: Callable, shapes: dict[str, tuple[int, ...]]) -> None:
    assert_derived(made, plain, shapes)


def test_a_row_is_summed_before_it_is_weighed() -> None:
    code = code_of(rows_scaled.op).split("_backward(")[1]
    assert "(dy * x).sum(1)" in code and "(g * sum_dy_x).sum()" in code, code
    code = code_of(tempered.op).split("_backward(")[1]
    assert ".mul_(x).sum(1)" in code and "w[:, None]).sum()" not in code, code
    code = code_of(of_maps.op).split("_backward(")[1]
    assert ".sum(2)" in code and "(g * " in code, code
