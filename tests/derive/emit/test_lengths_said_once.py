"""An axis that is as long as another has no length of its own in code: `n`, and no `i = n`, `j = n`."""

import inspect
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, exp, length, mean, ne, op, sum, tensor, where
from derive.ir.equations import Op
from derive.verify.verify import Verification, verify, verify_kernels
from tests.derive.live import assert_derived, module

b, d, i, j, k, m, n, t, u = axes("b d i j k m n t u")


@op
def others(f, x: tensor[n, d], y: tensor[n]):
    """Both axes of what is kept are as long as one of an input, and what asks for both places is asked twice."""
    f.s[i, j] = sum(x[i, d] * x[j, d], over=d)
    f.p[i] = sum(where((y[i] > y[j]) & ne(i, j), exp(f.s[i, j]), 0), over=j)
    f.q[i] = sum(where((y[i] <= y[j]) & ne(i, j), exp(-f.s[i, j]), 0), over=j)
    f.loss[()] = mean(f.p[i] * f.q[i] * y[i], over=i)
    return f.loss


@op
def later(f, x: tensor[b, t]):
    """As long as what is as long as another; the row stands second in one comparison."""
    f.e[b, u] = exp(x[b, u])
    f.w[b, i, j] = where((x[b, i] > 0) & (j > i), f.e[b, i] * f.e[b, j], where((x[b, i] < 0) & (j > i), f.e[b, j], 0))
    f.y[b, i] = sum(f.w[b, i, j] * (j + 1), over=j)
    return f.y


@op
def blocks(f, x: tensor[b, t], size_: length(m)):
    """As long as what the caller gives."""
    f.z[b, k, m] = x[b, (k, m)]
    f.y[b, k] = sum(exp(f.z[b, k, i] * f.z[b, k, j]) * (i + 2 * j), over=(i, j))
    return f.y


@op
def squares(f, x: tensor[n, n]):
    """Its columns, of which nothing is known but that there are as many as rows, are what the equations call them."""
    f.y[i] = sum(exp(x[i, j]) * x[j, i] * (j + 1), over=j)
    return f.y


def _others(x: Tensor, y: Tensor) -> Tensor:
    s, apart = x @ x.T, ~torch.eye(len(x), dtype=torch.bool)
    above = y[:, None] > y
    p, q = (torch.where(kept & apart, e, 0).sum(1) for kept, e in ((above, s.exp()), (~above, (-s).exp())))
    return (p * q * y).mean()


def _later(x: Tensor) -> Tensor:
    e, places = x.exp(), torch.arange(x.shape[1])
    w = torch.where(x[:, :, None] > 0, e[:, :, None] * e[:, None], e[:, None].expand(-1, x.shape[1], -1))
    return (w.triu(1) * (places + 1)).sum(2)


def _code(op: Op) -> str:
    made = module(op)
    return "\n".join(inspect.getsource(getattr(made, f"{op.name}_{way}")) for way in ("forward", "backward"))


CASES = {"others": (others.op, _others, {"x": (5, 3), "y": (5,)}), "later": (later.op, _later, {"x": (3, 5)})}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    assert_derived(*CASES[name])


@pytest.mark.parametrize(
    ("judged", "op"),
    [(verify, others.op), (verify, later.op), (verify, blocks.op), (verify_kernels, others.op),
     (verify_kernels, later.op), (verify_kernels, blocks.op)],
)  # fmt: skip
def test_battery(judged: Callable[[Op], Verification], op: Op) -> None:
    found = judged(op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@pytest.mark.parametrize("op", [others.op, later.op, blocks.op], ids=lambda op: op.name)
def test_no_length_is_another(op: Op) -> None:
    code = _code(op)
    assert not re.search(r"^ +\w+ = \w+$", code, re.M)
    assert not re.search(r"\b[ij] = |arange\([ij]\b|[ij]_range", code), code


def test_columns_are_called_as_in_the_equations() -> None:
    code = re.sub("#.*", "", _code(squares.op))
    assert "j = x.shape[1]" in code and "n2" not in code.replace("x: n n2", ""), code
    assert_derived(squares.op, lambda x: (x.exp() * x.T * torch.arange(1, len(x) + 1)).sum(1), {"x": (4, 4)})


def test_where_a_comparison_holds_in_a_square() -> None:
    assert "off_diagonal = n_range[:, None] != n_range" in _code(others.op)
    assert re.search(r"above_diagonal = t_range > t_range\[:, None\]", _code(later.op)), _code(later.op)
