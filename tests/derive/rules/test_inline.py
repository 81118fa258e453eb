"""An op that calls an op: the callee's equations with the caller's tensors and axes, under names of their own."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.notation import (
    amax,
    axes,
    concat,
    eq,
    exp,
    index,
    length,
    mean,
    op,
    scalar,
    size,
    sqrt,
    sum,
    tensor,
    where,
)
from tests.derive.evaluate import World, forward
from tests.derive.live import assert_derived
from tests.derive.test_adjoint import check_gradients

n, m, d, e, c, i, j, k, t = axes("n m d e c i j k t")


@op
def weights(f, z: tensor[..., c]):
    f.m[...] = amax(z[..., c], over=c)
    f.u[..., c] = exp(z[..., c] - f.m[...])
    f.p[..., c] = f.u[..., c] / sum(f.u[..., c], over=c)
    return f.p


@op
def affine(f, x: tensor[..., d], w: tensor[d, e], b: tensor[e], scale: scalar = 2):
    f.y[..., e] = scale * sum(x[..., d] * w[d, e], over=d) + b[e]
    return f.y


@op
def products(f, a: tensor[n, d], b: tensor[k, d]):
    f.g[n, k] = sum(a[n, d] * b[k, d], over=d)
    return f.g


@op
def centre(f, x: tensor[..., d]):
    f.mu[...] = sum(x[..., d], over=d) / size(d)
    f.y[..., d] = x[..., d] - f.mu[...]
    return f.y


@op
def mean_of_all(f, x: tensor[...]):
    f.y[()] = mean(x[...] ** 2, over=...)
    return f.y


@op
def two_outputs(f, x: tensor[n]):
    f.low[n] = x[n] - 1
    f.high[n] = f.low[n] * 2
    return f.low, f.high


def softmax(z: np.ndarray) -> np.ndarray:
    u = np.exp(z - z.max(-1, keepdims=True))
    return u / u.sum(-1, keepdims=True)


@op
def renamed_axes(f, x: tensor[i, j]):
    f.p = weights(x)
    f.y[i, j] = f.p[i, j] ** 2
    return f.y


@op
def one_tensor_twice(f, x: tensor[i, j]):
    f.g = products(x, x)
    return f.g


@op
def its_own_output(f, x: tensor[i, j]):
    f.p = weights(x)
    f.q = weights(f.p)
    return f.q


@op
def its_own_output_at_once(f, x: tensor[i, j]):
    f.q = weights(weights(x))
    return f.q


@op
def several_leading_axes(f, x: tensor[n, t, i], w: tensor[i, j], b: tensor[j]):
    f.y = affine(x, w, b, scale=3)
    return f.y


@op
def no_leading_axes(f, x: tensor[i], w: tensor[i, j], b: tensor[j]):
    f.y = affine(x, w, b=b)
    return f.y


@op
def one_square_matrix_twice(f, x: tensor[n, i], w: tensor[i, j], b: tensor[j]):
    f.y = affine(x, w, b)
    f.z = affine(f.y, w, b)
    return f.z


@op
def leading_axes_and_size(f, x: tensor[n, t, d]):
    f.y = centre(x)
    return f.y


@op
def reduced_over_all(f, x: tensor[n, t]):
    f.y = mean_of_all(x)
    return f.y


@op
def caller_has_the_axis(f, x: tensor[c, d]):
    """The callee's `c` is the caller's `d`; the caller's `c` is the callee's `...`."""
    f.p = weights(x)
    return f.p


@op
def transposed_product(f, x: tensor[d, n]):
    """The axes of the caller have the callee's names, the other way round."""
    f.g = products(x, x)
    return f.g


TABLE = [
    (renamed_axes, {"i": 2, "j": 3}, lambda x: softmax(x) ** 2),
    (one_tensor_twice, {"i": 3, "j": 2}, lambda x: x @ x.T),
    (its_own_output, {"i": 2, "j": 3}, lambda x: softmax(softmax(x))),
    (its_own_output_at_once, {"i": 2, "j": 3}, lambda x: softmax(softmax(x))),
    (several_leading_axes, {"n": 2, "t": 3, "i": 2, "j": 4}, lambda x, w, b: 3 * x @ w + b),
    (no_leading_axes, {"i": 2, "j": 4}, lambda x, w, b: 2 * x @ w + b),
    (one_square_matrix_twice, {"n": 3, "i": 2, "j": 2}, lambda x, w, b: 2 * (2 * x @ w + b) @ w + b),
    (leading_axes_and_size, {"n": 2, "t": 3, "d": 4}, lambda x: x - x.mean(-1, keepdims=True)),
    (reduced_over_all, {"n": 2, "t": 3}, lambda x: np.mean(x**2)),
    (caller_has_the_axis, {"c": 2, "d": 3}, softmax),
    (transposed_product, {"d": 2, "n": 3}, lambda x: x @ x.T),
]
NAMED = [pytest.param(*row, id=row[0].__name__) for row in TABLE]


def world(made: Op, sizes: dict[str, int]) -> World:
    rng = np.random.default_rng(0)
    tensors = {o.name: rng.normal(size=tuple(sizes[a.base] for a in o.axes)) for o in made.operands}
    return World(sizes, tensors)


@pytest.mark.parametrize(("made", "sizes", "expected"), NAMED)
def test_value(made: object, sizes: dict[str, int], expected: Callable[..., np.ndarray]) -> None:
    start = world(made.op, sizes)  # type: ignore[attr-defined]
    done = forward(made.op, start)  # type: ignore[attr-defined]
    (output,) = made.op.outputs  # type: ignore[attr-defined]
    np.testing.assert_allclose(done.tensors[output], expected(*start.tensors.values()), rtol=1e-12)


@pytest.mark.parametrize(("made", "sizes", "expected"), NAMED)
def test_gradient(made: object, sizes: dict[str, int], expected: object) -> None:
    check_gradients(made.op, world(made.op, sizes), np.random.default_rng(1))  # type: ignore[attr-defined]


LINES = [
    (renamed_axes, [
        "p_m[i] = amax(x[i, j], over=j)",
        "p_u[i, j] = exp(-p_m[i] + x[i, j])",
        "p_u_sum[i] = sum(p_u[i, j], over=j)",
        "p[i, j] = p_u[i, j]/p_u_sum[i]",
        "y[i, j] = p[i, j]**2",
    ]),
    (one_tensor_twice, ["g[i, k] = sum(x[i, j]*x[k, j], over=j)"]),
    (several_leading_axes, [
        "y_y_sum[n, t, j] = sum(w[i, j]*x[n, t, i], over=i)",
        "y[n, t, j] = b[j] + 3*y_y_sum[n, t, j]",
    ]),
    (caller_has_the_axis, [
        "p_m[c] = amax(x[c, d], over=d)",
        "p_u[c, d] = exp(-p_m[c] + x[c, d])",
        "p_u_sum[c] = sum(p_u[c, d], over=d)",
        "p[c, d] = p_u[c, d]/p_u_sum[c]",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "lines"), LINES, ids=lambda v: getattr(v, "__name__", ""))
def test_equations(made: object, lines: list[str]) -> None:
    assert [str(q) for q in made.op.equations] == lines  # type: ignore[attr-defined]


def test_several_outputs_are_named_one_by_one() -> None:
    @op
    def both(f, x: tensor[n]):
        f.a, f.b = two_outputs(x)
        f.y[n] = f.a[n] * f.b[n]
        return f.y

    assert [str(q) for q in both.op.equations] == ["a[n] = x[n] - 1", "b[n] = 2*a[n]", "y[n] = a[n]*b[n]"]


def test_a_second_output_alone() -> None:
    @op
    def second(f, x: tensor[n]):
        _, f.b = two_outputs(x)
        return f.b

    start = world(second.op, {"n": 3})
    np.testing.assert_allclose(forward(second.op, start).tensors["b"], 2 * (start.tensors["x"] - 1))


def test_what_a_call_names_is_no_equation_of_its_caller() -> None:
    @op
    def named_before(f, x: tensor[n, d], q_u: scalar, w: tensor[n]):
        f.q_m[n] = 2 * w[n]
        f.q = weights(x)
        f.y[n, d] = f.q[n, d] * f.q_m[n] * q_u
        return f.y

    assert [q.name for q in named_before.op.equations] == ["q_m", "q_m2", "q_u2", "q_u_sum", "q", "y"]


def test_results_are_named_in_any_order() -> None:
    @op
    def three(f, x: tensor[n], w: tensor[n], v: tensor[n]):
        _, a = two_outputs(x)
        _, b = two_outputs(w)
        f.p = a
        _, g = two_outputs(v)
        f.q = b
        f.r = g
        f.y[n] = f.p[n] + 10 * f.q[n] + 100 * f.r[n]
        return f.y

    start = world(three.op, {"n": 3})
    x, w, v = start.tensors.values()
    expected = 2 * (x - 1) + 20 * (w - 1) + 200 * (v - 1)
    np.testing.assert_allclose(forward(three.op, start).tensors["y"], expected)


# --- merged dimensions and places of their own ----------------------------------------------------------------


@op
def merged_rows(f, x: tensor[n, t, e], w: tensor[i, j], v: tensor[t]):
    """The callee sums over a merged dimension, and has the names of its parts to itself."""
    f.flat[n, (t, e)] = exp(x[n, t, e])
    f.h = affine(f.flat, w, v)
    f.g = products(f.flat, f.flat)
    f.y[n, m, j] = f.h[n, j] * f.g[n, m]
    return f.y


def test_a_sum_over_a_merged_dimension() -> None:
    def reference(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        flat = x.exp().reshape(2, 12)
        return (2 * flat @ w + v)[:, None] * (flat @ flat.T)[:, :, None]

    assert_derived(merged_rows.op, reference, {"x": (2, 4, 3), "w": (12, 4), "v": (4,)})


def test_every_leading_axis_may_be_merged() -> None:
    @op
    def merged_in_front(f, x: tensor[n, t, e]):
        f.flat[(n, t), e] = exp(x[n, t, e])
        f.p = weights(f.flat)
        f.q = mean_of_all(f.flat)
        f.y[n, t, e] = f.p[(n, t), e] * f.q[()] * x[n, t, e]
        return f.y

    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.exp(), -1) * (x.exp() ** 2).mean() * x

    assert_derived(merged_in_front.op, reference, {"x": (2, 4, 3)})


k_0 = axes("k_0")


@op
def padded(f, x: tensor[n, k_0], a: tensor[n]):
    f.z[n, k] = concat(a[n], x[n, k_0], 0, along=k)
    return f.z


@op
def padded_by_call(f, x: tensor[n, i], a: tensor[n], w: tensor[k_0]):
    f.p = padded(x, a)
    f.y[n, i] = sum(f.p[n, k_0] * w[k_0], over=k_0) * x[n, i]
    return f.y


def test_a_place_of_its_own_has_no_name_of_an_axis() -> None:
    """The axis of a joined piece that is one place is not the `k_0` that somebody wrote."""

    def reference(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.cat([a[:, None], x, torch.zeros_like(a)[:, None]], 1)

    def reference_of_call(x: torch.Tensor, a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (reference(x, a) @ w)[:, None] * x

    assert_derived(padded.op, reference, {"x": (2, 3), "a": (2,)})
    assert_derived(padded_by_call.op, reference_of_call, {"x": (2, 3), "a": (2,), "w": (5,)})


# --- what is assumed ----------------------------------------------------------------------------------------


@op
def roots(f, x: tensor[n].positive):
    f.y[n] = sqrt(x[n]) * abs(x[n])
    return f.y


@op
def of_exponentials(f, z: tensor[m], s: tensor[m].positive):
    """What is known to be positive may be passed: by its equation, or because the caller declares it."""
    f.e[m] = exp(z[m])
    f.a = roots(f.e)
    f.b = roots(s)
    f.y[m] = abs(f.a[m]) * f.b[m]
    return f.y


@op
def doubled(f, x: tensor[n].positive):
    f.y[n] = 2 * x[n]
    return f.y


@op
def of_any_sign(f, z: tensor[m]):
    """What a callee assumes is not known of what the caller makes of it, though it may hold where it is called."""
    f.e[m] = z[m] - 1
    f.a = doubled(f.e)
    f.y[m] = abs(f.a[m])
    return f.y


def test_a_sign_that_is_assumed_is_not() -> None:
    start = world(of_any_sign.op, {"m": 40})
    (z,) = start.tensors.values()
    np.testing.assert_allclose(forward(of_any_sign.op, start).tensors["y"], 2 * np.abs(z - 1))


def test_a_sign_that_is_known_is_passed_on() -> None:
    start = world(of_exponentials.op, {"m": 4})
    start.tensors["s"] = np.abs(start.tensors["s"])
    z, s = start.tensors.values()
    np.testing.assert_allclose(forward(of_exponentials.op, start).tensors["y"], np.exp(1.5 * z) * s**1.5)
    check_gradients(of_exponentials.op, start, np.random.default_rng(1))


@op
def picked(f, z: tensor[n, c], y: index(c)[n]):
    f.p[n] = z[n, y[n]]
    return f.p


@op
def one_hot(f, y: index(c)[n], w: tensor[n], classes: length(c)):
    f.p[n, c] = where(eq(y[n], c), w[n], 0)
    return f.p


def test_an_index_over_the_axis_that_the_call_has() -> None:
    """By its name, though a square has it twice; by the length that is passed; by the axis that is as long."""

    @op
    def squares(f, x: tensor[m, m], y: index(m)[m], w: tensor[m]):
        f.a = picked(x, y)
        f.b = one_hot(y, w, size(m))
        f.z[m, n] = f.a[m] * f.b[m, n]
        return f.z

    assert squares.op.outputs == ("z",)


two = axes("two=2")


@op
def pooled(f, x: tensor[n, d]):
    f.y[n, t] = amax(x[n, 2 * t + two], over=two)
    return f.y


@op
def filtered(f, x: tensor[n, d], w: tensor[k]):
    f.y[n, t] = sum(where((t + k >= 1) & (t + k <= size(d)), x[n, t + k - 1] * w[k], 0), over=k)
    return f.y


def test_each_call_has_places_of_its_own() -> None:
    """Of a name that the caller has, or the call before: a pool of a pool is not as long as it."""

    @op
    def pool_of_a_pool(f, x: tensor[n, d], w: tensor[n, t]):
        f.a = pooled(x)
        f.b = pooled(f.a)
        f.c = pooled(f.b)
        f.y[n] = sum(f.c[n, j], over=j) + sum(w[n, t], over=t)
        return f.y

    shapes = {"x": (3, 25), "w": (3, 4)}
    assert_derived(pool_of_a_pool.op, lambda x, w: F.max_pool1d(x, 8).sum(1) + w.sum(1), shapes)


def test_an_argument_is_the_length_of_the_callers_axis_alone() -> None:
    @op
    def spread_after_a_pool(f, x: tensor[n, d], out: length(t)):
        f.a = pooled(x)
        f.y[n, t] = sum(where(eq(2 * i, t), f.a[n, i], 0), over=i)
        return f.y

    assert str(spread_after_a_pool.op.equations[0]) == "a[n, t2] = amax(x[n, 2*t2 + two], over=two)"


def test_a_padded_window_tells_its_length_to_the_caller() -> None:
    @op
    def filtered_twice(f, x: tensor[n, d], w: tensor[k]):
        f.a = filtered(x, w)
        f.b = filtered(f.a, w)
        f.y[n, j] = f.b[n, j] ** 2
        return f.y

    def plain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        once = F.conv1d(x[:, None], w[None, None], padding=1)
        return F.conv1d(once, w[None, None], padding=1)[:, 0] ** 2

    assert_derived(filtered_twice.op, plain, {"x": (3, 7), "w": (4,)})


# --- mistakes -----------------------------------------------------------------------------------------------


def too_many():
    @op
    def bad(f, x: tensor[n, d]):
        f.p = weights(x, 3)
        return f.p


def too_few():
    @op
    def bad(f, x: tensor[n, d]):
        f.p = products(x)
        return f.p


def unknown_word():
    @op
    def bad(f, x: tensor[n, d]):
        f.p = products(x, z=x)
        return f.p


def wrong_rank():
    @op
    def bad(f, x: tensor[n]):
        f.p = products(x, x)
        return f.p


def an_element():
    @op
    def bad(f, x: tensor[n, d]):
        f.p = weights(x[n, d])
        return f.p


def not_defined():
    @op
    def bad(f, x: tensor[n, d]):
        f.p = weights(f.z)
        return f.p


def name_taken():
    @op
    def bad(f, x: tensor[n, d]):
        f.x = weights(x)
        return f.x


def sign_not_known():
    @op
    def bad(f, x: tensor[m]):
        f.a = roots(x)
        return f.a


def another_axis():
    @op
    def bad(f, x: tensor[n, k], w: tensor[j], y: index(j)[n]):
        f.a = picked(x, y)
        f.b[n] = f.a[n] * w[y[n]]
        return f.b


def another_length():
    @op
    def bad(f, w: tensor[n], y: index(j)[n]):
        f.a = one_hot(y, w, 3)
        return f.a


def no_index():
    @op
    def bad(f, x: tensor[n, k], y: tensor[n]):
        f.a = picked(x, y)
        return f.a


def a_number_for_each_place():
    @op
    def bad(f, x: tensor[n, d], w: tensor[d, e], b: tensor[e], g: tensor[k]):
        f.a = affine(x, w, b, g[k])
        return f.a


def no_number():
    @op
    def bad(f, x: tensor[n, d], w: tensor[d, e], b: tensor[e]):
        f.a = affine(x, w, b, "twice")
        return f.a


def named_twice():
    @op
    def bad(f, x: tensor[n, d]):
        a = weights(x)
        f.p = a
        f.q = a
        return f.p, f.q


@op
def sum_of_all(f, x: tensor[..., n, d]):
    f.y[(n, d),] = sum(x[..., n, d] + mean(x[..., n, d] ** 2, over=...), over=...)
    return f.y


@op
def none_left(f, x: tensor[n, d]):
    f.y = sum_of_all(x)
    return f.y


def test_a_reduction_over_a_pack_that_stands_for_nothing() -> None:
    """A reduction over no axes is what it reduces: torch's `sum(())` would be over all."""
    assert "over=()" not in (text := str(none_left.op)), text
    assert "sum(" not in text and "mean(" not in text


MESSAGES = [
    (too_many, "op bad: weights takes (z); match its signature"),
    (too_few, "op bad: products needs b; its signature is (a, b)"),
    (unknown_word, "op bad: products takes (a, b); match its signature"),
    (wrong_rank, "op bad: products: a has 2 axes, but 1 are given; pass a tensor of its rank"),
    (an_element, "op bad: weights: argument z is one element, x[n, d]; pass the whole tensor and name "
     "the result: f.a = weights(x)"),
    (not_defined, "op bad: weights: argument z is no tensor of this spec; pass f.name or an input"),
    (name_taken, "op bad: x is an input; give the equation another name"),
    (sign_not_known, "op bad: roots: x is to be positive, which x may not be; declare x: tensor[m].positive"),
    (another_axis, "op bad: picked: y is an index over axis k, but y runs over axis j; pass an index over that axis, "
     "or give both axes one name where y is declared"),
    (another_length, "op bad: one_hot: y is an index over axis c, but y runs over axis j; pass an index over that "
     "axis, or give both axes one name where y is declared"),
    (no_index, "op bad: picked: y is an index over axis k, but y holds no integers; declare y: index(…)[…]"),
    (a_number_for_each_place, "op bad: affine: scale is one number, but g[k] is given; pass a number, a scalar or "
     "size(axis)"),
    (no_number, "op bad: affine: scale is one number, but twice is given; pass a number, a scalar or size(axis)"),
    (named_twice, "op bad: weights_call0__p is defined by no equation, or has another name by now; name a result "
     "once"),
]


@pytest.mark.parametrize(("bad", "message"), MESSAGES, ids=lambda v: getattr(v, "__name__", ""))
def test_message(bad: Callable[[], None], message: str) -> None:
    with pytest.raises(DeriveError) as caught:
        bad()
    assert str(caught.value) == message
