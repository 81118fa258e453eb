"""Ops that nobody here has seen: as right as autograd of a forward written without us, and as short as by hand."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from derive.catalogue import load_file
from derive.ir.equations import Op
from derive.verify.verify import verify
from tests.derive.live import module

HERE = Path(__file__).parent
OPS = {op.name: op for op in load_file(HERE / "specs.py")}
SIZES = {"b": 3, "c": 4, "d": 6, "e": 7, "g": 2, "h": 5, "i": 5, "j": 2, "k": 3, "n": 6, "o": 2, "t": 7, "u": 3, "v": 4}


# --- what each should compute, said in plain PyTorch ------------------------------------------------------


def gaussian_nll(mu: Tensor, var: Tensor, t: Tensor) -> Tensor:
    v = torch.maximum(var, torch.full_like(var, 0.3))
    return ((v.log() + (mu - t) ** 2 / v) / 2).mean()


def smoothed_labels(z: Tensor, y: Tensor) -> Tensor:
    q = 0.9 * F.one_hot(y, z.shape[1]).to(z.dtype) + 0.1 / z.shape[1]
    return -(q * F.logsigmoid(z)).sum() / len(z)


def multi_margin(z: Tensor, y: Tensor) -> Tensor:
    own = F.one_hot(y, z.shape[1]).bool()
    return F.relu(1 - z.gather(1, y[:, None]) + z).masked_fill(own, 0).mean()


def pairwise_rank(s: Tensor, t: Tensor) -> Tensor:
    return (F.softplus(s[:, None] - s[:, :, None]) * (t[:, :, None] > t[:, None])).mean()


def ghost_norm(x: Tensor, gamma: Tensor, beta: Tensor, groups: int) -> Tensor:
    z = x.view(groups, -1, x.shape[1])
    var, mean = torch.var_mean(z, 1, correction=0, keepdim=True)
    return ((z - mean) / (var + 1e-5).sqrt() * gamma + beta).flatten(0, 1)


def rotate_halves(x: Tensor) -> Tensor:
    h = x.shape[2] // 2
    t = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
    a = t / 10000 ** (torch.arange(h, dtype=x.dtype) / h)
    p, q = x.chunk(2, -1)
    return torch.cat([p * a.cos() - q * a.sin(), q * a.cos() + p * a.sin()], -1)


def graph_mean(x: Tensor, a: Tensor, src: Tensor, dst: Tensor, degree: Tensor) -> Tensor:
    return torch.zeros(len(degree), a.shape[1], dtype=x.dtype).index_add(0, dst, x[src] @ a) / degree[:, None]


def attended(q: Tensor, z: Tensor, x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, z, x)


def divided_inside(q: Tensor, z: Tensor, x: Tensor, mask: Tensor) -> Tensor:
    return (q @ z.T / q.shape[1] ** 0.5).softmax(1) * mask @ x


def attended_with_sink(q: Tensor, z: Tensor, x: Tensor, sink: Tensor) -> Tensor:
    s = torch.cat([q @ z.T / q.shape[1] ** 0.5, sink.expand(len(q), 1)], 1)
    return s.softmax(1)[:, :-1] @ x


def pooled_by_attention(x: Tensor, a: Tensor) -> Tensor:
    return ((x @ a).softmax(1)[..., None] * x).sum(1)


def segment_mean(x: Tensor, to: Tensor, segments: int) -> Tensor:
    chosen = F.one_hot(to, segments).to(x.dtype)
    return chosen.T @ x / chosen.sum(0).clamp(min=1)[:, None]


def contrasted(x: Tensor, pair: Tensor) -> Tensor:
    x = F.normalize(x, dim=1)
    s = (x @ x.T / 0.5).masked_fill(torch.eye(len(x), dtype=torch.bool), -torch.inf)
    own = torch.where(pair == torch.arange(len(x)), 2.0, s.gather(1, pair[:, None])[:, 0])
    return (s.logsumexp(1) - own).mean()


def evidence(x: Tensor, y: Tensor) -> Tensor:
    a = F.softplus(x) + 1
    return (a.sum(1).log() - a.gather(1, y[:, None])[:, 0].log()).mean()


def ranked_pairs(x: Tensor, t: Tensor) -> Tensor:
    return F.relu(1 - (x[:, None] - x) * (t[:, None] - t).sign()).mean()


def distilled(x: Tensor, teacher: Tensor, y: Tensor) -> Tensor:
    return 0.5 * F.cross_entropy(x, y) - 0.5 * 4 * (teacher * (x / 2).log_softmax(1)).sum(1).mean()


def decaying_sum(x: Tensor, a: Tensor) -> Tensor:
    y = [x[:, 0]]
    for k in range(1, x.shape[1]):
        y.append(y[-1] * (-F.softplus(a)).exp() + x[:, k])
    return torch.stack(y, 1)


def focal_squared(x: Tensor, t: Tensor) -> Tensor:
    return ((1 - x.sigmoid()) ** 2 * t * F.softplus(-x)).mean()


def bearings(x: Tensor, z: Tensor) -> Tensor:
    return torch.atan2(x[:, None, 1] - z[:, 1], x[:, None, 0] - z[:, 0])


def softcapped_attention(q: Tensor, z: Tensor, x: Tensor) -> Tensor:
    return ((q @ z.mT / q.shape[2] ** 0.5 / 30).tanh() * 30).softmax(2) @ x


def factorization_machine(x: Tensor, w0: Tensor, w1: Tensor, z: Tensor) -> Tensor:
    return w0 + x @ w1 + ((x @ z) ** 2 - x**2 @ z**2).sum(1) / 2


def decorrelation(x: Tensor) -> Tensor:
    s = torch.cov(x.T, correction=0).reshape(x.shape[1], -1)
    return (s.square().sum() - s.diagonal().square().sum()) / 2


def repulsion(x: Tensor, a: Tensor) -> Tensor:
    return a @ (-(x[:, None] - x).square().sum(2)).exp() @ a


def attended_with_slopes(q: Tensor, z: Tensor, x: Tensor, a: Tensor) -> Tensor:
    t, k = torch.arange(q.shape[1])[:, None], torch.arange(z.shape[1])
    bias = (a[:, None, None] * (k - t)).masked_fill(k > t, -torch.inf)
    return F.scaled_dot_product_attention(q, z, x, bias)


def symmetric_divergence(x: Tensor, z: Tensor) -> Tensor:
    a, b = x.log_softmax(1), z.log_softmax(1)
    return ((a.exp() - b.exp()) * (a - b)).sum(1).mean()


def linear_attention(q: Tensor, z: Tensor, x: Tensor) -> Tensor:
    fq, fz = F.elu(q) + 1, F.elu(z) + 1
    return fq @ (fz.mT @ x) / (fq @ fz.sum(1)[..., None] + 1e-6)


def contrastive_both_ways(x: Tensor, z: Tensor, a: Tensor) -> Tensor:
    s, own = a.exp() * x @ z.T, torch.arange(len(x))
    return (F.cross_entropy(s, own) + F.cross_entropy(s.T, own)) / 2


def poly_loss(x: Tensor, y: Tensor) -> Tensor:
    p = x.softmax(1).gather(1, y[:, None])
    return (1 - p - p.log()).mean()


def clipped_ratio(x: Tensor, old: Tensor, adv: Tensor) -> Tensor:
    r = (x - old).exp()
    return -torch.minimum(r * adv, r.clamp(0.8, 1.2) * adv).mean()


def learned_average(x: Tensor, a: Tensor) -> Tensor:
    s, y = a.sigmoid(), [torch.zeros(len(x), dtype=x.dtype)]
    for k in range(x.shape[1]):
        y.append(s * y[-1] + (1 - s) * x[:, k])
    return torch.stack(y[1:], 1)


def margin_off_the_label(x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(4 * (x - 0.35 * F.one_hot(y, x.shape[1]).to(x.dtype)), y)


def pooled_pairs(x: Tensor, rows: int, columns: int) -> Tensor:
    return F.avg_pool2d(x[:, :, : 2 * rows, : 2 * columns], 2)


def patch_embedding(x: Tensor, a: Tensor) -> Tensor:
    return F.conv2d(x, a.permute(3, 0, 1, 2), stride=a.shape[1:3]).permute(0, 2, 3, 1)


def rare_functions(x: Tensor, z: Tensor) -> Tensor:
    s = x.tanh() / 2
    u = s.atanh() + s.erfinv() + (2 + z**2).acosh() + torch.atan2(x, z - 1)
    v = (1 + x**2).digamma() + (z**2).log1p() + s.expm1() + z.erfc() + z.atan()
    return u + v * (s.asin() * s.acos() + s.sinh() * z.cosh() + s.tan())


@dataclass(frozen=True)
class Case:
    """A forward in plain PyTorch, and what its generated source must hold and must not."""

    forward: Callable[..., Tensor]
    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


CASES = {
    "hard_swish": Case(lambda x: x * (x + 3).clamp(0, 6) / 6, (".clamp(0, 6)",)),
    "gaussian_nll": Case(gaussian_nll, ("var.clamp(min=floor_)",)),
    "smoothed_labels": Case(smoothed_labels, (".gather(1, y.uns", "dz.scatter_add_("), ("arange", "new_full")),
    "multi_margin": Case(multi_margin, ("dloss_inner.sum(1",)),
    "pairwise_rank": Case(pairwise_rank, (), ("-torch.sigmoid",)),
    "ghost_norm": Case(ghost_norm, (".sub_(mean_dy)",), (".T",)),
    "rotate_halves": Case(rotate_halves, ("dtype=x.dtype) / h",)),
    "total_variation": Case(
        lambda x: (x[:, 1:] - x[:, :-1]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean(), ("dx[:, 1:] -=",)
    ),
    "graph_mean": Case(graph_mean, ("index_add_(0, dst, m)",), ("torch.arange",)),
    "both_ways": Case(lambda x, a: x.flip(1) * a + x, ("x.flip(1)",), ("index_put_", "torch.arange")),
    "three_way": Case(lambda p, q, r, s: torch.einsum("ib,jb,kb,b->ijk", p, q, r, s), ("dy_r = ",)),
    "low_rank_bilinear": Case(lambda x, z, p, q, a: (x @ p) * (z @ q) @ a, ("xp * zq @ a",), ("einsum",)),
    "film": Case(
        lambda x, g, b: x + F.relu((1 + g)[..., None] * x + b[..., None]), ("dy_inner.sum(2", "(dy_inner * x).sum(2")
    ),
    "by_log_sum_exp": Case(lambda s, x: s.softmax(-1) @ x, ("ByLogSumExpSaved(p, x)",), ("torch.log",)),
    # the maximum has no gradient, however the division is written, and it is not kept
    "attended_in_a_line": Case(attended, ("(dy * y).sum(1",), ("==", "torch.where", ", m, ")),
    "divided_inside": Case(divided_inside, ("torch.softmax(s, 1, out=s)",), ("==", "torch.where", ", m, ", ".amax(")),
    "attended_with_sink": Case(attended_with_sink, ("(dy * y).sum(1",), ("==", "torch.where", ", m, ")),
    "running_mean": Case(
        lambda x, a: (x * a).cumsum(1) / torch.arange(1, x.shape[1] + 1), ("running_dc = ", "dx = a * running_dc")
    ),
    "contrasted": Case(contrasted, ("ds = others.sub_(m).exp_()", "ds_sum + ds_sum.T")),
    "evidence": Case(evidence, ("softplus(x.gather(1",)),
    "ranked_pairs": Case(ranked_pairs, (), ("where",)),
    "tempered": Case(lambda x, tau: (x / tau).softmax(1), ("dx = dq / tau", "dq.mul_(q).sum()")),
    "distilled": Case(distilled, (), ("==", "where", "new_zeros")),
    "decaying_sum": Case(decaying_sum, (".triu_()",), ("where",)),
    "segment_mean": Case(segment_mean, ("index_add_", "embedding(to, dy"), ("==", "where")),
    "picked": Case(lambda p, y: -p.gather(1, y[:, None]).mean(), (".gather(",), ("==", "where")),
    "hashed_bag": Case(
        lambda table, w, slot, ids: (table[slot[ids]] * w[..., None]).sum(1), ("slot.index_select(0, ids",), ("==",)
    ),
    "picked_class_price": Case(
        lambda x, price, kind, y: (x * price[kind]).gather(1, y[:, None])[:, 0].exp(), ("kind.index_select",), ("==",)
    ),
    "pooled_by_attention": Case(pooled_by_attention, (), ("==", "torch.where", ", m, ")),
}

CASES |= {
    "log_returns": Case(lambda x, g: g * x.asinh(), ("torch.asinh",), ("square().add_(1)).add",)),
    "weighed_gamma": Case(lambda x, g: g * (1 + x**2).lgamma(), ("torch.digamma(",), ("where",)),
    "bearings": Case(bearings, ("x_minus_z.square().addcmul_(x_minus_z2, x_minus_z2)",), ("addcmul(",)),
    "distance_from_one": Case(lambda x, z: (x**2 + (z - 1) ** 2).log(), ("z_minus_one.square()",), ("alpha",)),
    "focal_squared": Case(focal_squared, (), ("(2 - p)", "(p - 2)")),
    "shifted_cube": Case(lambda x, g: g * (x - 1) ** 3, ("x_minus_one.square()",), ("x.square()",)),
    "softcapped_attention": Case(softcapped_attention, ("sub_(sum_dy_y)",), ("y_sum", ".neg_()")),
    "factorization_machine": Case(factorization_machine, ("addcmul(w1,",), (".expand(", "dq")),
    "decorrelation": Case(decorrelation, ("(x_minus_mu @ ds.T).mul_(ratio_of(2, n))",), ("x_minus_mu2",)),
    "orthogonality": Case(lambda x: ((x.T @ x - torch.eye(x.shape[1])) ** 2).sum(), (".T).mul_(2)",), ("x @ ds.T +",)),
    "repulsion": Case(repulsion, ("-4 * dloss",), ("sum_dx",)),
    "attended_with_slopes": Case(attended_with_slopes, ("sub_(sum_dy_y)",), ("tril",)),
    "relative_scores": Case(
        lambda q, z, r, ix: torch.einsum("bid,bitd->bit", q, z[:, None] + r[ix]) / q.shape[2] ** 0.5,
        (".baddbmm_(q, z.mT)", ".baddbmm_(ds, z)"),
        (".sum(",),
    ),
    "local_response": Case(lambda x: F.local_response_norm(x, 5, 1.5, 0.75, 2.0), (" @ ",), (".sum(", "torch.where")),
    "symmetric_divergence": Case(symmetric_divergence, ("addcmul(px_minus_pz,",), ("sum_px_minus_pz",)),
    "linear_attention": Case(linear_attention, ("clamp(max=0).exp_()",), ("torch.where",)),
    "contrastive_both_ways": Case(contrastive_both_ways, ("diagonal()",), ("dloss_mean2",)),
    "poly_loss": Case(poly_loss, ("x.gather(1, y.unsqueeze(1)) - m - torch.log(u_sum)",), ("torch.log(p",)),
    "clipped_ratio": Case(clipped_ratio, ("sign",), ("torch.where",)),
    "continuous_elu": Case(lambda x: F.celu(x, 1.5), ("dx = x.clamp(max=0).div_(a).exp_()",), ("torch.where",)),
    "learned_average": Case(learned_average, ("* x\n        ).sum()",), ("dy[:, :, None]", "einsum")),
    "margin_off_the_label": Case(margin_off_the_label, ("dx.scatter_add_(1, y.unsqueeze",), ("where", "one_hot")),
    "pooled_pairs": Case(pooled_pairs, (": 2 * columns], {2: 2, 3: 2}", "(rows, 2)).copy_("), ("divisor", "in range(")),
    "patch_embedding": Case(patch_embedding, ("x.unflatten(2, (i, k)).unflatten(4, (j, g))",), ("unfold",)),
    "rare_functions": Case(rare_functions, ("torch.expm1", "torch.erfinv"), ("masked_fill",)),
}


# --- the tests --------------------------------------------------------------------------------------------


def inputs(op: Op, sizes: dict[str, int]) -> list[Any]:
    """Random values for every argument but the numbers; constants are positive."""
    out: list[Any] = []
    for o in op.operands:
        shape = [s for a in o.axes for s in ((2, 3) if a.is_pack else (a.fixed or sizes.get(a.base, 4),))]
        if o.kind == "length":
            out.append(sizes[o.ranges_over.base])  # type: ignore[union-attr]
        elif o.kind == "index":
            out.append(torch.randint(sizes[o.ranges_over.base], shape))  # type: ignore[union-attr]
        elif o.kind != "scalar":
            value = torch.randn(shape, dtype=torch.float64)
            value = value.abs() + 0.5 if o.assumed == "positive" else value
            out.append(value.requires_grad_() if o.differentiable else value.abs() + 0.5)
    return out


def cotangent(y: Tensor, kind: str) -> Tensor:
    if kind == "stride 0":
        return torch.tensor(0.7, dtype=y.dtype).expand(y.shape)
    random = torch.randn(y.shape[::-1], dtype=y.dtype)
    return random.permute(*reversed(range(y.dim()))) if y.dim() else random


@pytest.mark.parametrize("kind", ["transposed", "stride 0", "size 1"])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, kind: str) -> None:
    torch.manual_seed(0)
    one = {a: 1 for a in "bcekou"} if kind == "size 1" else {}
    arguments = inputs(OPS[name], SIZES | one)
    leaves = [a for a in arguments if isinstance(a, Tensor) and a.requires_grad]
    ours, theirs = getattr(module(OPS[name]), name)(*arguments), CASES[name].forward(*arguments)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)
    dy = cotangent(theirs, kind)
    expected = torch.autograd.grad(theirs, leaves, dy)
    for found, want in zip(torch.autograd.grad(ours, leaves, dy), expected, strict=True):
        torch.testing.assert_close(found, want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_source(name: str) -> None:
    made = module(OPS[name])
    source = "".join(inspect.getsource(getattr(made, f"{name}_{way}")) for way in ("forward", "backward"))
    code = "\n".join(line.partition("  # ")[0] for line in source.splitlines())
    assert all(text in code for text in CASES[name].holds), code
    assert not any(text in code for text in ("shared", *CASES[name].lacks)), code


@pytest.mark.parametrize("name", OPS)
def test_battery(name: str) -> None:
    """As `derive verify` judges it, saturated functions and empty batches among the situations."""
    found = verify(OPS[name])
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]
