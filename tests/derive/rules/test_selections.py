"""Several conditions, each of which names a place: `where(eq(py[n], y) & eq(px[n], x_), v, 0)` is put at both."""

import torch
from torch import Tensor

from derive import axes, delta, eq, index, length, maximum, mean, op, sum, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import module

c, k, n, x_, y = axes("c k n x_ y")


@op
def averaged(f, v: tensor[n, c], py: index(y)[n], px: index(x_)[n], high: length(y), wide: length(x_)):
    f.count[y, x_] = sum(where(eq(py[n], y) & eq(px[n], x_), 1, 0), over=n)
    f.grid[c, y, x_] = sum(where(eq(py[n], y) & eq(px[n], x_), v[n, c], 0), over=n) / maximum(f.count[y, x_], 1)
    return f.grid


@op
def where_positive(f, v: tensor[n], py: index(y)[n], px: index(x_)[n], high: length(y), wide: length(x_)):
    f.grid[y, x_] = sum(where((v[n] > 0) & eq(px[n], x_) & eq(py[n], y), v[n] ** 2, 0), over=n)
    return f.grid


@op
def taken_and_put(f, v: tensor[n, k], ix: index(k)[n], py: index(y)[n], high: length(y)):
    """One condition names a place that is summed over, the other one of the result."""
    f.z[y] = sum(where(eq(ix[n], k) & eq(py[n], y), v[n, k], 0), over=(n, k))
    return f.z


def _gradient(spec: OpCall, v: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    leaf = v.clone().requires_grad_()
    made = getattr(module(spec.op), spec.op.name)(leaf, *rest)
    dy = torch.randn(made.shape, generator=torch.Generator().manual_seed(1), dtype=v.dtype)
    return made, torch.autograd.grad(made, leaf, dy)[0]


def test_no_mask_over_all_places() -> None:
    torch.manual_seed(0)
    v, py, px = torch.randn(9, 2, dtype=torch.float64), torch.randint(3, (9,)), torch.randint(4, (9,))
    leaf = v.clone().requires_grad_()
    zeros = leaf.new_zeros(2, 3, 4)
    ones = torch.ones(9, dtype=torch.float64)
    counts = torch.zeros(3, 4, dtype=torch.float64).index_put((py, px), ones, accumulate=True)
    plain = zeros.permute(1, 2, 0).index_put((py, px), leaf, accumulate=True).permute(2, 0, 1) / counts.clamp(min=1)
    dy = torch.randn(plain.shape, generator=torch.Generator().manual_seed(1), dtype=v.dtype)
    grid, dv = _gradient(averaged, v, py, px, 3, 4)
    torch.testing.assert_close(grid, plain)
    torch.testing.assert_close(dv, torch.autograd.grad(plain, leaf, dy)[0])
    assert "==" not in code_of(averaged.op)


def test_other_conditions_stay() -> None:
    v, py, px = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([1, 1, 1]), torch.tensor([0, 0, 0])
    assert module(where_positive.op).where_positive(v, py, px, 2, 2).tolist() == [[0, 0], [10, 0]]
    assert verify(where_positive.op).right and verify(averaged.op).right


def test_what_is_gathered_is_put() -> None:
    v, ix, py = torch.arange(6.0).reshape(3, 2), torch.tensor([1, 0, 1]), torch.tensor([0, 0, 2])
    assert module(taken_and_put.op).taken_and_put(v, ix, py, 3).tolist() == [3.0, 0.0, 5.0]
    assert verify(taken_and_put.op).right


@op
def load(f, pick: index(c)[n], z: tensor[n, c]):
    """What part of all comes to each place, and the mean of it there (Fedus et al., 2022)."""
    f.part[c] = mean(delta(pick[n], c), over=n)
    f.y[()] = sum(f.part[c] * mean(z[n, c], over=n), over=c)
    return f.y


@op
def parts(f, v: tensor[n, k], pick: index(c)[n], count: length(c)):
    f.grid[c, k] = mean(where(eq(pick[n], c), v[n, k], 0), over=n)
    return f.grid


def test_a_mean_of_what_is_put_somewhere_is_the_sum_divided() -> None:
    for spec in (load, parts):
        code = code_of(spec.op)
        assert "index_add_" in code and "==" not in code and "where" not in code, code
        assert verify(spec.op).right
    v, pick = torch.randn(9, 2, dtype=torch.float64), torch.randint(3, (9,))
    masks = torch.nn.functional.one_hot(pick, 4).double()
    torch.testing.assert_close(module(parts.op).parts(v, pick, 4), masks.T @ v / 9)


def test_a_count_is_exact_before_it_is_divided() -> None:
    """A third of a million times 1e-6 is not a third in float32."""
    many = 3 * 2**18
    pick = torch.arange(many) % 3
    y = module(load.op).load(pick, torch.full((many, 3), 3.0))
    assert y.item() == 3.0
