"""A dimension that each row reads from another place on is a view along diagonals."""

import pytest
import torch
from torch import Tensor

from derive import axes, length, op, size, sum, tensor
from derive.verify.verify import verify
from generated._functions import add_skewed_, skewed
from tests.derive.against_loops import code_of, compare

d, h, k, n, r, s, t = axes("d h k n r s t")


@op
def relative(f, x: tensor[n, t, s], b: tensor[n, t, r]):
    """The relative shift (Dai et al., 2019)."""
    f.y[n, t, s] = x[n, t, s] * b[n, t, s - t + size(t) - 1]
    return f.y


@op
def banded(f, x: tensor[t, r], rows: length(t) = 4, width: length(k) = 3):
    """The places behind the diagonal."""
    f.y[k, t] = x[t, t + k] ** 2
    return f.y


@op
def columns(f, x: tensor[r, t], w: tensor[k]):
    """The row stands behind what is read; the sum is along diagonals."""
    f.y[t] = sum(w[k] * x[k - t + size(t) - 1, t], over=k)
    return f.y


@op
def strided(f, x: tensor[..., t, r], width: length(k) = 3):
    f.y[..., t, k] = 3 * x[..., t, 2 * t + k]
    return f.y


@op
def read_twice(f, x: tensor[t, r], width: length(k) = 3):
    """Windows of one tensor's both dimensions by one axis."""
    f.y[t, k] = x[t, t + k] - x[t, 0]
    return f.y


@op
def rows_behind(f, b: tensor[r, n, t]):
    """A row of length 1 has any stride."""
    f.y[n, t, s] = 2 * b[s - t + size(t) - 1, n, t]
    return f.y


@op
def no_more(f, b: tensor[t, r]):
    """An output that only looks at an input."""
    f.y[t, s] = b[t, s - t + size(t) - 1]
    return f.y


CASES = [
    (rows_behind, {"r": 4, "n": 2, "t": 1, "s": 4}),
    (rows_behind, {"r": 4, "n": 2, "t": 2, "s": 3}),
    (no_more, {"t": 2, "r": 4, "s": 3}),
    (relative, {"n": 2, "t": 3, "s": 4, "r": 7}),
    (relative, {"n": 1, "t": 1, "s": 1, "r": 1}),
    (relative, {"n": 0, "t": 2, "s": 2, "r": 3}),
    (banded, {"t": 4, "k": 3, "r": 6}),
    (columns, {"t": 3, "k": 2, "r": 5}),
    (read_twice, {"t": 4, "k": 3, "r": 6}),
]


@pytest.mark.parametrize("strides", ["plain", "transposed"])
@pytest.mark.parametrize(("made", "sizes"), CASES, ids=lambda v: getattr(getattr(v, "op", None), "name", ""))
def test_against_loops(made, sizes, strides) -> None:
    compare(made.op, sizes, strides=strides)


@pytest.mark.parametrize("pack", [(), (3,), (2, 3)])
def test_leading_axes(pack) -> None:
    compare(strided.op, {"t": 3, "k": 3, "r": 8}, pack)


@pytest.mark.parametrize("made", [relative, banded, columns, rows_behind, no_more])
def test_battery(made) -> None:
    found = verify(made.op)
    assert found.right, [(x.line, [str(w) for w in x.wrong]) for x in found.rows if x.wrong]


def test_it_is_no_index() -> None:
    for made in (relative, banded, strided, read_twice):
        code = code_of(made.op)
        assert "skewed(" in code and "add_skewed_(" in code, code
        assert "index_put_" not in code and "arange" not in code, code


def _placed(x: Tensor, row: int, dim: int, start: int, count: int, by: int) -> Tensor:
    rows = [x.select(row, i).narrow(dim - (row < dim), start + by * i, count) for i in range(x.shape[row])]
    return torch.stack(rows, row)


LAID_OUT = {
    "plain": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT,
    "every other": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "repeated": lambda x: x[:, :1].expand_as(x),
    "behind others": lambda x: torch.cat([x, x])[len(x) :],
}


@pytest.mark.parametrize("layout", LAID_OUT)
@pytest.mark.parametrize(
    ("row", "dim", "start", "by"), [(1, 2, 4, -1), (1, 2, 0, 1), (2, 1, 4, -1), (0, 2, 1, 2), (2, 0, 0, 1)]
)
def test_functions(layout: str, row: int, dim: int, start: int, by: int) -> None:
    shape = [5, 5, 5]
    shape[dim] = 12
    x = LAID_OUT[layout](torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    expected = _placed(x, row, dim, start, 3, by)
    assert torch.equal(skewed(x, row, dim, start, 3, by), expected)
    values = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    z = torch.zeros(shape, dtype=torch.float64).requires_grad_()
    _placed(z, row, dim, start, 3, by).backward(values)
    for lie in ("plain", "transposed"):
        zeros = LAID_OUT[lie](torch.zeros(shape, dtype=torch.float64))
        assert torch.equal(add_skewed_(zeros, row, dim, start, values, by), z.grad)


def test_compiled_they_gather_and_scatter() -> None:
    x, values = torch.randn(2, 3, 8), torch.randn(2, 3, 4)
    read = torch.compile(lambda b: skewed(b, 1, 2, 2, 4), fullgraph=True, backend="aot_eager")
    assert torch.equal(read(x), skewed(x, 1, 2, 2, 4))
    add = torch.compile(lambda v: add_skewed_(v.new_zeros(2, 3, 8), 1, 2, 2, v), fullgraph=True, backend="aot_eager")
    assert torch.equal(add(values), add_skewed_(torch.zeros(2, 3, 8), 1, 2, 2, values))
