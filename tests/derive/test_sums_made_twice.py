"""A small sum that both passes take of the same tensors is handed on, and taken once."""

import torch
from torch import Tensor

from derive import axes, constant, exp, op, sum, tanh, tensor
from derive.ir.program import Reduce
from derive.pipeline import derive_op
from derive.verify.verify import verify
from tests.derive.live import assert_alike, assert_derived, module

d, e, m, n, s, t = axes("d e m n s t")


@op
def form(f, r: tensor[n], k: tensor[n, m]):
    """A quadratic form: of `k @ r` and `r @ k`, which `dr` adds up, the value has one."""
    f.y[()] = sum(r[n] * k[n, m] * r[m], over=(n, m))
    return f.y


@op
def distortion(f, x: tensor[n, t], p: constant[n, t]):
    """Pairs, of which the distance is the same either way round."""
    f.w[n, t] = tanh(x[n, t])
    f.y[n] = sum(f.w[n, t] * f.w[n, s] * abs(p[n, t] - p[n, s]), over=(t, s))
    return f.y


@op
def either_way(f, x: tensor[n], k: tensor[n, m]):
    """The other way round it is another sum."""
    f.y[()] = sum(x[n] * x[m] * (k[n, m] - 2 * k[m, n]) ** 3, over=(n, m))
    return f.y


def _distortion(x: Tensor, p: Tensor) -> Tensor:
    w = x.tanh()
    return ((p[:, :, None] - p[:, None]).abs() * w[:, :, None] * w[:, None]).sum((1, 2))


def test_it_is_handed_on() -> None:
    for made, name in ((form, "k_r"), (distortion, "p_w")):
        forward, backward = derive_op(made.op).forward, derive_op(made.op).backward
        assert name in forward.returns and name in dict(backward.given)
        (taken,) = (x.value for x in forward.statements if x.name == name)
        assert isinstance(taken, Reduce)
    sums = [x for x in derive_op(form.op).backward.statements if isinstance(x.value, Reduce)]
    assert [str(x.value) for x in sums] == ["sum(r[m] * k[n, m], over=m)"]


def test_values_and_gradients() -> None:
    assert_derived(form.op, lambda r, k: r @ k @ r, {"r": (4,), "k": (4, 4)})
    assert_derived(distortion.op, _distortion, {"x": (3, 5), "p": (3, 5)})
    table = lambda x, k: (torch.outer(x, x) * (k - 2 * k.T) ** 3).sum()  # noqa: E731
    assert_derived(either_way.op, table, {"x": (4,), "k": (4, 4)})


def test_battery() -> None:
    for made in (form, distortion):
        found = verify(made.op)
        assert found.right, [(r.line, [str(x) for x in r.wrong]) for r in found.rows if r.wrong]


@op
def each_row(f, x: tensor[n, d], w: tensor[d, e], g: tensor[n]):
    """The sum is as large as what it is of: it is kept or not by its cost."""
    f.h[n, e] = sum(x[n, d] * w[d, e], over=d)
    f.y[n, e] = f.h[n, e] * g[n]
    return f.y


@op
def of_outer_products(
    f, a: tensor[s, m, d], b: tensor[s, n, e], u: constant[s, m], v: constant[s, n], w: tensor[d, e, t]
):
    """A table of all pairs is larger than all that it is made of (the outer product mean: Jumper et al., 2021)."""
    f.y[m, n, t] = sum(u[s, m] * a[s, m, d] * v[s, n] * b[s, n, e] * w[d, e, t], over=(s, d, e))
    return f.y


def test_others_are_left() -> None:
    for made in (each_row, either_way, of_outer_products):
        assert not derive_op(made.op).functions


def test_by_another_policy_it_is_taken_again() -> None:
    least = derive_op(form.op, "least")
    assert "k_r" not in least.kept
    assert set(least.kept) == {"r", "k"}


@op
def expected_place(f, z: tensor[n, s, t]):
    """Both coordinates of a soft argmax (Sun et al., 2018): the gradient reads the outputs, and no sums of rows."""
    f.p[n, s, t] = exp(z[n, s, t]) / sum(exp(z[n, s, t]), over=(s, t))
    f.row[n] = sum(f.p[n, s, t] * s, over=(s, t))
    f.column[n] = sum(f.p[n, s, t] * t, over=(s, t))
    return f.row, f.column


def test_several_are_handed_on() -> None:
    kept = derive_op(expected_place.op).kept
    assert {"row", "column"} <= set(kept) and "p_sum2" not in kept and "p_sum3" not in kept, kept

    z = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    p = z.flatten(1).softmax(1).view(z.shape)
    rows, columns = (torch.arange(k, dtype=z.dtype) for k in z.shape[1:])
    found = torch.stack(module(expected_place.op).expected_place(z))
    assert_alike(found, torch.stack([p.sum(2) @ rows, p.sum(1) @ columns]), [z])
