"""A function of how far two places are apart is computed for every distance, and not for every pair of places."""

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, constant, exp, op, scalar, sin, sum, tanh, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.live import assert_alike, inputs_of, module

b, h, i, j, s, t = axes("b h i j s t")


@op
def returns(f, r: tensor[b, t], gamma: scalar = 0.9):
    f.g[b, t] = sum(where(s >= t, gamma ** (s - t) * r[b, s], 0), over=s)
    return f.g


@op
def retained(f, q: tensor[b, h, i, j], gamma: tensor[h]):
    """Nothing is left out; the power's derivative is one of a distance as well."""
    f.o[b, h, i, j] = q[b, h, i, j] * gamma[h] ** (i - j)
    return f.o


@op
def turned(f, q: tensor[b, h, i, j], p: tensor[b]):
    """The axes stand in the other order, and the distance runs the other way."""
    f.o[b, h, j, i] = q[b, h, i, j] * tanh(p[b] * (i - j))
    return f.o


@op
def decayed(f, x: tensor[b, t], a: constant[()]):
    f.y[b, t] = sum(where(t >= s, exp(-a[()] * (t - s)) * x[b, s], 0), over=s)
    return f.y


@op
def twisted(f, x: tensor[i, j], a: tensor[()]):
    """It depends on one of the places as well, or on a tensor of theirs, or is cheap."""
    f.y[i, j] = tanh(a[()] * (i - j)) * x[i, j] + tanh(a[()] * (i - j) / (1 + i)) + sin(x[i, j]) * (i - j) ** 2
    f.z[i, j] = tanh(x[i, j] * (i - j)) + f.y[i, j]
    return f.z


def _apart(n: int, m: int) -> Tensor:
    return torch.arange(n, dtype=torch.float64)[:, None] - torch.arange(m)


def _twisted(x: Tensor, a: Tensor) -> Tensor:
    d, rows = _apart(*x.shape), torch.arange(len(x))[:, None]
    return (a * d).tanh() * x + (a * d / (1 + rows)).tanh() + x.sin() * d**2 + (x * d).tanh()


PLAIN: dict[str, Callable[..., Tensor]] = {
    "returns": lambda r: r @ (0.9 ** _apart(r.shape[1], r.shape[1])).tril(),
    "retained": lambda q, gamma: q * gamma.abs()[:, None, None] ** _apart(*q.shape[2:]),
    "turned": lambda q, p: (q * (p[:, None, None, None] * _apart(*q.shape[2:])).tanh()).mT,
    "decayed": lambda x, a: x @ (-a * _apart(x.shape[1], x.shape[1])).exp().tril().T,
    "twisted": _twisted,
}
OPS: dict[str, OpCall] = {made.op.name: made for made in (returns, retained, turned, decayed, twisted)}


@pytest.mark.parametrize("lengths", [(4, 3), (3, 5), (1, 1), (1, 4), (0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("name", PLAIN)
def test_values_and_gradients(name: str, lengths: tuple[int, int]) -> None:
    sizes = dict(zip("ijthb", (*lengths, lengths[0], 2, 3), strict=True))
    made = OPS[name].op
    inputs = inputs_of(made, {o.name: tuple(sizes[a.base] for a in o.axes) for o in made.operands})
    if "gamma" in inputs:
        inputs["gamma"] = inputs["gamma"].detach().abs().requires_grad_()
    ours, all_inputs = getattr(module(made), name)(*inputs.values()), list(inputs.values())
    assert_alike(ours, PLAIN[name](*all_inputs), [x for x in all_inputs if x.requires_grad])


@pytest.mark.parametrize("name", ["returns", "turned", "twisted"])
def test_battery(name: str) -> None:
    found = verify(OPS[name].op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def test_a_power_is_of_every_distance() -> None:
    code = inspect.getsource(module(returns.op))
    wide = "device={0}.device, dtype={0}.dtype"
    powers = "(gamma ** torch.arange(-t, t, " + wide + ")).unfold(0, t, 1)[1:]"
    assert f"r @ {powers.format('r')}.flip(1).tril_()" in code
    assert f"dg @ {powers.format('dg')}.flip(0).triu()" in code


def test_the_distances_have_a_name_where_they_are_read_twice() -> None:
    code = inspect.getsource(module(retained.op)).partition("def retained_backward")[2]
    assert "i_minus_j = torch.arange(-j, i, device=do.device, dtype=do.dtype)" in code
    assert "(gamma[:, None] ** i_minus_j).unfold(1, j, 1)[:, 1:].flip(2)" in code
    assert "where_by_bits(i_minus_j == 0, 0, " in code


def test_the_rows_are_turned_where_the_columns_are_added() -> None:
    code = "".join(inspect.getsource(module(turned.op)).split())
    assert ".tanh_().unfold(1,i,1)[:,1:].flip(1)" in code


def test_what_depends_on_more_is_computed_for_every_pair() -> None:
    code = inspect.getsource(module(twisted.op)).partition("def twisted_forward")[2].partition("def twisted_back")[0]
    assert code.count("unfold(") == 1


@op
def of_leading_axes(f, q: tensor[..., i, j], p: tensor[...]):
    f.o[..., i, j] = q[..., i, j] * tanh(p[...] * (i - j))
    return f.o


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)], ids=str)
def test_leading_axes_may_be_none_or_several(leading: tuple[int, ...]) -> None:
    q, p = torch.randn(*leading, 4, 3), torch.randn(leading)
    made = module(of_leading_axes.op)
    found, _ = made.of_leading_axes_forward(q, p)
    apart = torch.arange(4)[:, None] - torch.arange(3)
    assert torch.allclose(found, q * torch.tanh(p[..., None, None] * apart))
    assert "unfold" in inspect.getsource(made)
