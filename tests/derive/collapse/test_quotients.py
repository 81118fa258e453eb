"""A quotient to a power is a power of a quotient: of numbers that are all small or all large it is right in float32."""

import numpy as np
import pytest
import torch

from derive.adjoint.chain_rule import stepwise
from derive.collapse.quotients import name_quotients
from derive.collapse.vocabulary import name_sums
from derive.ir.equations import Op
from derive.notation import axes, exp, index, log, mean, op, scalar, sqrt, sum, tensor, where
from tests.derive.evaluate import forward, inputs
from tests.derive.live import assert_alike, assert_derived, module
from tests.derive.specs import Spec, each_spec

n, m, d, k = axes("n m d k")


@op
def cubed(f, a: tensor[()], b: tensor[n]):
    f.y[n] = (a[()] ** 2 / b[n]) ** 3
    return f.y


@op
def of_a_difference(f, x: tensor[n, d], mu: tensor[n], s: tensor[n]):
    f.y[n] = mean(((x[n, d] - mu[n]) / s[n]) ** 3, over=d)
    return f.y


@op
def over_a_root(f, x: tensor[n, d], v: tensor[n].positive):
    f.y[n] = mean((x[n, d] / sqrt(v[n])) ** 3, over=d)
    return f.y


@op
def weighted(f, x: tensor[n], s: tensor[n], w: tensor[n]):
    f.y[n] = w[n] * (x[n] / s[n]) ** 2 + exp(-x[n] / s[n])
    return f.y


@op
def beside_a_root(f, x: tensor[n], s: tensor[n], q: tensor[n]):
    f.y[n] = (x[n] / s[n]) ** 2 * sqrt(q[n])
    return f.y


@op
def written_before(f, x: tensor[n], s: tensor[n]):
    f.z[n] = x[n] / s[n]
    f.y[n] = f.z[n] + (x[n] / s[n]) ** 4
    return f.y


@op
def written_before_over_more(f, x: tensor[n], s: tensor[n], b: tensor[d]):
    f.z[n, d] = x[n] / s[n]
    f.y[n] = (x[n] / s[n]) ** 3
    f.w[n, d] = f.z[n, d] * b[d]
    return f.y, f.w


@op
def masked(f, a: tensor[()], r: tensor[n, m]):
    f.y[n, m] = where(n < m, 2 * (a[()] / r[n, m]) ** 6, 0)
    return f.y


@op
def masked_and_weighted(f, a: tensor[()], r: tensor[n], w: tensor[n], far: scalar = 1.5):
    f.y[n] = where(r[n] < far, w[n] * (a[()] / r[n]) ** 6, 0)
    return f.y


@op
def squashed(f, s: tensor[n, d]):
    """A capsule's output: a quotient beside a root, and neither of them a power."""
    f.q[n] = sum(s[n, d] ** 2, over=d)
    f.v[n, d] = f.q[n] / (1 + f.q[n]) * s[n, d] / sqrt(f.q[n] + 1)
    return f.v


def squash(s: torch.Tensor) -> torch.Tensor:
    q = s.square().sum(1, keepdim=True)
    return q / (1 + q) * s / torch.sqrt(q + 1)


@op
def above_and_below(f, x: tensor[n], r: tensor[n], s: tensor[n]):
    f.y[n] = r[n] ** 1.5 * x[n] ** 2 / s[n] ** 3
    f.z[n] = (r[n] / s[n] ** 2) ** 2.5
    return f.y, f.z


@op
def left_alone(f, x: tensor[n], y: tensor[m], s: tensor[n], length: scalar = 2.0):
    f.a[n] = x[n] / s[n]
    f.b[n] = x[n] ** 2 / s[n]
    f.c[n] = (x[n] / length) ** 2
    f.e[n, m] = (x[n] / y[m]) ** 2
    f.g[k] = (x[k + 1] / s[k]) ** 2
    f.h[n] = where(s[n] > 0, (x[n] / s[n]) ** 2, 1)
    f.i[n, m] = where(m <= n, (x[n] / s[n]) ** 2, 0)
    return f.a, f.b, f.c, f.e, f.g, f.h, f.i


TABLE = [
    (cubed, ["y_inner[n] = a[]**2/b[n]", "y[n] = y_inner[n]**3"]),
    (of_a_difference, ["x_minus_mu_over_s[n, d] = (-mu[n] + x[n, d])/s[n]",
                       "y[n] = mean(x_minus_mu_over_s[n, d]**3, over=d)"]),
    (over_a_root, ["y_inner[n, d] = x[n, d]/sqrt(v[n])", "y[n] = mean(y_inner[n, d]**3, over=d)"]),
    (weighted, ["x_over_s[n] = x[n]/s[n]", "y[n] = w[n]*x_over_s[n]**2 + exp(-x_over_s[n])"]),
    (beside_a_root, ["x_over_s[n] = x[n]/s[n]", "y[n] = sqrt(q[n])*x_over_s[n]**2"]),
    (written_before, ["z[n] = x[n]/s[n]", "y[n] = z[n]**4 + z[n]"]),
    (written_before_over_more, ["z[n, d] = x[n]/s[n]", "x_over_s[n] = x[n]/s[n]", "y[n] = x_over_s[n]**3",
                                "w[n, d] = b[d]*z[n, d]"]),
    (masked, ["a_over_r[n, m] = where(n < m, a[]/r[n, m], 0)", "y[n, m] = 2*a_over_r[n, m]**6"]),
    (masked_and_weighted, ["a_over_r[n] = where(r[n] < far, a[]/r[n], 0)",
                           "y[n] = where(r[n] < far, a_over_r[n]**6*w[n], 0)"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "lines"), TABLE, ids=lambda v: getattr(v, "__name__", ""))
def test_named(made: object, lines: list[str]) -> None:
    assert [str(e) for e in name_quotients(made.op).equations] == lines  # type: ignore[attr-defined]


def test_no_root_is_taken_of_what_may_be_negative() -> None:
    assert name_quotients(squashed.op) == squashed.op  # type: ignore[attr-defined]
    assert_derived(squashed.op, squash, {"s": (3, 4)})  # type: ignore[attr-defined]


def test_what_is_no_quotient_to_a_power_or_larger_than_its_parts_stays() -> None:
    assert name_quotients(left_alone.op) == left_alone.op  # type: ignore[attr-defined]


@each_spec()
def test_outputs_are_the_same(spec: Spec) -> None:
    start = inputs(spec.op, spec.sizes, np.random.default_rng(0))
    before, after = forward(spec.op, start), forward(name_quotients(spec.op), start)
    for name in spec.op.outputs:
        np.testing.assert_allclose(after.tensors[name], before.tensors[name], rtol=1e-11, err_msg=name)


@op
def energy(f, x: tensor[n, d], sigma: tensor[()]):
    """Of Lennard-Jones, in units of its depth."""
    f.d2[n, m] = sum((x[n, d] - x[m, d]) ** 2, over=d)
    f.s6[n, m] = where(n < m, (sigma[()] ** 2 / f.d2[n, m]) ** 3, 0)
    f.E[()] = 4 * sum(f.s6[n, m] ** 2 - f.s6[n, m], over=(n, m))
    return f.E


@op
def energy_of_pairs(f, x: tensor[n, d], sigma: tensor[()], to: index(n)[k], fro: index(n)[k]):
    f.d2[k] = sum((x[to[k], d] - x[fro[k], d]) ** 2, over=d)
    f.E[()] = 4 * sum((sigma[()] ** 2 / f.d2[k]) ** 6 - (sigma[()] ** 2 / f.d2[k]) ** 3, over=k)
    return f.E


@op
def robust(f, x: tensor[n, d], sigma: tensor[()]):
    f.E[()] = mean(log(1 + (x[n, d] / sigma[()]) ** 2), over=(n, d))
    return f.E


@op
def third_moment(f, x: tensor[n, d], sigma: tensor[()]):
    f.mu[n] = mean(x[n, d], over=d)
    f.v[n] = mean((x[n, d] - f.mu[n]) ** 2, over=d)
    f.E[()] = sigma[()] * sum(mean(((x[n, d] - f.mu[n]) / sqrt(f.v[n])) ** 3, over=d), over=n) / sigma[()]
    return f.E


UNITS = [(made.op, unit) for made in (robust, third_moment) for unit in (3e-10, 1e-15, 1e10, 1e15)] + [
    (made.op, unit) for made in (energy, energy_of_pairs) for unit in (3e-10, 1e10)  # d2 leaves float32 in others
]


@pytest.mark.parametrize(("made", "unit"), UNITS, ids=lambda v: getattr(v, "name", str(v)))
def test_the_unit_of_length_does_not_matter_in_float32(made: Op, unit: float) -> None:
    """All are of ratios of lengths, so that the values are one for all units and the gradients 1/unit as large."""
    pairs = {"to": torch.tensor([0, 1, 2, 3]), "fro": torch.tensor([4, 3, 0, 1])} if made is energy_of_pairs.op else {}
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = []
    for dtype, length in ((torch.float64, 1.0), (torch.float32, unit)):
        leaves = [(x * length).to(dtype).requires_grad_(), torch.tensor(length, dtype=dtype, requires_grad=True)]
        value = getattr(module(made), made.name)(*leaves, **pairs)
        gradients = torch.autograd.grad(value, leaves)
        found.append([value.double(), *(g.double() * length for g in gradients)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=2e-4, atol=2e-4 * float(found[0][1].abs().max()))


@op
def spread(f, x: tensor[n], s: tensor[n], w: tensor[n]):
    f.z[n] = w[n] * x[n] / s[n]
    f.q[n] = (x[n] ** 2 + w[n] ** 2) ** (-3 / 2)
    f.y[n] = f.z[n] + where(s[n] < 1, x[n] / s[n], 0) * f.q[n]
    return f.y


def test_the_derivative_by_what_divides_is_the_output_over_it() -> None:
    steps = stepwise(name_sums(spread.op))  # type: ignore[attr-defined]
    local = {(a.of, c.through): str(c.local) for a in steps.adjoints for c in a.contributions}
    assert local["s", "z"] == "-z[n]/s[n]"
    assert local["x", "z"] == "w[n]/s[n]"
    assert local["x", "q"] == "-3*q[n]*x[n]/(w[n]**2 + x[n]**2)"
    assert_derived(
        spread.op,  # type: ignore[attr-defined]
        lambda x, s, w: w * x / s + torch.where(s < 1, x / s, 0) * (x**2 + w**2) ** -1.5,
        {"x": (7,), "s": (7,), "w": (7,)},
    )


def test_what_a_mask_leaves_out_may_divide_by_0() -> None:
    """Where points meet, `d2[n, n]` is 0: no gradient is nan."""
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    sigma = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    i, j = torch.triu_indices(5, 5, 1)
    s6 = (sigma**2 / ((x[i] - x[j]) ** 2).sum(1)) ** 3
    assert_alike(module(energy.op).energy(x, sigma), 4 * (s6**2 - s6).sum(), [x, sigma])  # type: ignore[attr-defined]


def test_no_root_is_taken_of_what_may_be_0() -> None:
    """The chain rule would go through it: 0 times the infinite derivative of a root."""
    x, s = torch.tensor([2.0, -1.0, 3.0]).double(), torch.tensor([1.5, -2.0, -0.5]).double()
    x, r, s = leaves = [t.requires_grad_() for t in (x, torch.tensor([0.0, 0.0, 2.0]).double(), s)]
    dy = torch.tensor([0.5, -1.5, 2.0]).double()
    ours = module(above_and_below.op).above_and_below(x, r, s)  # type: ignore[attr-defined]
    for found, expected in zip(ours, (r**1.5 * x**2 / s**3, (r / s**2) ** 2.5), strict=True):
        torch.testing.assert_close(found, expected)
        sums = ((found * dy).sum(), (expected * dy).sum())
        by_leaf = (torch.autograd.grad(v, leaves, retain_graph=True, allow_unused=True) for v in sums)
        for a, b in zip(*by_leaf, strict=True):
            torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b)
