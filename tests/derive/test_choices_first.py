"""A choice made once a row has a line of its own, so that what reads it stays one operation."""

from derive.notation import axes, op, tensor, where
from derive.notation import sum as total
from tests.derive.against_loops import code_of, compare

n, d = axes("n d")


@op
def bounded(f, x: tensor[n, d], w: tensor[n, d], g: tensor[n]):
    f.s[n] = total(w[n, d], over=d)
    f.y[n, d] = x[n, d] - w[n, d] * where(f.s[n] > g[n], f.s[n], g[n] / 2)
    return f.y


@op
def whole(f, x: tensor[n, d], w: tensor[n, d]):
    f.y[n, d] = x[n, d] - w[n, d] * where(x[n, d] > w[n, d], w[n, d] + 1, x[n, d])
    return f.y


def test_a_choice_over_fewer_axes_has_a_name() -> None:
    code = code_of(bounded.op)
    assert "where_s_above_g_s_g = torch.where(s > g, s, g / 2)" in code
    assert "y = torch.addcmul(x, where_s_above_g_s_g[:, None], w, value=-1)" in code


def test_a_choice_over_all_of_them_stays() -> None:
    forward = code_of(whole.op).partition("_backward(")[0]
    assert "where_" not in forward


def test_both_are_right() -> None:
    for spec in (bounded, whole):
        compare(spec.op, {"n": 3, "d": 4})
        compare(spec.op, {"n": 3, "d": 4}, strides="turned")
