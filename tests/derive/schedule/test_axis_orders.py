"""Inner tensors have their axes in the order of those who read them."""

from fractions import Fraction

import pytest
import torch

from derive.ir.program import Assign, Call, Num, Program, Read, Reduce, Window
from derive.notation import axes, constant, index, length, mean, op, sum, tanh, tensor
from derive.pipeline import derivation_of
from derive.schedule.axis_orders import in_order
from tests.derive.against_loops import code_of, compare
from tests.derive.live import module

n, i, j, k, o, u, v, d = axes("n i j k o u v d")


@op
def two_ways_in(f, x: tensor[n, i], y: tensor[n, j], U: tensor[i, k], V: tensor[j, k], P: tensor[k, o]):
    f.a[n, k] = tanh(sum(x[n, i] * U[i, k], over=i))
    f.b[n, k] = tanh(sum(y[n, j] * V[j, k], over=j))
    f.z[n, o] = sum(f.a[n, k] * f.b[n, k] * P[k, o], over=k)
    return f.z


@op
def near_and_far(f, U: tensor[v, d], W: tensor[v, d], near: index(v)[n], far: index(v)[n, k], s: constant[n]):
    f.near_[n] = tanh(s[n] * sum(U[near[n], d] * W[near[n], d], over=d))
    f.y[n, k] = f.near_[n] * tanh(sum(U[near[n], d] * W[far[n, k], d], over=d))
    return f.y


@op
def heads_of_rows(f, x: tensor[n, i, j], w: tensor[j, k], heads: length(u)):
    f.z[n, i, k] = sum(x[n, i, j] * w[j, k], over=j)
    f.q[n, u, i, d] = f.z[n, i, (u, d)]
    f.y[n, u, i, o] = sum(f.q[n, u, i, d] * f.q[n, u, o, d], over=d)
    return f.y


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (two_ways_in, "sum_dz_P = dz @ P.T\n"),
        (near_and_far, "_far = dy_sum[:, None] @ functional.embedding(far, W)\n"),
        (heads_of_rows, "dq_apart = dq.transpose(1, 2).flatten(2, 3)"),
        (heads_of_rows, "dx = dq_apart @ w.T"),
    ],
)
def test_what_is_read_beside_rows_is_made_in_rows(made: object, said: str) -> None:
    assert said in code_of(made.op), code_of(made.op)  # type: ignore[attr-defined]


def test_what_is_made_the_other_way_round_is_right() -> None:
    shapes = [(3, 4), (3, 5), (4, 3), (5, 3), (3, 2)]
    args = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(module(two_ways_in.op).two_ways_in, args)
    x, w = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in [(2, 3, 5), (5, 6)])
    assert torch.autograd.gradcheck(lambda x, w: module(heads_of_rows.op).heads_of_rows(x, w, 3), (x, w))


def program(*statements: Assign) -> Program:
    given = (("a", ("n", "k")), ("b", ("k", "o")), ("c", ("n", "o")), ("p", ("k", "...")), ("q", ("k", "n")))
    return Program("test", given, (), statements, ("y",))


PRODUCT = Reduce("sum", ("o",), Call("mul", (Read("b", ("k", "o")), Read("c", ("n", "o")))))


def read(s: Assign, order: tuple[str, ...]) -> Read:
    return Read(s.name, tuple(order))


def test_readers_that_disagree_leave_the_order() -> None:
    s = Assign("s", ("k", "n"), PRODUCT)
    one = Assign("t", ("n", "k"), Call("mul", (Read("a", ("n", "k")), read(s, ("k", "n")))))
    other = Assign("y", ("k", "n"), Call("mul", (Read("q", ("k", "n")), read(s, ("k", "n")))))
    use = Assign("z", ("n",), Reduce("sum", ("k",), read(one, ("n", "k"))))
    p = program(s, one, use, other)
    assert in_order(p, ()) == p
    assert in_order(program(s, one, replace_y(one)), ()).statements[0].axes == ("n", "k")


def replace_y(one: Assign) -> Assign:
    return Assign("y", ("n", "k"), read(one, ("n", "k")))


def test_a_tensor_of_the_spec_and_what_is_returned_keep_theirs() -> None:
    s = Assign("s", ("k", "n"), PRODUCT)
    t = Assign("y", ("n", "k"), Call("mul", (Read("a", ("n", "k")), read(s, ("k", "n")))))
    assert in_order(program(s, t), {"s"}) == program(s, t)
    assert in_order(program(s, t), ()).statements[0].axes == ("n", "k")
    assert in_order(program(Assign("y", ("k", "n"), PRODUCT)), ()).statements[0].axes == ("k", "n")


def test_windows_have_their_places_before_their_taps() -> None:
    read_ = Read("c", (Window((("k", 1), ("n", 1)), Num(Fraction(0))), "o"))
    s = Assign("s", ("n", "o", "k"), Call("mul", (Read("b", ("k", "o")), read_)))
    t = Assign("y", ("n", "o", "k"), Call("neg", (read(s, ("n", "o", "k")),)))
    assert in_order(program(s, t), ()) == program(s, t)


@op
def correlated(f, a: tensor[n, d, i, j], b: tensor[n, d, k, o], height: length(u) = 3, width: length(v) = 3):
    """What two images have in common near each place, at each displacement."""
    f.y[n, u, v, i, j] = mean(a[n, d, i, j] * b[n, d, i + u, j + v], over=d)
    return f.y


def test_what_is_summed_over_taps_has_its_axes_as_the_windows_have_them() -> None:
    statements = derivation_of(correlated.op).backward.statements
    summed = next(s for s in statements if s.name == "sum_dy_b")
    assert summed.axes == ("n", "d", "i", "j"), str(summed)
    compare(correlated.op, {"n": 2, "d": 4, "i": 5, "j": 2, "k": 7, "o": 4, "u": 3, "v": 3})
    compare(correlated.op, {"n": 3, "d": 3, "i": 3, "j": 3, "k": 5, "o": 5, "u": 3, "v": 3})


def test_leading_axes_stay_in_front() -> None:
    s = Assign("s", ("...", "k"), Call("exp", (Read("p", ("k", "...")),)))
    t = Assign("y", ("...", "k"), Call("neg", (read(s, ("...", "k")),)))
    assert in_order(program(s, t), ()) == program(s, t)
