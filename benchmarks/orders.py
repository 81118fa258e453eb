"""`python -m benchmarks.orders --out docs/orders.md`: further derivatives beside PyTorch's and those by hand.

Counted are the calls that compute and the bytes that they read and write, in sizes of the first input, of one second
derivative or one tangent alone, with what is kept for it. Measured is, in one process and round about, the median of
the time that the processor takes.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from derive.catalogue import find
from derive.output.package import write_package

Made = Callable[..., Any]


# --- counting ---------------------------------------------------------------------------------------------


class Counter(TorchDispatchMode):
    """The calls that compute, and the bytes that they read and write; views are nothing."""

    calls = 0
    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata: t for t in _tensors((args, kwargs))}
        made = {t.untyped_storage()._cdata: t for t in _tensors(found)}
        in_place = func._schema.is_mutable
        if in_place or not made.keys() <= given.keys():
            self.calls += 1
            self.bytes += sum(map(_bytes, given.values())) + sum(map(_bytes, made.values()))
        return found


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, dict):
        return _tensors(tuple(value.values()))
    if isinstance(value, tuple | list):
        return [t for v in value for t in _tensors(v)]
    return [value] if isinstance(value, Tensor) else []


def _bytes(t: Tensor) -> int:
    """What is there of it in memory: an expanded axis is one place."""
    elements = 1
    for length, stride in zip(t.shape, t.stride(), strict=True):
        elements *= length if stride else min(length, 1)
    return elements * t.element_size()


@dataclass(frozen=True)
class Count:
    calls: int
    passes: float
    kept: float | None = None  # in sizes of the first input

    def __str__(self) -> str:
        kept = "" if self.kept is None else f"{self.kept:.1f}"
        return f"{self.calls} | {self.passes:.1f} | {kept}"


def counted(run: Made, unit: int, without: Count | None = None, kept: float | None = None) -> Count:
    with Counter() as counter:
        run()
    less = (0, 0.0) if without is None else (without.calls, without.passes)
    return Count(counter.calls - less[0], counter.bytes / unit - less[1], kept)


def kept_by(t: Tensor) -> float:
    """The bytes that the graph of a tensor holds, each piece of memory once."""
    found: dict[int, Tensor] = {}
    nodes, seen = [t.grad_fn], set[Any]()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [n for n, _ in node.next_functions]
        held = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
        for t in _tensors([*held, *getattr(node, "saved_tensors", ())]):
            found[t.untyped_storage()._cdata] = t
    return sum(map(_bytes, found.values()))


# --- the ops ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An op with its inputs, PyTorch's own, and the double backward of the first gradient by hand."""

    name: str
    inputs: tuple[Any, ...]
    theirs: Made
    by_hand: Made  # of the cotangent of the first gradient, the output's, and the inputs: to dy, x, and parameters

    @property
    def real(self) -> list[int]:
        return [k for k, t in enumerate(self.inputs) if isinstance(t, Tensor) and t.is_floating_point()]


def cases() -> list[Case]:
    g = torch.Generator().manual_seed(0)
    x, w, b = torch.randn(512, 1024, generator=g), torch.randn(1024, generator=g), torch.randn(1024, generator=g)
    y = torch.randint(1024, (512,), generator=g)
    q, k, v = (torch.randn(4, 8, 128, 64, generator=g) for _ in range(3))
    return [
        Case("softmax", (x,), lambda x: torch.softmax(x, -1), _softmax),
        Case("log_softmax", (x,), lambda x: torch.log_softmax(x, -1), _log_softmax),
        Case("softmax_cross_entropy", (x, y), F.cross_entropy, _cross_entropy),
        Case("layernorm", (x, w, b), lambda x, w, b: F.layer_norm(x, (1024,), w, b), _layernorm),
        Case("rmsnorm", (x, w), lambda x, w: F.rms_norm(x, (1024,), w, 1e-5), _rmsnorm),
        Case("batchnorm", (x, w, b, 1e-5, 0), lambda x, w, b, *_: F.batch_norm(x, None, None, w, b, True), _batchnorm),
        Case("attention", (q, k, v), F.scaled_dot_product_attention, _attention),
        Case("gelu", (x,), F.gelu, _gelu),
    ]


# by hand: what the forward would keep comes first


def _softmax(ddx: Tensor, dp: Tensor, x: Tensor) -> Iterator[Any]:
    p = torch.softmax(x, -1)
    yield (p,)
    centred = dp - (dp * p).sum(-1, keepdim=True)
    spread = ddx - (ddx * p).sum(-1, keepdim=True)
    dx = centred.mul_(p)
    grad_x = (dx * spread).addcmul_((ddx * dx).sum(-1, keepdim=True), p, value=-1)
    yield spread.mul_(p), grad_x


def _log_softmax(ddx: Tensor, dy: Tensor, x: Tensor) -> Iterator[Any]:
    y = torch.log_softmax(x, -1)
    yield (y,)
    p = y.exp()
    centred = ddx - (ddx * p).sum(-1, keepdim=True)
    yield centred, p.mul_(centred).mul_(-dy.sum(-1, keepdim=True))


def _cross_entropy(ddz: Tensor, dloss: Tensor, z: Tensor, y: Tensor) -> Iterator[Any]:
    p, n = torch.softmax(z, -1), len(z)
    yield p, y
    means = (ddz * p).sum(-1, keepdim=True)
    yield (means.sum() - ddz.gather(1, y[:, None]).sum()) / n, (ddz - means).mul_(p).mul_(dloss / n)


def _layernorm(ddx: Tensor, dy: Tensor, x: Tensor, w: Tensor, b: Tensor) -> Iterator[Any]:
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    rstd = (var + 1e-5).rsqrt()
    xhat = (x - mean) * rstd
    yield xhat, rstd, w
    d = x.shape[-1]
    g = dy * w
    a, t = g.mean(-1, keepdim=True), (g * xhat).mean(-1, keepdim=True)
    dx = (g - a).addcmul_(t, xhat, value=-1).mul_(rstd)
    v = ddx * rstd
    e, f = v.mean(-1, keepdim=True), (v * xhat).mean(-1, keepdim=True)
    projected = (v - e).addcmul_(f, xhat, value=-1)
    u = (g * -f).addcmul_(t, v, value=-1)  # what xhat gets
    c, h = u.mean(-1, keepdim=True), (u * xhat).add_(dx.mul_(ddx)).mean(-1, keepdim=True)
    yield projected * w, u.sub_(c).addcmul_(h, xhat, value=-1).mul_(rstd), projected.mul_(dy).sum(0), d


def _rmsnorm(ddx: Tensor, dy: Tensor, x: Tensor, w: Tensor) -> Iterator[Any]:
    r = (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    xhat = x * r
    yield xhat, r, w
    g, v = dy * w, ddx * r
    t, f = (g * xhat).mean(-1, keepdim=True), (v * xhat).mean(-1, keepdim=True)
    projected = torch.addcmul(v, f, xhat, value=-1)
    dx = torch.addcmul(g, t, xhat, value=-1).mul_(r)
    u = (g * -f).addcmul_(t, v, value=-1)
    h = (u * xhat).add_(dx.mul_(ddx)).mean(-1, keepdim=True)
    yield projected * w, u.addcmul_(h, xhat, value=-1).mul_(r), projected.mul_(dy).sum(0)


def _batchnorm(ddx: Tensor, dy: Tensor, x: Tensor, w: Tensor, b: Tensor, *_: float) -> Iterator[Any]:
    var, mean = torch.var_mean(x, 0, correction=0)
    rstd = (var + 1e-5).rsqrt()
    xhat = (x - mean) * rstd
    yield xhat, rstd, w
    a, t, e, f = dy.mean(0), (dy * xhat).mean(0), ddx.mean(0), (ddx * xhat).mean(0)
    projected = (ddx - e).addcmul_(f, xhat, value=-1)
    across = (ddx * dy).mean(0) - a * e
    k = w * rstd * rstd
    grad_x = (dy - a).mul_(-f * k).sub_((ddx - e).mul_(t * k)).addcmul_(k * (3 * f * t - across), xhat)
    yield projected * (w * rstd), grad_x, projected.mul_(dy).sum(0).mul_(rstd)


def _attention(ddq: Tensor, do: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Iterator[Any]:
    scale = q.shape[-1] ** -0.5
    p = torch.softmax(q @ k.mT * scale, -1)
    o = p @ v
    yield p, q, k, v, o
    dp = do @ v.mT
    centred = dp.sub_((do * o).sum(-1, keepdim=True))
    ds = centred.mul_(p)
    t = ddq @ k.mT * scale
    spread = t - (t * p).sum(-1, keepdim=True)
    grad_s = (ds * spread).addcmul_((t * ds).sum(-1, keepdim=True), p, value=-1).mul_(scale)
    ddp = spread.mul_(p)
    yield ddp @ v, grad_s @ k, (grad_s.mT @ q).add_(ds.mT @ ddq, alpha=scale), ddp.mT @ do


def _gelu(ddx: Tensor, dy: Tensor, x: Tensor) -> Iterator[Any]:
    pdf, cdf = torch.exp(-0.5 * x * x) * 0.3989422804014327, (x * 0.7071067811865476).erf().add_(1).mul_(0.5)
    slope = torch.addcmul(cdf, x, pdf)
    yield slope, x
    pdf = (x * x).mul_(-0.5)
    bend = (2 + 2 * pdf).mul_(pdf.exp_()).mul_(0.3989422804014327)
    yield slope * ddx, bend.mul_(ddx).mul_(dy)


# --- the table --------------------------------------------------------------------------------------------


def counts(case: Case) -> dict[str, tuple[Count, Count | None]]:
    """The double backward, from the cotangent of the first gradient alone, and the JVP, of the first tangent alone."""
    ours = getattr(importlib.import_module(f"generated.{case.name}"), case.name)
    unit = _bytes(case.inputs[0])
    outputs = ours(*case.inputs)
    g = torch.Generator().manual_seed(1)
    ddx = torch.randn(case.inputs[0].shape, generator=g)
    dy = torch.randn(outputs.shape, generator=g)
    steps = case.by_hand(ddx, dy, *case.inputs)
    kept = next(steps)
    own = counted(lambda: next(steps), unit, kept=sum(map(_bytes, (*kept, dy))) / unit)
    _check(case, ours, ddx, dy)
    return {"by hand": (own, None), "Handgrad": _of(ours, case, unit), "PyTorch": _of(case.theirs, case, unit)}


def _second(f: Made, case: Case, dy: Tensor, ddx: Tensor) -> tuple[Made, float]:
    """What differentiates the first gradient again, and what is kept for that."""
    leaves = [t.clone().requires_grad_() if k in case.real else t for k, t in enumerate(case.inputs)]
    leaves[0] = leaves[0] * 1  # as a layer before it makes it
    dy, real = dy.clone().requires_grad_(), [leaves[k] for k in case.real]
    (dx,) = torch.autograd.grad(f(*leaves), real[0], dy, create_graph=True)
    return lambda: torch.autograd.grad(dx, [dy, *real], ddx, allow_unused=True), kept_by(dx)


def _of(f: Made, case: Case, unit: int) -> tuple[Count, Count]:
    g = torch.Generator().manual_seed(1)
    ddx, dy = torch.randn(case.inputs[0].shape, generator=g), torch.randn(f(*case.inputs).shape, generator=g)
    with sdpa_kernel(SDPBackend.MATH):
        run, kept = _second(f, case, dy, ddx)
        double = counted(run, unit, kept=kept / unit)
        alone = counted(lambda: f(*case.inputs), unit)
        of_first = lambda x: f(x, *case.inputs[1:])  # noqa: E731
        jvp = counted(lambda: torch.func.jvp(of_first, case.inputs[:1], (ddx,)), unit, alone)
    return double, jvp


def _check(case: Case, ours: Made, ddx: Tensor, dy: Tensor) -> None:
    """What is counted by hand is right."""
    found = list(case.by_hand(ddx, dy, *case.inputs))[1]
    for got, want in zip(found, _second(ours, case, dy, ddx)[0](), strict=False):
        if want is not None:
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


# --- measuring --------------------------------------------------------------------------------------------


def medians(ways: dict[str, Made], rounds: int) -> dict[str, float]:
    """The median of the processor's seconds for each, one after another, round about."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            start = time.process_time()
            run()
            taken[name].append(time.process_time() - start)
    return {name: statistics.median(own) for name, own in taken.items()}


def hessian_vector_products(rounds: int) -> dict[str, float]:
    """Of softmax cross-entropy, 2048 x 1024, in float32."""
    g = torch.Generator().manual_seed(0)
    z, v = torch.randn(2048, 1024, generator=g).requires_grad_(), torch.randn(2048, 1024, generator=g)
    y = torch.randint(1024, (2048,), generator=g)
    ours = importlib.import_module("generated").softmax_cross_entropy

    def primitives(z: Tensor, y: Tensor) -> Tensor:
        m = z.amax(1, keepdim=True)
        s = (z - m).exp().sum(1, keepdim=True)
        return -(z - m - s.log()).gather(1, y[:, None]).mean()

    def product(f: Made) -> Made:
        def run() -> Tensor:
            (dz,) = torch.autograd.grad(f(z, y), z, create_graph=True)
            return torch.autograd.grad(dz, z, v)[0]

        return run

    ways = {"Handgrad": ours, "F.cross_entropy": F.cross_entropy, "primitives": primitives}
    return medians({name: product(f) for name, f in ways.items()}, rounds)


def first_derivatives(rounds: int) -> Iterator[tuple[str, str, float]]:
    """Of `NAME`, over what it takes under `--order 1`."""
    names = ("softmax", "layernorm", "gelu", "softmax_cross_entropy")
    with tempfile.TemporaryDirectory() as folder:
        write_package([find(n) for n in names], Path(folder) / "once", proven=False)
        sys.path.insert(0, folder)
        twice, once = importlib.import_module("generated"), importlib.import_module("once")
        sys.path.remove(folder)
        for name in names:
            for rows, row in ((256, 256), (2048, 1024)):
                g = torch.Generator().manual_seed(0)
                x = torch.randn(rows, row, generator=g).requires_grad_()
                y = torch.randint(row, (rows,), generator=g)
                w, b = torch.randn(row, generator=g), torch.randn(row, generator=g)
                more: dict[str, tuple[Tensor, ...]] = {"layernorm": (w, b), "softmax_cross_entropy": (y,)}

                def run(f: Made, x: Tensor = x, given: tuple[Any, ...] = more.get(name, ())) -> Made:
                    return lambda: torch.autograd.grad(f(x, *given).sum(), x)

                many = rounds * (20 if rows == 256 else 1)
                found = medians({"twice": run(getattr(twice, name)), "once": run(getattr(once, name))}, many)
                yield name, f"{rows} x {row}", found["twice"] / found["once"]


# --- the page ---------------------------------------------------------------------------------------------

_HEAD = """# Further derivatives, counted and measured

`python -m benchmarks.orders --out docs/orders.md` writes this page. How they are derived, and what takes them:
[README](../README.md); what they are held against: [verify.md](verify.md).

## Short

Of one double backward, from the cotangent of the first gradient to those of the output's cotangent and of all inputs,
and of one JVP, of the first input's tangent: the calls that compute (a view is none), and the bytes that they read and
write, in sizes of the first input (512 x 1024; attention 4 x 8 x 128 x 64). *Kept* is what autograd holds for the
double backward after the first, dy included, in the same unit. By hand is a short form that a person wrote
(`benchmarks/orders.py`), held to ours; PyTorch is its own formula (attention in plain products, the only form that it
differentiates twice). A JVP is counted less the forward.

| op | form | calls | passes | kept | JVP calls | JVP passes |
|---|---|---|---|---|---|---|
"""


def page(rounds: int) -> str:
    lines, longer = [_HEAD], []
    for case in cases():
        found = counts(case)
        passes = {form: double.passes for form, (double, _) in found.items()}
        least = min(passes["by hand"], passes["PyTorch"])
        longer += [f"{case.name} ({passes['Handgrad']:.0f} of {least:.0f})"] if passes["Handgrad"] > least else []
        for form, (double, jvp) in found.items():
            forward = "| " if jvp is None else f"{jvp.calls} | {jvp.passes:.1f}"
            lines.append(f"| {case.name} | {form} | {double} | {forward} |\n")
    lines.append(f"\nMore passes than the shorter of the two others: {', '.join(longer) or 'none'}.\n")
    products = hessian_vector_products(rounds)
    lines.append("\n## Fast\n\nA Hessian-vector product of softmax cross-entropy, 2048 x 1024, float32, one thread:\n")
    lines.append(f"medians of {rounds} rounds in one process (PyTorch {torch.__version__}).\n\n")
    lines.append("| way | ms | over ours |\n|---|---|---|\n")
    for name, seconds in products.items():
        lines.append(f"| {name} | {1e3 * seconds:.1f} | {seconds / products['Handgrad']:.2f} |\n")
    lines.append("\nThe first derivative of `NAME`, forward and backward, over that under `--order 1`:\n\n")
    lines.append("| op | lengths | ratio |\n|---|---|---|\n")
    lines += [f"| {name} | {lengths} | {ratio:.3f} |\n" for name, lengths, ratio in first_derivatives(rounds)]
    return "".join(lines) + _WRONG


_WRONG = """
## Right where PyTorch is not

In PyTorch 2.13.0 the second derivative of `torch.nn.functional.layer_norm` and `batch_norm` is wrong in reverse over
forward mode, as it is in forward over forward mode
([pytorch#196700](https://github.com/pytorch/pytorch/issues/196700),
[pytorch#196699](https://github.com/pytorch/pytorch/issues/196699)). At the points of these issues, in float64:

| | right | PyTorch, reverse over forward | PyTorch, forward over forward | ours, reverse over forward |
|---|---|---|---|---|
| layer norm | 0.774914 | -0.384874 | -0.384874 | 0.774914 |
| batch norm | -0.207030 | -2.132438 | -2.132438 | -0.207030 |

Reverse over reverse and forward over reverse are right in both. Ours has no forward over forward mode, and says so in
an error that names the op. `tests/generated/test_orders.py` holds ours to this.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orders", description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page to write; printed if not given")
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = page(given.rounds)
    print(made) if given.out is None else given.out.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
