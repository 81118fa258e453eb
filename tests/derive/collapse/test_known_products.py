"""A product that the forward has is read by its name, also where one of its factors may be 0."""

import pytest
import torch

from derive import axes, constant, exp, op, sum, tensor
from derive.pipeline import derive_op
from derive.verify.verify import verify
from tests.derive.live import module

b, i, j, d, e = axes("b i j d e")


@op
def under_a_mask(f, q: tensor[b, i, d], k: tensor[b, j, d], v: tensor[b, j, e], m: constant[i, j]):
    """Attention whose weights are multiplied by a mask before they are shared."""
    f.s[b, i, j] = sum(q[b, i, d] * k[b, j, d], over=d)
    f.u[b, i, j] = m[i, j] * exp(f.s[b, i, j])
    f.p[b, i, j] = f.u[b, i, j] / sum(f.u[b, i, j], over=j)
    f.o[b, i, e] = sum(f.p[b, i, j] * v[b, j, e], over=j)
    return f.o


@op
def weighed(f, z: tensor[i, j], w: constant[i, j], x: tensor[j, d]):
    """Weights that are not normalised."""
    f.u[i, j] = 2 * w[i, j] * exp(z[i, j])
    f.y[i, d] = sum(f.u[i, j] * x[j, d], over=j)
    return f.y


@pytest.mark.parametrize(
    ("spec", "kept"), [(under_a_mask, ("p", "o", "q", "k", "v")), (weighed, ("u", "x"))], ids=lambda v: str(v)[:12]
)
def test_neither_factor_is_kept(spec, kept):
    derived = derive_op(spec.op)
    assert derived.kept == kept
    assert "exp" not in str(derived.backward)
    found = verify(spec.op)
    assert found.right, [(r.line, [str(x) for x in r.wrong]) for r in found.rows if r.wrong]


def test_the_step_says_so():
    steps = [s for s in derive_op(under_a_mask.op).closed.steps if s.law == "product"]
    assert next(str(s.after) for s in steps).count("m[i, j]") == 0


def test_where_the_mask_is_0_the_gradient_is():
    z, x = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((4, 3), (3, 2)))
    w = torch.tensor([[1.0, 0, 2]] * 4, dtype=torch.float64)
    dy = torch.randn(4, 2, dtype=torch.float64)
    ours = torch.autograd.grad(module(weighed.op).weighed(z, w, x), (z, x), dy)
    right = torch.autograd.grad(2 * (w * z.exp()) @ x, (z, x), dy)
    torch.testing.assert_close(ours, right)
    assert bool((ours[0][:, 1] == 0).all())
