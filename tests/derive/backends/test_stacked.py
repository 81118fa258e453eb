"""Parts that are one place each of the last dimension are copied there one after another."""

import pytest
import torch

from derive import amax, axes, concat, exp, mean, op, sum, tensor
from derive.emit import render
from derive.errors import DeriveError
from derive.pipeline import derivation_of
from derive.verify.verify import verify
from generated._functions import stacked_last
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

c, d, j, k, n = axes("c d j k n")
two = axes("two=2")


@op
def side_by_side(f, a: tensor[n, d], b: tensor[n, d]):
    f.y[n, d, two] = concat(a[n, d] * b[n, d], exp(b[n, d]), along=two)
    return f.y


@op
def above(f, a: tensor[n, d], b: tensor[n, d]):
    f.y[n, two, d] = concat(a[n, d] * b[n, d], exp(b[n, d]), along=two)
    return f.y


@op
def pooled(f, x: tensor[n, c, d]):
    """Pieces that sum, or seek a maximum, are one place (channel attention: Woo et al., 2018)."""
    f.y[n, two, d] = concat(mean(x[n, c, d], over=c), amax(x[n, c, d], over=c), along=two)
    return f.y


@op
def sums_beside(f, x: tensor[n, c, d], z: tensor[n, j]):
    f.y[n, k] = concat(2 * sum(x[n, c, d] ** 2, over=c), exp(z[n, j]), sum(z[n, j], over=j) + 1, along=k)
    return f.y


def test_pieces_inside_of_a_sum_are_refused() -> None:
    """Inside another piece as well: they have an equation of their own."""
    with pytest.raises(DeriveError, match="joins pieces inside of a reduction"):

        @op
        def joined(f, x: tensor[n, d], z: tensor[n, d]):
            f.y[n, k] = concat(z[n, d], sum(concat(x[n, d], 0, along=j), over=j), along=k)
            return f.y

        _ = joined.op


def test_pieces_may_be_sums() -> None:
    assert_derived(pooled.op, lambda x: torch.stack([x.mean(1), x.amax(1)], 1), {"x": (3, 4, 5)})

    def beside(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([2 * x.square().sum(1), z.exp(), z.sum(1, keepdim=True) + 1], 1)

    assert_derived(sums_beside.op, beside, {"x": (3, 4, 5), "z": (3, 2)})
    for made in (pooled, sums_beside):
        assert verify(made.op).right


@pytest.mark.parametrize("rows", [3, 900])
def test_gradients(rows: int) -> None:
    """Of few elements, and of many."""
    shapes = {"a": (rows, 4), "b": (rows, 4)}
    assert_derived(side_by_side.op, lambda a, b: torch.stack([a * b, b.exp()], -1), shapes)
    assert_derived(above.op, lambda a, b: torch.stack([a * b, b.exp()], 1), shapes)
    assert "stacked_last([a * b, torch.exp(b)])" in code_of(side_by_side.op)
    assert "torch.stack([a * b, torch.exp(b)], 1)" in code_of(above.op)


@op
def three_numbers(f, a: tensor[()], b: tensor[()]):
    f.y[two] = concat(a[()] * b[()], exp(b[()]), along=two)
    return f.y


def test_numbers_are_stacked_by_torch_and_parts_written_where_they_are_wanted() -> None:
    assert "torch.stack([a * b, torch.exp(b)], 0)" in code_of(three_numbers.op)
    code = render(derivation_of(side_by_side.op), workspace=True)
    assert "y = stacked_last([a * b, torch.exp(b)], out=out[0])" in code, code


def test_in_every_situation() -> None:
    assert verify(side_by_side.op).right


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (50, 70), (5, 1000)])
def test_as_torch_stacks(shape: tuple[int, ...]) -> None:
    for parts in (
        [torch.randn(shape), torch.randn(()).expand(shape), torch.randn(shape)],
        [torch.randn(shape[::-1]).permute(tuple(range(len(shape)))[::-1]), torch.randn(shape, dtype=torch.float64)],
    ):
        wanted = torch.stack(parts, -1)
        assert torch.equal(stacked_last(parts), wanted) and stacked_last(parts).dtype == wanted.dtype
        out = torch.empty_like(wanted)
        assert stacked_last(parts, out=out) is out and torch.equal(out, wanted)


def test_parts_of_other_shapes_are_refused_as_by_torch() -> None:
    with pytest.raises(RuntimeError, match="equal size"):
        stacked_last([torch.randn(50, 60), torch.randn(60)])
