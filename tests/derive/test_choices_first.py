"""A choice made once a row has a line of its own, so that what reads it stays one operation."""

from derive.notation import axes, constant, exp, log, op, tensor, where
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


@op
def replaced(f, x: tensor[n, d], y: tensor[n, d], w: tensor[d], valid: constant[n]):
    """A row of `y` where the new one is not wanted, as a recurrence keeps a state behind the end of a sequence."""
    f.new[n, d] = log(total(exp(x[n, d]), over=d)) + w[d]
    f.z[n, d] = where(valid[n] > 0, f.new[n, d], y[n, d])
    return f.z


@op
def bounded_twice(f, x: tensor[n, d], w: tensor[n, d], g: tensor[n]):
    f.s[n] = total(w[n, d], over=d)
    f.y[n, d] = x[n, d] - w[n, d] * where(f.s[n] > g[n], f.s[n], g[n] / 2)
    f.z[n, d] = x[n, d] + w[n, d] ** 2 * where(f.s[n] > g[n], f.s[n], g[n] / 2)
    return f.y, f.z


def test_a_choice_has_one_name() -> None:
    for spec, choice in ((replaced, "valid_above_zero.view("), (bounded_twice, "torch.where(s > g, s, g / 2)")):
        forward, _, backward = code_of(spec.op).partition("_backward(")
        assert max(forward.count(choice), backward.count(choice)) == 1


def test_a_choice_over_fewer_axes_has_a_name() -> None:
    code = code_of(bounded.op)
    assert "where_s_above_g_s_g = torch.where(s > g, s, g / 2)" in code
    assert "y = torch.addcmul(x, where_s_above_g_s_g[:, None], w, value=-1)" in code


def test_a_choice_over_all_of_them_stays() -> None:
    forward = code_of(whole.op).partition("_backward(")[0]
    assert "where_" not in forward.replace("where_by_bits(", ""), forward


def test_both_are_right() -> None:
    for spec in (bounded, whole, replaced, bounded_twice):
        compare(spec.op, {"n": 3, "d": 4})
        compare(spec.op, {"n": 3, "d": 4}, strides="turned")
