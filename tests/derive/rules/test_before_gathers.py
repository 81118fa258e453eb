"""A product with a gathered row is taken of every row, before, where at least as many are read as there are."""

import pytest
import torch
from torch import Tensor

from derive.notation import amax, axes, index, log, op, sum, tanh, tensor
from derive.pipeline import derivation_of
from derive.rules.index.before_gathers import made_before_gathers
from derive.verify.verify import verify
from tests.derive.live import assert_alike, module

b, n, k, d, e, m = axes("b n k d e m")


@op
def pooled(f, x: tensor[n, d], w: tensor[d, e], nb: index(n)[n, k]):
    """A layer of each neighbour, and the largest of them (GraphSAGE, Hamilton et al., 2017)."""
    f.y[n, e] = amax(sum(x[nb[n, k], d] * w[d, e], over=d), over=k)
    return f.y


@op
def scored(f, x: tensor[n, d], q: tensor[d], nb: index(n)[n, k], a: tensor[k]):
    f.s[n, k] = a[k] * sum(x[nb[n, k], d] * q[d], over=d)
    f.y[n] = sum(tanh(f.s[n, k]), over=k)
    return f.y


@op
def in_batches(f, x: tensor[b, n, d], w: tensor[d, e], nb: index(n)[b, n, k]):
    """The rows of an example are gathered by its own index: its product is not apart from the place."""
    f.y[b, n, k, e] = sum(x[b, nb[b, n, k], d] * w[d, e], over=d)
    return f.y


@op
def with_its_own(f, x: tensor[n, d], q: tensor[n, d], nb: index(n)[n, k]):
    f.s[n, k] = sum(x[nb[n, k], d] * q[n, d], over=d)
    return f.s


@op
def of_words(f, x: tensor[m, d], w: tensor[d, e], ix: index(m)[n]):
    """There may be more words than are read."""
    f.y[n, e] = sum(x[ix[n], d] * w[d, e], over=d)
    return f.y


@op
def summed_before(f, x: tensor[n, d], w: tensor[d, e], nb: index(n)[n, k]):
    """Neighbours are added up before they meet the matrix."""
    f.y[n, e] = sum(x[nb[n, k], d] * w[d, e], over=(d, k))
    return f.y


@op
def swapped(f, x: tensor[n], p: index(n)[n]):
    f.y[n] = sum(x[p[n]] * x[k], over=k)
    return f.y


@op
def permuted(f, x: tensor[n, d], w: tensor[d, e], p: index(n)[n]):
    """As many are read as there are."""
    f.y[n, e] = sum(x[p[n], d] * w[d, e], over=d)
    return f.y


@op
def doubled(f, x: tensor[n, d], w: tensor[d, e], nb: index(n)[n, k]):
    f.y[n, k, e] = 2 * sum(x[nb[n, k], d] * w[d, e], over=d)
    return f.y


@op
def of_logarithms(f, x: tensor[n, d], w: tensor[d, e], nb: index(n)[n, k]):
    """A row that nobody reads may be infinite."""
    f.h[n, d] = log(x[n, d])
    f.y[n, k, e] = sum(f.h[nb[n, k], d] * w[d, e], over=d)
    return f.y


@op
def beside_its_product(f, x: tensor[n, d], w: tensor[d, e], nb: index(n)[n, k]):
    f.h[n, e] = sum(x[n, d] * w[d, e], over=d)
    f.y[n, e] = f.h[n, e] * amax(sum(x[nb[n, k], d] * w[d, e], over=d), over=k)
    return f.y


def _pooled(x: Tensor, w: Tensor, nb: Tensor) -> Tensor:
    return (x[nb] @ w).amax(1)


def _scored(x: Tensor, q: Tensor, nb: Tensor, a: Tensor) -> Tensor:
    return (a * (x[nb] @ q)).tanh().sum(1)


@pytest.mark.parametrize(
    ("made", "plain", "shapes", "name"),
    [(pooled, _pooled, [(6, 4), (4, 3)], "x_w"), (scored, _scored, [(6, 4), (4,)], "x_q")],
    ids=["pooled", "scored"],
)
def test_the_rows_meet_the_matrix_before(made, plain, shapes, name: str) -> None:
    first, *_ = made_before_gathers(made.op).equations
    assert first.name == name and first.axes[0] == n
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    nb = torch.randint(0, 6, (6, 5), generator=generator)
    rest = [torch.randn(5, generator=generator, dtype=torch.float64)] if made is scored else []
    ours = getattr(module(made.op), made.op.name)(*leaves, nb, *rest)
    assert_alike(ours, plain(*leaves, nb, *rest), leaves)
    assert verify(made.op).right


@pytest.mark.parametrize(
    "made",
    [in_batches, with_its_own, of_words, summed_before, swapped, permuted, of_logarithms],
    ids=lambda m: m.op.name,
)
def test_any_other_is_summed_where_it_is_read(made) -> None:
    assert made_before_gathers(made.op) == made.op


def test_a_number_before_the_sum_counts_once() -> None:
    x, w = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((6, 4), (4, 3)))
    nb = torch.randint(0, 6, (6, 5))
    assert_alike(module(doubled.op).doubled(x, w, nb), 2 * x[nb] @ w, [x, w])


def test_rows_that_nobody_reads_say_nothing() -> None:
    x, w = torch.tensor([[1.0, 2], [3, 4], [0, 0]], dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64)
    w.requires_grad_()
    y = module(of_logarithms.op).of_logarithms(x, w, torch.tensor([[0, 1], [1, 0], [1, 1]]))
    (dw,) = torch.autograd.grad(y.sum(), w)
    assert torch.isfinite(dw).all()


def test_a_product_that_the_spec_has_is_that() -> None:
    named = derivation_of(beside_its_product.op).named
    assert [e.name for e in named.equations if e.kind == "sum"] == ["h"], str(named)
