"""What is sought, counted or chosen in windows is so tap by tap, without a table of all windows."""

import inspect

import pytest
import torch
from torch import Tensor

from derive import amax, amin, axes, length, op, tensor
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.live import assert_derived, chooses, module

h, j, k, n, o, t, u, v, w = axes("h j k n o t u v w")
p, q = axes("p=3 q=2")
many = axes("many=40")


@op
def erosion(f, x: tensor[n, h, w], b: tensor[p, q]):
    f.y[n, u, v] = amin(x[n, u + p, v + q] - b[p, q], over=(p, q))
    return f.y


@op
def erosion_of_a_loops_name(f, x: tensor[n, h, w], at_p: tensor[p, q]):
    f.y[n, u, v] = amin(x[n, u + p, v + q] - at_p[p, q], over=(p, q))
    return f.y


@op
def dilation(f, x: tensor[n, t], b: tensor[k]):
    """Steps, taps apart, and as many of them as an input has."""
    f.y[n, u] = amax(b[k] + x[n, 2 * u + 3 * k + 1], over=k)
    return f.y


@op
def twice(f, x: tensor[n, t], b: tensor[p]):
    f.z[n, u] = amax(x[n, u + p] + b[p], over=p)
    f.y[n, v] = amin(f.z[n, v + q], over=q)
    return f.y


@op
def of_scaled(f, x: tensor[n, t], b: tensor[p]):
    """What is no input's element may be computed again beside what it is added to, and rounded otherwise."""
    f.c[p] = 0.3 * b[p]
    f.y[n, u] = amax(x[n, u + p] + f.c[p], over=p)
    return f.y


@op
def of_pairs(f, x: tensor[n, k], b: tensor[k, o]):
    """No windows, but a table larger than both inputs: it is made again."""
    f.y[n, o] = amax(x[n, k] + b[k, o], over=k)
    return f.y


@op
def of_rows(f, x: tensor[n, t, w]):
    f.y[n, u, w] = amin(x[n, u + p, w], over=p)
    return f.y


@op
def of_many(f, x: tensor[n, t]):
    f.y[n, u] = amin(x[n, u + many], over=many)
    return f.y


def _windows(x: Tensor) -> Tensor:
    return x.unfold(1, 3, 1).unfold(2, 2, 1)


def _dilation(x: Tensor, b: Tensor) -> Tensor:
    return (x[:, 1:].unfold(1, 3 * len(b) - 2, 2)[..., ::3] + b).amax(-1)


def _twice(x: Tensor, b: Tensor) -> Tensor:
    return (x.unfold(1, 3, 1) + b).amax(-1).unfold(1, 2, 1).amin(-1)


CASES = [
    (erosion, lambda x, b: (_windows(x) - b).amin((-1, -2)), {"x": (2, 7, 5), "b": (3, 2)}),
    (erosion, lambda x, b: (_windows(x) - b).amin((-1, -2)), {"x": (3, 3, 2), "b": (3, 2)}),
    (erosion_of_a_loops_name, lambda x, at_p: (_windows(x) - at_p).amin((-1, -2)), {"x": (2, 7, 5), "at_p": (3, 2)}),
    (dilation, _dilation, {"x": (2, 13), "b": (3,)}),
    (dilation, _dilation, {"x": (2, 13), "b": (1,)}),
    (twice, _twice, {"x": (2, 9), "b": (3,)}),
    (of_scaled, lambda x, b: (x.unfold(1, 3, 1) + 0.3 * b).amax(-1), {"x": (2, 9), "b": (3,)}),
    (of_pairs, lambda x, b: (x[:, :, None] + b).amax(1), {"x": (2, 4), "b": (4, 3)}),
    (of_rows, lambda x: x.unfold(1, 3, 1).amin(-1), {"x": (2, 9, 4)}),
    (of_many, lambda x: x.unfold(1, 40, 1).amin(-1), {"x": (2, 43)}),
]
MADE = [erosion, dilation, twice, of_scaled]


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES)
def test_values_and_gradients(made: OpCall, plain, shapes) -> None:
    assert_derived(made.op, plain, shapes)


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.op.name)
def test_battery(made: OpCall) -> None:
    found = verify(made.op)
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


@pytest.mark.parametrize("made", [erosion, dilation, twice], ids=lambda made: made.op.name)
def test_no_table_of_all_windows(made: OpCall) -> None:
    code = inspect.getsource(module(made.op))
    assert "unfold" not in code
    assert not chooses(code)  # what a count divides is finite, and what a scatter adds up of it
    assert "_of: Tensor" not in code


def test_a_tie_is_shared_by_all_that_are_as_small() -> None:
    x, b = torch.zeros(1, 4, 3, requires_grad=True), torch.zeros(3, 2, requires_grad=True)
    dx, db = torch.autograd.grad(module(erosion.op).erosion(x, b).sum(), [x, b])
    assert db.tolist() == [[pytest.approx(-4 / 6)] * 2] * 3
    assert dx[0, 0].tolist() == [pytest.approx(1 / 6), pytest.approx(2 / 6), pytest.approx(1 / 6)]


@pytest.mark.parametrize(("made", "kept"), [(of_scaled, True), (of_pairs, False)], ids=["of_scaled", "of_pairs"])
def test_what_might_be_rounded_otherwise_is_kept(made: OpCall, kept: bool) -> None:
    assert ("y_of: Tensor" in inspect.getsource(module(made.op))) is kept


def test_what_torch_compares_fast_it_compares() -> None:
    assert "unfold" in inspect.getsource(module(of_rows.op))


@op
def closed(f, x: tensor[n, t, w], height: length(j), width: length(k)):
    """Of windows two places apart, with gaps in one dimension."""
    f.y[n, u, v] = amin(x[n, 2 * u + j, 2 * v + 3 * k], over=(j, k))
    return f.y


def test_extrema_of_windows_are_made_of_slices() -> None:
    """Of windows at every place from two that overlap: 6 passes for 40 places."""
    assert "y = over_windows(torch.minimum, x, {1: 40})" in inspect.getsource(module(of_many.op))
    assert "(torch.minimum, x, {1: height, 2: width}, steps={1: 2, 2: 2}, apart={1: 1, 2: 3})" in inspect.getsource(
        module(closed.op)
    )
    for height, width in [(1, 1), (2, 1), (1, 2), (3, 2), (5, 3)]:
        x = torch.randn(2, 11, 13, dtype=torch.float64)
        y = module(closed.op).closed(x, height, width)
        right = -torch.nn.functional.max_pool2d(-x[:, None], (height, width), stride=2, dilation=(1, 3)).squeeze(1)
        assert y.equal(right)
        before = x.clone()
        y.add_(1)  # never a view of what is given
        assert x.equal(before)
