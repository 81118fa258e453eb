"""A dimension of length 1 that is taken away and inserted again is the tensor as it was; of a product, or turned."""

import inspect

import pytest
import torch

from derive import amax, axes, exp, index, log, mean, op, sum, tensor
from derive.backends.code import Name
from derive.backends.values import Dims, Value, squeeze, unsqueeze
from derive.verify.verify import verify
from tests.derive.live import assert_derived, module

b, d, e, i, j, r = axes("b d e i j r")


@pytest.mark.parametrize(
    ("dims", "need", "code"),
    [
        (("b", None, "r"), ("b", None, "r"), "x"),
        (("b", "r", None), ("b", None, "r"), "x.squeeze(2)[:, None]"),
        (("...", None, "r"), ("...", None, "r"), "x"),
        (("b", None, "r"), (None, "b", "r"), "x.squeeze(1)[None]"),
        (("b", None, None, "r"), ("b", None, "r"), "x.squeeze((1, 2))[:, None]"),
        (("b", "r"), ("b", None, "r"), "x[:, None]"),
    ],
)
def test_taken_away_and_inserted_again(dims: Dims, need: Dims, code: str) -> None:
    found = unsqueeze(squeeze(Value(Name("x"), dims)), need)
    assert (str(found.code), found.dims) == (code, need)


@op
def linear_attention(f, q: tensor[b, i, r], k: tensor[b, j, r], v: tensor[b, j, e]):
    f.p[b, i, r], f.u[b, j, r] = exp(q[b, i, r]), exp(k[b, j, r])
    f.z[b, r] = sum(f.u[b, j, r], over=j)
    f.n[b, r, e] = sum(f.u[b, j, r] * v[b, j, e], over=j)
    f.y[b, i, e] = sum(f.p[b, i, r] * f.n[b, r, e], over=r) / sum(f.p[b, i, r] * f.z[b, r], over=r)
    return f.y


def test_products_by_a_statistic() -> None:
    """A matrix is multiplied with the statistics as they are kept."""

    def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        p, u = q.exp(), k.exp()
        return p @ (u.mT @ v) / (p * u.sum(1, keepdim=True)).sum(2, keepdim=True)

    made = module(linear_attention.op)
    code = "\n".join(inspect.getsource(getattr(made, f"linear_attention_{way}")) for way in ("forward", "backward"))
    assert ".mT @ exp_q_minus_q_max" in code and "].mT" not in code
    assert not any(f".squeeze({k})[" in code for k in range(3)), code
    assert_derived(linear_attention.op, plain, {"q": (2, 3, 4), "k": (2, 5, 4), "v": (2, 5, 6)})


@op
def z_loss(f, z: tensor[i, r], y: index(r)[i], u: index(r)[i], w: tensor[i]):
    """What an index gathers has a dimension of length 1 as statistics of rows have; what is read beside it has none."""
    f.top[i] = amax(z[i, r], over=r)
    f.lse[i] = log(sum(exp(z[i, r] - f.top[i]), over=r)) + f.top[i]
    f.loss[()] = mean(f.lse[i] ** 2 + f.lse[i] - z[i, y[i]], over=i)
    f.side[()] = sum(w[i] * z[i, u[i]], over=i)
    return f.loss, f.side


def test_what_is_gathered_is_reduced_as_it_lies() -> None:
    code = inspect.getsource(module(z_loss.op).z_loss_forward)
    assert "loss = (torch.addcmul(lse, lse, lse) - z.gather(1, y.unsqueeze(1))).mean()" in code, code
    assert "z.gather(1, u.unsqueeze(1)).squeeze(1)" in code, code
    found = verify(z_loss.op)
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]
