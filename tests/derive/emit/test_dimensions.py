"""Dimensions of length 1 are kept by what broadcasts by them, and by nothing that the code would squeeze again."""

import pytest

from derive import amax, amin, axes, exp, log, mean, op, scalar, sqrt, sum, tensor
from tests.derive.against_loops import code_of, compare, named

n, m, d, i, j = axes("n m d i j")


@op
def nearest(f, a: tensor[n, d], b: tensor[m, d]):
    f.d2[n, m] = sum((a[n, d] - b[m, d]) ** 4, over=d)
    f.loss[()] = mean(amin(f.d2[n, m], over=m), over=n) + mean(amin(f.d2[n, m], over=n), over=m)
    return f.loss


@op
def spheres(f, x: tensor[n, d], centre: tensor[m, d], k: scalar = 4.0):
    f.dist[n, m] = sqrt(sum((x[n, d] - centre[m, d]) ** 4, over=d) + 1)
    f.y[n] = -log(sum(exp(-k * f.dist[n, m]), over=m)) / k
    return f.y


@op
def uniformity(f, x: tensor[n, d]):
    f.loss[()] = log(mean(exp(-2 * sum((x[i, d] - x[j, d]) ** 2, over=d)), over=(i, j)))
    return f.loss


@op
def weights(f, x: tensor[n, d]):
    f.m[n] = amax(x[n, d], over=d)
    f.u[n, d] = exp(x[n, d] - f.m[n])
    f.y[n, d] = f.u[n, d] / (1 + sum(f.u[n, d], over=d))
    return f.y


CASES = [
    (nearest, {"n": 3, "m": 4, "d": 2}),
    (nearest, {"n": 1, "m": 1, "d": 1}),
    (spheres, {"n": 3, "m": 4, "d": 2}),
    (spheres, {"n": 2, "m": 2, "d": 2}),
    (uniformity, {"n": 4, "d": 3}),
    (weights, {"n": 3, "d": 4}),
]


@pytest.mark.parametrize("strides", ["plain", "transposed"])
@pytest.mark.parametrize(("made", "sizes"), CASES, ids=named(CASES))
def test_against_loops(made: object, sizes: dict[str, int], strides: str) -> None:
    compare(made.op, sizes, strides=strides)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("made", "said", "unsaid"),
    [
        (nearest, "d2 = (a[:, :, None] - b.T).square_().square_().sum(1)", "d2.squeeze"),
        (nearest, "d2 == d2_min\n", ".squeeze(1)[:, None"),
        (spheres, "dist = ((x[:, :, None] - centre.T).square_().square_().sum(1) + 1).sqrt_()", "dist.squeeze"),
        (uniformity, "_exp.mean()", ".squeeze("),
        (weights, "x.amax(1, keepdim=True)", ".squeeze("),
    ],
)
def test_none_is_squeezed_that_need_not_be_kept(made: object, said: str, unsaid: str) -> None:
    source = code_of(made.op)  # type: ignore[attr-defined]
    assert said in source and unsaid not in source, source
