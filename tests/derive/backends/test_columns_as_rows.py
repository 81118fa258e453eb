"""Columns of a matrix that are read and added to row by row are gathered and scattered as rows of what is turned."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, exp, index, op, sum, tensor
from derive.ir.equations import Op
from tests.derive.against_loops import code_of, named
from tests.derive.live import assert_alike, module

b, c, d, j, o, t = axes("b c d j o t")


@op
def emitted(f, a: tensor[b, j], B: tensor[j, o], seen: index(o)[b]):
    """What each state emits, weighed, as in a step of a hidden Markov model."""
    f.y[b, j] = a[b, j] * exp(B[j, seen[b]])
    return f.y


@op
def emitted_over_time(f, a: tensor[b, t, c, j], B: tensor[c, j, o], seen: index(o)[b, t]):
    f.y[b, t, c, j] = a[b, t, c, j] * B[c, j, seen[b, t]]
    return f.y


@op
def in_the_middle(f, a: tensor[b, c, d], B: tensor[c, o, d], seen: index(o)[b]):
    f.y[b, c, d] = a[b, c, d] * B[c, seen[b], d]
    return f.y


@op
def read_at_two(f, a: tensor[b, j], B: tensor[j, o], seen: index(o)[b], last: index(o)[b]):
    f.y[b, j] = a[b, j] * (B[j, seen[b]] - B[j, last[b]])
    return f.y


@op
def as_columns(f, a: tensor[j, b], B: tensor[j, o], seen: index(o)[b]):
    f.y[j, b] = a[j, b] * B[j, seen[b]]
    return f.y


@op
def one_column(f, a: tensor[c, j], B: tensor[c, j, o], seen: index(o)[()]):
    """One place for all rows: a view, as it stands."""
    f.y[c, j] = a[c, j] * B[c, j, seen[()]]
    return f.y


@op
def scored_columns(f, x: tensor[d, b], w: tensor[d, o], seen: index(o)[b]):
    f.y[b] = sum(x[d, b] * w[d, seen[b]], over=d)
    return f.y


@op
def scored(f, x: tensor[b, d], w: tensor[d, o], seen: index(o)[b]):
    """The score of one class for each row."""
    f.y[b] = sum(x[b, d] * w[d, seen[b]], over=d)
    return f.y


@op
def near_and_large(f, a: tensor[b, j], B: tensor[j, o], seen: index(o)[b]):
    """What is added to a tensor that is there already: the gradient of all columns."""
    f.y[b, j] = (a[b, j] - B[j, seen[b]]) ** 2
    f.z[j, o] = exp(B[j, o])
    return f.y, f.z


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


SEEN, LAST = torch.tensor([0, 2, 2, 1]), torch.tensor([2, 2, 0, 0])
CASES = [
    (emitted, lambda a, B, seen: a * B[:, seen].T.exp(), (drawn(4, 5), drawn(5, 3), SEEN)),
    (emitted, lambda a, B, seen: a * B[:, seen].T.exp(), (drawn(4, 4), drawn(4, 4), SEEN)),
    (emitted, lambda a, B, seen: a * B[:, seen].T.exp(), (drawn(0, 5), drawn(5, 3), SEEN[:0])),
    (emitted, lambda a, B, seen: a * B[:, seen].T.exp(), (drawn(4, 0), drawn(0, 3), SEEN)),
    (
        emitted_over_time,
        lambda a, B, seen: a * B[:, :, seen].permute(2, 3, 0, 1),
        (drawn(2, 2, 3, 5), drawn(3, 5, 3), SEEN.view(2, 2)),
    ),
    (in_the_middle, lambda a, B, seen: a * B[:, seen].transpose(0, 1), (drawn(4, 2, 5), drawn(2, 3, 5), SEEN)),
    (
        read_at_two,
        lambda a, B, seen, last: a * (B[:, seen] - B[:, last]).T,
        (drawn(4, 5), drawn(5, 3), SEEN, LAST),
    ),
    (as_columns, lambda a, B, seen: a * B[:, seen], (drawn(5, 4), drawn(5, 3), SEEN)),
    (one_column, lambda a, B, seen: a * B[:, :, seen], (drawn(4, 5), drawn(4, 5, 3), SEEN[1])),
    (scored_columns, lambda x, w, seen: (x * w[:, seen]).sum(0), (drawn(5, 4), drawn(5, 3), SEEN)),
    (scored, lambda x, w, seen: (x * w[:, seen].T).sum(1), (drawn(4, 5), drawn(5, 3), SEEN)),
]


@pytest.mark.parametrize(("made", "reference", "given"), CASES, ids=named(CASES))
def test_values_and_gradients(made: Op, reference: Callable[..., Tensor], given: tuple[Tensor, ...]) -> None:
    given = tuple(t.clone().requires_grad_(t.is_floating_point()) for t in given)
    leaves = [t for t in given if t.requires_grad]
    function = getattr(module(made.op), made.op.name)  # type: ignore[attr-defined]
    assert_alike(function(*given), reference(*given), leaves)


def test_what_is_added_to_a_tensor_that_is_there() -> None:
    a, B = (drawn(*shape).requires_grad_() for shape in ((4, 5), (5, 3)))
    y, z = module(near_and_large.op).near_and_large(a, B, SEEN)  # type: ignore[attr-defined]
    expected = ((a - B[:, SEEN].T).square(), B.exp())
    found, right = (torch.autograd.grad((u.sin().sum(), v.sin().sum()), (a, B)) for u, v in ((y, z), expected))
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        (emitted, ["B.T[seen]", "new_zeros(o, j).index_add_(0, seen, "]),
        (emitted_over_time, ["B.permute(2, 0, 1)[seen]", "new_zeros(o, c, j).index_add_(0, seen.reshape(-1), "]),
        (in_the_middle, ["B.index_select(1, seen).transpose(0, 1)", "new_zeros(o, c, d).index_add_(0, seen, "]),
        (scored, ["w.T[seen]"]),
        (one_column, ["B[:, :, seen]"]),
        (as_columns, ["B.index_select(1, seen)", "new_zeros(j, o).index_add_(1, seen, "]),
        (read_at_two, ["B.T[seen]", "B.T[last]", "new_zeros(j, o).index_add_(1, last, ", "dB.index_add_(1, seen, "]),
    ],
)
def test_the_rows_of_what_is_turned(made: Op, lines: list[str]) -> None:
    code = code_of(made.op)  # type: ignore[attr-defined]
    for line in lines:
        assert line in code


def test_a_sum_of_columns_lies_as_what_it_is_multiplied_with() -> None:
    """Rows are summed along, where the other factor has rows; of what lies in columns, columns."""
    forward = code_of(scored.op).partition("backward(")[0]
    assert "(w.T[seen] * x).sum(1" in forward
    assert "(w.index_select(1, seen) * x).sum(0)" in code_of(scored_columns.op)


def test_a_place_that_is_none_is_named() -> None:
    given = (drawn(4, 5), drawn(5, 3), torch.tensor([0, -1, 1, 2]))
    with pytest.raises(IndexError, match="seen holds -1, but axis o has length 3"):
        module(emitted.op).emitted(*given)  # type: ignore[attr-defined]
