"""Rows by matrices that an index chooses are multiplied matrix by matrix where there are few of them."""

import pytest
import torch
from torch import Tensor

from derive import axes, exp, index, op, sum, tanh, tensor, where
from derive.ir.equations import Op
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

d, e, k, n, o, r = axes("d e k n o r")


@op
def by_kind(f, x: tensor[n, d], w: tensor[r, d, o], at: index(n)[e], kind: index(r)[e]):
    """The rows are gathered as well."""
    f.y[e, o] = sum(x[at[e], d] * w[kind[e], d, o], over=d)
    return f.y


@op
def mixture(f, x: tensor[n, d], g: tensor[n, k], w: tensor[r, d, o], pick: index(r)[n, k]):
    """Several choices a row, which are added up."""
    f.y[n, o] = sum(g[n, k] * tanh(sum(x[n, d] * w[pick[n, k], d, o], over=d)), over=k)
    f.z[n] = sum(g[n, k] * x[n, d] * w[pick[n, k], d, 0], over=(d, k))
    return f.y, f.z


@op
def summed_over_choices(f, x: tensor[n, d], g: tensor[n, k], w: tensor[d, r, o], pick: index(r)[n, k]):
    """The matrices stand elsewhere than first, and all that is summed of them is one sum."""
    f.y[n, o] = -sum(x[n, d] * w[d, pick[n, k], o] / exp(g[n, k]), over=(d, k))
    return f.y


def by_kind_reference(x: Tensor, w: Tensor, at: Tensor, kind: Tensor) -> Tensor:
    return torch.einsum("ed,edo->eo", x[at], w[kind])


def mixture_reference(x: Tensor, g: Tensor, w: Tensor, pick: Tensor) -> Tensor:
    y = (torch.einsum("nd,nkdo->nko", x, w[pick]).tanh() * g[..., None]).sum(1)
    return torch.cat([y, torch.einsum("nd,nk,nkd->n", x, g, w[pick][..., 0])[:, None]], 1)


def summed_reference(x: Tensor, g: Tensor, w: Tensor, pick: Tensor) -> Tensor:
    return -torch.einsum("nd,nk,dnko->no", x, (-g).exp(), w[:, pick])


def _leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = (torch.randn(s[::-1], generator=generator, dtype=torch.float64) for s in shapes)
    return [t.permute(*reversed(range(t.dim()))).requires_grad_() for t in made]  # not contiguous


SIZES = [(600, 3, 40, 16, 12), (600, 1, 40, 16, 12), (7, 3, 2, 3, 4), (0, 3, 2, 3, 4), (5, 2, 2, 0, 3), (3, 3, 3, 3, 3)]
"""The first ones large enough for a loop: of the matrices, some of which nothing chooses."""


@pytest.mark.parametrize("chosen", [1, 2, 3])
@pytest.mark.parametrize(("rows", "matrices", "some", "inside", "out"), SIZES)
def test_values_and_gradients(rows: int, matrices: int, some: int, inside: int, out: int, chosen: int) -> None:
    generator = torch.Generator().manual_seed(1)
    chosen = min(chosen, matrices)
    kind = (matrices - 1 - torch.randint(chosen, (rows,), generator=generator)).int()
    at = torch.randint(some, (rows,), generator=generator)
    x, w = _leaves((some, inside), (matrices, inside, out))
    assert_alike(module(by_kind.op).by_kind(x, w, at, kind), by_kind_reference(x, w, at, kind), [x, w], 1e-11)
    pick = matrices - 1 - torch.randint(chosen, (rows, 2), generator=generator)
    x, g, w = _leaves((rows, inside), (rows, 2), (matrices, inside, out))
    y, z = module(mixture.op).mixture(x, g, w, pick)
    assert_alike(torch.cat([y, z[:, None]], 1), mixture_reference(x, g, w, pick), [x, g, w], 1e-11)
    w = w.detach().transpose(0, 1).requires_grad_()
    ours = module(summed_over_choices.op).summed_over_choices(x, g, w, pick)
    assert_alike(ours, summed_reference(x, g, w, pick), [x, g, w], 1e-11)


LINES: list[tuple[Op, list[str]]] = [
    (by_kind.op, ["y = rows_by_matrices(functional.embedding(at, x), w, kind)", "rows_by_matrices(dy, w.mT, kind)",
                  "dw = sums_of_outer(functional.embedding(at, x), dy, kind, r)"]),
    (mixture.op, ["rows_by_matrices(x[:, None], w, pick)", "w.mT, pick).sum(1)"]),
    (summed_over_choices.op, ["w.transpose(0, 1), pick).sum(1)", ", pick, r).transpose(0, 1)"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "lines"), LINES)
def test_which_code_is_written(made: Op, lines: list[str]) -> None:
    code = code_of(made)
    assert [line for line in lines if line not in code] == [], code


@op
def vectors(f, x: tensor[n, d], w: tensor[r, d], v: tensor[r, d, o], pick: index(r)[n]):
    """No matrix is gathered for a row, and no product of it with another."""
    f.y[n] = sum(x[n, d] * w[pick[n], d], over=d)
    f.z[n, d, o] = x[n, d] * v[pick[n], d, o]
    return f.y, f.z


@op
def guarded(f, x: tensor[n, d], w: tensor[r, d, o], pick: index(r)[n]):
    f.y[n, o] = where(x[n, 0] > 0, sum(x[n, d] * w[pick[n], d, o], over=d), 0)
    return f.y


def test_elsewhere_nothing_is_chosen() -> None:
    code = code_of(vectors.op)
    assert "rows_by_matrices" not in code and "sums_of_outer" not in code, code


def test_no_matrix_is_copied_for_a_row() -> None:
    """Neither for the product nor for its gradient: nothing made is as large as the matrices of all rows."""
    x, w = _leaves((50, 64), (2, 64, 64))
    kind = torch.arange(5000) % 2
    made: list[int] = []

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            leaves = torch.utils._pytree.tree_leaves(result)
            made.extend(t.untyped_storage().nbytes() for t in leaves if isinstance(t, Tensor))
            return result

    with Seen():
        module(by_kind.op).by_kind(x, w, kind, kind).sum().backward()
    assert max(made) <= 5000 * 64 * 8


@pytest.mark.parametrize("made", [by_kind, guarded])
def test_a_choice_that_is_none_is_named(made) -> None:
    x, w = _leaves((20, 32), (3, 32, 32))
    for kind in (torch.arange(20) % 4, torch.arange(20) % 3 - 1):
        kind = kind.repeat(100)
        args = [x, w, kind.clamp(0, 19), kind] if made is by_kind else [x.repeat(100, 1), w, kind]
        with pytest.raises(IndexError, match=f"{made.op.name}, equation"):
            getattr(module(made.op), made.op.name)(*args)


def test_one_graph() -> None:
    x, w = _leaves((9, 5), (3, 5, 4))
    kind = torch.arange(600) % 3
    compiled = torch.compile(module(by_kind.op).by_kind, fullgraph=True, dynamic=True, backend="eager")
    assert_alike(compiled(x, w, kind.clone(), kind), by_kind_reference(x, w, kind, kind), [x, w])
