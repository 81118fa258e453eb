"""Differences of all pairs: in a backward sums that weigh them are matrix products, and distances are one call."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from derive import axes, exp, index, log, mean, ne, op, relu, scalar, sqrt, sum, tanh, tensor, where
from derive.ir.equations import Op
from derive.output.live import build
from derive.verify.verify import Verification, verify, verify_kernels
from generated import _functions as functions
from tests.derive.live import assert_alike, assert_derived, module

b, d, i, j, k, n = axes("b d i j k n")


@op
def kernel_mean(f, x: tensor[i, d], z: tensor[j, d], width: scalar = 3.0):
    f.q[i, j] = sum((x[i, d] - z[j, d]) ** 2, over=d)
    f.y[()] = mean(exp(-f.q[i, j] / width), over=(i, j))
    return f.y


@op
def of_one_set(f, x: tensor[i, d]):
    f.y[()] = mean(sqrt(sum((x[i, d] - x[j, d]) ** 2, over=d) + 1), over=(i, j))
    return f.y


@op
def in_batches(f, x: tensor[b, i, d], z: tensor[b, j, d]):
    f.y[b, i, j] = sqrt(sum((x[b, i, d] - z[b, j, d]) ** 2, over=d) + 1)
    return f.y


@op
def city_blocks(f, x: tensor[i, d], z: tensor[j, d]):
    f.y[i, j] = tanh(sum(abs(x[i, d] - z[j, d]), over=d))
    return f.y


@op
def soft_centres(f, x: tensor[n, d], z: tensor[k, d], v: tensor[k, d]):
    f.u[n, k] = exp(-mean((x[n, d] - z[k, d]) ** 2, over=d))
    f.a[n, k] = f.u[n, k] / sum(f.u[n, k], over=k)
    f.y[n, d] = sum(f.a[n, k] * v[k, d], over=k)
    return f.y


@op
def moved(f, x: tensor[i, d], w: tensor[i, j]):
    """Coordinates, moved by their differences (Satorras et al., 2021)."""
    f.y[i, d] = x[i, d] + mean(w[i, j] * (x[i, d] - x[j, d]), over=j)
    return f.y


@op
def of_spreads(f, x: tensor[n, d], m: tensor[k, d], s: tensor[k, d]):
    f.q[n, k] = mean(exp(-2 * s[k, d]) * (x[n, d] - m[k, d]) ** 2 / 2 + s[k, d], over=d)
    f.y[n] = log(sum(exp(-f.q[n, k]), over=k))
    return f.y


@op
def each_pair_once(f, x: tensor[i, d], eps: scalar = 1.0):
    """What weighs the differences asks for places: under other names of the axes it asks for theirs."""
    f.q[i, j] = sum((x[i, d] - x[j, d]) ** 2, over=d) + eps
    f.y[()] = sum(where(i < j, 1 / f.q[i, j] ** 2, 0), over=(i, j))
    return f.y


@op
def of_two_kernels(f, x: tensor[i, d], w: tensor[j, i], z: tensor[i, d]):
    """What weighs the differences is a product, the same whichever of the two points is asked; some of it has no
    diagonal, and says the length of an axis.
    """
    f.p[i, j] = exp(-sum((x[i, d] - x[j, d]) ** 2, over=d)) * exp(-mean((z[i, d] - z[j, d]) ** 2, over=d))
    f.q[i, j] = where(ne(i, j), 1 / (sum((x[i, d] - x[j, d]) ** 2, over=d) + 1), 0)
    f.y[()] = sum(w[j, i] * f.p[i, j] * mean(f.q[i, j], over=j), over=(i, j))
    return f.y


@op
def from_all(f, x: tensor[n, d], z: tensor[k, d]):
    """Every point of the other set weighs the same: nothing of `z` weighs the differences."""
    f.q[n, k] = sum((x[n, d] - z[k, d]) ** 2, over=d)
    f.y[n] = 1 / (1 + sum(f.q[n, k], over=k))
    return f.y


@op
def from_all_others(f, x: tensor[i, d]):
    f.q[i, j] = sum((x[i, d] - x[j, d]) ** 2, over=d)
    f.y[()] = log(1 + sum(f.q[i, j], over=(i, j)))
    return f.y


@op
def by_lengths(f, x: tensor[i, d], z: tensor[j, d], s: tensor[d], v: tensor[j]):
    """A length scale for every coordinate (a kernel with automatic relevance determination)."""
    f.k[i, j] = exp(-sum(((x[i, d] - z[j, d]) / s[d]) ** 2, over=d) / 2)
    f.y[i] = sum(f.k[i, j] * v[j], over=j)
    return f.y


@op
def by_precisions(f, x: tensor[b, i, d], z: tensor[b, j, d], s: tensor[b, i, d]):
    """Every point on the left has its own."""
    f.q[b, i, j] = sum((x[b, i, d] - z[b, j, d]) ** 2 * s[b, i, d], over=d)
    f.y[b, i, j] = 1 / (1 + f.q[b, i, j] ** 2)
    return f.y


@op
def by_widths(f, x: tensor[i, d], z: tensor[j, d], s: tensor[j, d].positive):
    f.y[i, j] = tanh(sum(abs((x[i, d] - z[j, d]) / s[j, d]), over=d))
    return f.y


def _squared(x: Tensor, z: Tensor) -> Tensor:
    return ((x[..., :, None, :] - z[..., None, :, :]) ** 2).sum(-1)


def _of_two_kernels(x: Tensor, w: Tensor, z: Tensor) -> Tensor:
    p = (-_squared(x, x) - _squared(z, z) / x.shape[1]).exp()
    q = (1 / (_squared(x, x) + 1)) * (1 - torch.eye(len(x), dtype=x.dtype))
    return (w.T * p * q.mean(1, keepdim=True)).sum()


def _of_spreads(x: Tensor, m: Tensor, s: Tensor) -> Tensor:
    return (-((-2 * s).exp() * (x[:, None] - m) ** 2 / 2 + s).mean(2)).logsumexp(1)


PLAIN: dict[str, Callable[..., Tensor]] = {
    "kernel_mean": lambda x, z, width=3.0: (-_squared(x, z) / width).exp().mean(),
    "of_one_set": lambda x: (_squared(x, x) + 1).sqrt().mean(),
    "in_batches": lambda x, z: (_squared(x, z) + 1).sqrt(),
    "city_blocks": lambda x, z: (x[:, None] - z).abs().sum(2).tanh(),
    "soft_centres": lambda x, z, v: (-_squared(x, z) / x.shape[1]).softmax(1) @ v,
    "moved": lambda x, w: x + (w[:, :, None] * (x[:, None] - x)).mean(1),
    "of_spreads": _of_spreads,
    "from_all": lambda x, z: 1 / (1 + _squared(x, z).sum(1)),
    "from_all_others": lambda x: (1 + _squared(x, x).sum()).log(),
    "each_pair_once": lambda x, eps=1.0: (1 / (_squared(x, x) + eps) ** 2).triu(1).sum(),
    "of_two_kernels": _of_two_kernels,
    "by_lengths": lambda x, z, s, v: (-(((x[:, None] - z) / s) ** 2).sum(2) / 2).exp() @ v,
    "by_precisions": lambda x, z, s: 1 / (1 + (s[:, :, None] * (x[:, :, None] - z[:, None]) ** 2).sum(3) ** 2),
    "by_widths": lambda x, z, s: ((x[:, None] - z).abs() / s).sum(2).tanh(),
}
OPS: dict[str, Op] = {
    made.op.name: made.op
    for made in (
        kernel_mean, of_one_set, in_batches, city_blocks, soft_centres, moved, of_spreads, each_pair_once,
        of_two_kernels, from_all, from_all_others, by_lengths, by_precisions,
        by_widths,
    )
}  # fmt: skip
SIZES = {"b": 2, "d": 3, "i": 4, "j": 5, "k": 6, "n": 7}


def _code(op: Op, way: str) -> str:
    source = inspect.getsource(getattr(module(op), f"{op.name}_{way}"))
    return "\n".join(line.partition("  # ")[0] for line in source.splitlines())


def _inputs(op: Op, sizes: dict[str, int], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    tensors = [o for o in op.operands if o.kind == "tensor"]
    wide = {"j": sizes["i"]} if op.name in ("moved", "of_two_kernels") else {}
    made = [torch.randn([(sizes | wide)[a.base] for a in o.axes], dtype=dtype) for o in tensors]
    return [x.abs() + 0.5 if o.assumed else x for o, x in zip(tensors, made, strict=True)]


WHOLE = [SIZES, dict.fromkeys(SIZES, 4), dict.fromkeys(SIZES, 1)]
NO_POINTS = SIZES | {"i": 0, "n": 0}
CASES = [(name, sizes) for name in OPS for sizes in WHOLE]
MEANS = ("kernel_mean", "of_one_set", "of_two_kernels")
CASES += [(name, NO_POINTS) for name in OPS if name not in MEANS]  # a mean of nothing is nan


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_gradients(name: str, sizes: dict[str, int]) -> None:
    torch.manual_seed(0)
    at = [x.requires_grad_() for x in _inputs(OPS[name], sizes)]
    ours, theirs = getattr(module(OPS[name]), name)(*at), PLAIN[name](*at)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)
    dy = torch.randn_like(theirs)
    for got, want in zip(torch.autograd.grad(ours, at, dy), torch.autograd.grad(theirs, at, dy), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("judged", [verify, verify_kernels])
@pytest.mark.parametrize("name", OPS)
def test_battery(name: str, judged: Callable[[Op], Verification]) -> None:
    found = judged(OPS[name])
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@pytest.mark.parametrize("name", [n for n in OPS if n not in ("city_blocks", "by_widths", "of_spreads")])
def test_no_tensor_of_all_differences(name: str) -> None:
    backward = _code(OPS[name], "backward")
    assert "as_float64(" in backward and not any(text in backward for text in ("x[:, None]", "x[:, :, None]", "x.T -"))
    assert ("pair_distances(" in _code(OPS[name], "forward")) == (name != "moved")


def test_scaled_and_weighed_distances() -> None:
    """What scales coordinates goes into the call, behind the difference; so are squares that a sum weighs."""
    forward, backward = (_code(OPS["by_lengths"], way) for way in ("forward", "backward"))
    assert "pair_distances(x, z, p=2, scale=s.reciprocal())" in forward
    assert "weighed_distances(" in backward and "scale=s.reciprocal()" in backward
    assert "weighed_distances(" in _code(OPS["of_spreads"], "backward")
    assert "pair_distances(z, x, p=2, weight=s)" in _code(OPS["by_precisions"], "forward")
    assert "weighed_distances(" in _code(OPS["by_precisions"], "backward")
    assert "pair_distances(x, z, p=1, weight=s.reciprocal())" in _code(OPS["by_widths"], "forward")


@pytest.mark.parametrize("sizes", [(300, 700, 50), (700, 30, 600)])
def test_some_points_at_a_time(sizes: tuple[int, int, int]) -> None:
    """Whichever dimension is the longest; sets of points of a batch, with what scales or weighs the same for some."""
    i, j, d = sizes
    x, z, weights = torch.randn(2, i, d), torch.randn(2, j, d), torch.rand(2, i, j)
    for scale, weight in [(torch.rand(2, j, d), torch.rand(d)), (torch.rand(2, 1, d), torch.rand(j, 1))]:
        for p in (1, 2):
            apart = (scale[:, None] * (x[:, :, None].double() - z[:, None])).abs() ** p
            found = functions.pair_distances(x, z, p, scale, weight)
            torch.testing.assert_close(found, (apart * weight).sum(3).float())
            found = functions.weighed_distances(weights, x, z, p, scale)
            torch.testing.assert_close(found, (apart * weights[..., None]).sum(1).float())


def test_weights_are_multiplied_and_masked_once() -> None:
    """What weighs pairs is one tensor, both ways, made and widened once, of which the diagonal is taken away once."""
    lines = _code(OPS["of_two_kernels"], "backward").splitlines()
    widened = [line.partition("64 = ")[2] for line in lines if "64 = " in line]
    both_ways = re.compile(r"as_float64\(fill_diagonal_\((\w+) \+ \1\.T, 0\)\)")
    assert [both_ways.sub("both ways", code) for code in widened] == [
        "both ways", "as_float64(x)", "both ways", "as_float64(z)",
    ]  # fmt: skip
    once = _code(OPS["each_pair_once"], "backward")
    assert once.count(" @ ") + once.count(".addmm_(") == 1
    assert "as_float64(one_over_q_to_3.triu(1).add_(one_over_q_to_3.T.tril(-1)))" in once


@op
def with_itself(f, x: tensor[i, d], w: tensor[i, j], z: tensor[d], u: tensor[i, d], eps: scalar = 0.5):
    f.y[i, d] = sum(w[i, j] * (x[i, d] - x[j, d] + z[d]), over=j) + sum(w[i, j] * (x[i, d] - x[j, d] + eps), over=j)
    f.s[i, d] = sum(w[i, j] * (x[i, d] + x[j, d] - z[d]), over=j) * sum(w[i, j] * (x[i, d] - x[j, d] - u[j, d]), over=j)
    f.v[d] = sum(u[i, d] * (x[i, d] - x[j, d] + 1) * w[i, j], over=(i, j))
    f.r[i, d] = f.y[i, d] * f.s[i, d] * f.v[d]
    return f.r


@op
def turned(f, x: tensor[i, i], w: tensor[i, j]):
    f.y[i, d] = tanh(sum(w[i, j] * (x[i, d] - x[d, j]), over=j))
    return f.y


def _with_itself(x: Tensor, w: Tensor, z: Tensor, u: Tensor, eps: float = 0.5) -> Tensor:
    apart, w = x[:, None] - x, w[:, :, None]
    y = (w * (apart + z)).sum(1) + (w * (apart + eps)).sum(1)
    s = (w * (x[:, None] + x - z)).sum(1) * (w * (apart - u)).sum(1)
    return y * s * (u[:, None] * (apart + 1) * w).sum((0, 1))


def test_what_is_not_0_on_the_diagonal() -> None:
    """Only `x[i, d] - x[j, d]` and nothing else may go without what a point weighs for itself."""
    shapes = {"x": (4, 3), "w": (4, 4), "z": (3,), "u": (4, 3)}
    assert_derived(with_itself.op, _with_itself, shapes)
    squares = dict.fromkeys("xw", (4, 4))
    assert_derived(turned.op, lambda x, w: torch.einsum("ij,ijd->id", w, x[:, None] - x.T).tanh(), squares)


@op
def ranked(f, x: tensor[i, d], z: tensor[j, d], v: tensor[d]):
    f.p[i, j] = sum(v[d] * (x[i, d] - z[j, d]), over=d)
    f.y[()] = sum(relu(f.p[i, j]), over=(i, j))
    return f.y


@pytest.mark.parametrize("save", ["cost", "least", "input"])
def test_what_is_0_is_0(save: str) -> None:
    """A sum of differences of equal points has no gradient under a relu; a difference of sums may have."""
    x, v = torch.randn(1, 64).expand(5, 64).clone().requires_grad_(), torch.randn(64)
    y = build(ranked, save=save)(x, x.detach()[:3].clone(), v)
    assert float(y.detach()) == 0 and not torch.autograd.grad(y, x)[0].any()
    assert "as_float64" not in _code(ranked.op, "forward")


def test_distances_of_whole_numbers_are_exact() -> None:
    @op
    def distances(f, x: tensor[i, d], z: tensor[j, d]):
        f.y[i, j] = sum((x[i, d] - z[j, d]) ** 2, over=d)
        return f.y

    for coordinates in (3, 50):
        x, z = (torch.randint(-9, 9, (n, coordinates)).float() for n in (700, 600))
        expected = ((x[:, None].long() - z.long()) ** 2).sum(2).float()
        assert torch.equal(build(distances)(x, z), expected)


@op
def own_and_others(f, x: tensor[n, d], z: tensor[k, d], own: index(k)[n]):
    """The distance to one point over those to all; its gradient is added to what the sums make."""
    f.q[n, k] = sum((x[n, d] - z[k, d]) ** 2, over=d)
    f.y[n] = f.q[n, own[n]] / (1 + sum(f.q[n, k], over=k))
    return f.y


@pytest.mark.parametrize("sizes", [(7, 5, 3), (4, 4, 4), (1, 1, 1), (0, 2, 3)])
def test_a_difference_that_is_gathered_is_one_of_what_is_gathered(sizes: tuple[int, int, int]) -> None:
    def plain(x: Tensor, z: Tensor, own: Tensor) -> Tensor:
        q = _squared(x, z)
        return q.gather(1, own[:, None])[:, 0] / (1 + q.sum(1))

    rows, points, width = sizes
    x, z = (torch.randn(m, width, dtype=torch.float64, requires_grad=True) for m in (rows, points))
    own = torch.arange(rows) * 3 % points
    assert_alike(module(own_and_others.op).own_and_others(x, z, own), plain(x, z, own), [x, z])
    backward = _code(own_and_others.op, "backward")
    assert "x - functional.embedding(own, z)" in backward and "x[:, None]" not in backward, backward


def _errors(op: Op, function: Callable[..., Any], at: list[Tensor], dy: Tensor) -> list[float]:
    def found(forward: Callable[..., Any], dtype: torch.dtype) -> tuple[Tensor, ...]:
        leaves = [x.to(dtype).requires_grad_() for x in at]
        y = forward(*leaves)
        return (y.detach(), *torch.autograd.grad(y, leaves, dy.to(dtype)))

    truth = found(PLAIN[op.name], torch.float64)
    return [float((g - t).norm() / t.norm()) for g, t in zip(found(function, torch.float32), truth, strict=True)]


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("name", OPS)
def test_float32(name: str, offset: float) -> None:
    """Points far from 0 have as many digits in their differences as autograd's."""
    torch.manual_seed(0)
    op, ours, theirs = OPS[name], [], []
    for _ in range(20):
        at = _inputs(op, {a: 5 * size for a, size in SIZES.items()}, torch.float32)
        moved = [x + offset if o.name in ("x", "z", "m") else x for o, x in zip(op.operands, at, strict=False)]
        dy = torch.randn_like(PLAIN[name](*moved))
        ours.append(_errors(op, getattr(module(op), name), moved, dy))
        theirs.append(_errors(op, PLAIN[name], moved, dy))
    mean_error, native = torch.tensor(ours).mean(0), torch.tensor(theirs).mean(0)
    assert (mean_error <= 2 * native).all(), (mean_error, native)


def test_points_that_coincide_are_at_no_distance() -> None:
    x = torch.randn(40, 30) + 100
    y = module(OPS["in_batches"]).in_batches(x[None], x[None])
    assert (y[0].diagonal() == 1).all()


def test_compiled() -> None:
    """A compiled loop makes the distances, and no graph breaks."""
    made = module(OPS["kernel_mean"])
    x, z = torch.randn(6, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    compiled = torch.compile(made.kernel_mean_forward, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, z)[0], made.kernel_mean_forward(x, z)[0])
