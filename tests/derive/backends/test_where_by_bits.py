"""A choice between floats by their bits is the choice that `torch.where` makes, whatever is not chosen."""

import math

import pytest
import torch
from torch import Tensor

from derive import axes, constant, op, sum, tensor, where
from generated._functions import where_by_bits
from tests.derive.against_loops import code_of
from tests.derive.live import assert_alike, module

c, n = axes("c n")
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324)
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def _drawn(dtype: torch.dtype, seed: int) -> Tensor:
    x = torch.randn(96, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)
    for k, value in enumerate(SPECIAL):
        x[k::7] = value
    return x


def _same_bits(a: Tensor, b: Tensor) -> bool:
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.view(bits), b.view(bits))


CONDITIONS = {
    "each": torch.rand(96, 64, generator=torch.Generator().manual_seed(3)) > 0.4,
    "rows": torch.rand(96, 1, generator=torch.Generator().manual_seed(4)) > 0.4,
    "columns": torch.rand(64, generator=torch.Generator().manual_seed(5)) > 0.4,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS.keys())
def test_bit_for_bit(condition: Tensor, dtype: torch.dtype) -> None:
    x, z = _drawn(dtype, 0), _drawn(dtype, 1)
    for a, b in ((x, z), (x, z[:1]), (x[:, :1], z), (x, 0), (x, -math.inf), (x, 2.5), (-0.1, z), (0, z), (math.nan, z)):
        assert _same_bits(where_by_bits(condition, a, b), torch.where(condition, a, b))
    assert _same_bits(where_by_bits(condition, x.mT.contiguous().mT, z), torch.where(condition, x, z))


@pytest.mark.parametrize("b", [0, -math.inf, "z"])
def test_into_memory_of_the_callers(b: float | str) -> None:
    x, z = _drawn(torch.float32, 0), _drawn(torch.float32, 1)
    other = z if b == "z" else b
    for rows in (96, 2):  # by bits, and few elements as PyTorch chooses
        out = torch.empty(rows, 64)
        found = where_by_bits(CONDITIONS["each"][:rows], x[:rows], other if b != "z" else z[:rows], out=out)
        assert found is out
        assert _same_bits(out, torch.where(CONDITIONS["each"][:rows], x[:rows], other if b != "z" else z[:rows]))


REPEATED = [((64,), None), ((96, 1), (64,)), ((64,), (1, 64)), ((96, 1), (96, 64)), (None, (96, 1))]


@pytest.mark.parametrize("into", [False, True])
@pytest.mark.parametrize("shapes", REPEATED)
def test_what_is_chosen_may_be_repeated(shapes: tuple[tuple[int, ...] | None, ...], into: bool) -> None:
    """Where the condition has the shape of the choice."""
    g = torch.Generator().manual_seed(0)
    a, b = (-math.inf if s is None else torch.randn(s, generator=g) for s in shapes)
    out = torch.empty(96, 64) if into else None
    wanted = torch.where(CONDITIONS["each"], a, b)
    assert _same_bits(where_by_bits(CONDITIONS["each"], a, b, out), wanted)
    assert out is None or _same_bits(out, wanted)


@pytest.mark.parametrize("over", [0, 1])
def test_over_what_is_chosen_from(over: int) -> None:
    both, condition = [_drawn(torch.float32, 0), _drawn(torch.float32, 1)], CONDITIONS["each"]
    right = torch.where(condition, *both)
    assert _same_bits(where_by_bits(condition, *both, out=both[over]), right)


def test_other_dtypes_and_gradients_are_left_to_pytorch() -> None:
    condition, whole = CONDITIONS["each"], torch.arange(96 * 64).reshape(96, 64)
    assert torch.equal(where_by_bits(condition, whole, 0), torch.where(condition, whole, 0))
    mixed = where_by_bits(condition, _drawn(torch.float32, 0), _drawn(torch.float64, 1))
    assert mixed.dtype == torch.float64
    x = torch.randn(96, 64, requires_grad=True)
    where_by_bits(condition, x, 0).sum().backward()
    assert torch.equal(x.grad, condition.to(x.dtype))


@op
def chosen(f, x: tensor[n, c], z: tensor[n, c], m: constant[n, c]):
    f.y[n, c] = where(m[n, c] > 0, x[n, c] ** 3, z[n, c])
    return f.y


@op
def of_rows(f, x: tensor[n, c], m: constant[n]):
    """A choice for each row is none of a table."""
    f.s[n] = sum(x[n, c], over=c)
    f.y[n, c] = x[n, c] * where(m[n] > 0, f.s[n], 3)
    return f.y


def test_where_tables_are_chosen_from() -> None:
    assert "y = where_by_bits(m_above_zero, x**3, z)" in code_of(chosen.op)
    assert "where_by_bits" not in code_of(of_rows.op)
    x, z, m = (torch.randn(96, 64, dtype=torch.float64, requires_grad=k < 2) for k in range(3))
    assert_alike(module(chosen.op).chosen(x, z, m), torch.where(m > 0, x**3, z), [x, z])


def test_compiled_it_is_one_call_without_breaks() -> None:
    made = torch.compile(where_by_bits, fullgraph=True, backend="aot_eager")
    x, condition = _drawn(torch.float32, 0), CONDITIONS["each"]
    assert _same_bits(made(condition, x, 0), torch.where(condition, x, 0))
