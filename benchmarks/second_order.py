"""`python -m benchmarks.second_order`: steps whose loss is made of derivatives, each way to run them, by turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor
from typer import Option

from benchmarks import penalty as spec
from benchmarks.clock import Times, by_turns
from benchmarks.kernels import NativePackage, native_package
from benchmarks.memory import distinct_bytes, saved_by_tape
from benchmarks.penalty import gradient_penalty
from benchmarks.ways import AUTOGRAD, agree, use_threads
from derive import build
from generated import layernorm, linear, silu
from training.pinn.loop import Recipe, derived
from training.pinn.network import Network, initialise
from training.pinn.problem import draw
from training.pinn.twin import autograd_loss

Loss = Callable[..., Tensor]
WEIGHT, EPS = 10.0, 1e-5
PRIMITIVES, OWN, OPS, SPEC, KERNELS = (
    AUTOGRAD,  # over primitives
    "autograd over PyTorch's own ops",
    "autograd over derived ops",
    "one spec",
    "one spec, kernels",
)


@dataclass(frozen=True)
class Row:
    """A step: its ways, each a call that gives a loss and gradients, and the bytes that each keeps for its backward."""

    title: str
    ways: dict[str, Callable[[], Any]]
    saved: dict[str, int]


def normed(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """A layer norm as a person writes it of primitives."""
    c = x - x.mean(-1, keepdim=True)
    return gamma * (c * torch.rsqrt((c * c).mean(-1, keepdim=True) + EPS)) + beta


def penalty(affine: Callable[..., Tensor], norm: Callable[..., Tensor], activation: Callable[[Tensor], Tensor]) -> Loss:
    """The critic's loss by autograd's double backward, of these functions."""

    def loss(x: Tensor, side: Tensor, *p: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        a = activation(norm(affine(x, p[0], p[1]), p[2], p[3]))
        a = activation(norm(affine(a, p[4], p[5]), p[6], p[7]))
        u = a @ p[8]
        (g,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        return (side * u).mean() + WEIGHT * (g.square().sum(1).sqrt() - 1).square().mean()

    return loss


FORMS: dict[str, Loss] = {
    PRIMITIVES: penalty(lambda x, w, b: x @ w + b, normed, lambda z: z * torch.sigmoid(z)),
    OWN: penalty(lambda x, w, b: x @ w + b, lambda x, g, b: F.layer_norm(x, g.shape, g, b, EPS), F.silu),
    OPS: penalty(linear, layernorm, silu),
}


def by_autograd(loss: Loss, given: tuple[Any, ...], parameters: tuple[Tensor, ...]) -> Callable[[], Any]:
    """A step by a loss whose gradients autograd finds."""
    leaves = [p.detach().clone().requires_grad_() for p in parameters]

    def step() -> Any:
        found = loss(*given, *leaves)
        return (found,), torch.autograd.grad(found, leaves)

    return step


def by_pair(functions: Any, args: tuple[Any, ...]) -> Callable[[], Any]:
    """A step by a derived forward and backward."""
    one = torch.ones(())

    def step() -> Any:
        with torch.no_grad():
            loss, saved = functions[0](*args)
            return (loss,), functions[1](one, *saved)

    return step


def penalty_row(batch: int, native: Any) -> Row:
    """A gradient-penalty step of a critic 64-128-128-1 with layer norms."""
    g = torch.Generator().manual_seed(0)
    x, side = torch.randn(batch, 64, generator=g), torch.randn(batch, generator=g).sign()
    shapes = ((64, 128), (128,), (128,), (128,), (128, 128), (128,), (128,), (128,), (128,))
    parameters = tuple(torch.randn(s, generator=g) / s[0] ** 0.5 for s in shapes)
    live = build(gradient_penalty, proven=False)  # held against autograd before anything is timed
    args = (x, side, *parameters, WEIGHT)
    ways = {name: by_autograd(loss, (x, side), parameters) for name, loss in FORMS.items()}
    ways[SPEC] = by_pair((live.forward, live.backward), args)
    leaves = [p.clone().requires_grad_() for p in parameters]
    saved = {name: saved_by_tape(loss, (x, side, *leaves)) for name, loss in FORMS.items()}
    saved[SPEC] = distinct_bytes(live.forward(*args)[1])
    if (found := native.functions("gradient_penalty")) is not None:
        ways[KERNELS] = by_pair(found.pair, args)
        saved[KERNELS] = distinct_bytes(found.pair[0](*args)[1])
    return Row(f"gradient penalty, batch {batch}", ways, saved)


def residual_row(batch: int) -> Row:
    """A step of training.pinn without its optimizer."""
    g = torch.Generator().manual_seed(0)
    points, network = draw(batch, Recipe.known, g), initialise(32, g)

    def loss(*parameters: Tensor) -> Tensor:
        return autograd_loss(Network(*parameters), points, Recipe.viscosity)

    live = derived()
    args = (*points, *network, Recipe.viscosity)
    leaves = [p.clone().requires_grad_() for p in network]
    return Row(
        f"Burgers' residual, batch {batch}",
        {
            PRIMITIVES: by_autograd(loss, (), tuple(network)),
            SPEC: by_pair((live.forward, live.backward), args),
        },
        {PRIMITIVES: saved_by_tape(loss, leaves), SPEC: distinct_bytes(live.forward(*args)[1])},
    )


def table(found: list[tuple[Row, dict[str, Times]]]) -> Table:
    """Milliseconds, the ratio to autograd over primitives, and bytes kept."""
    out = Table("step", "way", "ms, median", "ms, best", "ratio", "kept, kB")
    for row, times in found:
        for name, taken in times.items():
            ratio = f"{taken.over(times[PRIMITIVES]):.2f}"
            kept = f"{row.saved[name] / 1000:,.0f}"
            out.add_row(row.title, name, f"{1000 * taken.median:.2f}", f"{1000 * taken.best:.2f}", ratio, kept)
    return out


def main(
    seconds: Annotated[float, Option(help="Seconds a step, all ways by turns.", min=0.01)] = 10.0,
    kernels: Annotated[bool, Option("--kernels", help="The C kernels of the penalty too, some minutes.")] = False,
) -> None:
    """Time gradient penalties and residuals of differential equations: median ratios over rounds by turns.

    One thread, whose own time is counted, so that a busy machine counts for nothing.
    """
    use_threads(1)
    asked = native_package([gradient_penalty.op], Path(spec.__file__)) if kernels else nullcontext(NativePackage())
    with asked as native:
        if native.missing:
            typer.echo(f"no row of kernels: {native.missing}", err=True)
        rows = [penalty_row(256, native), residual_row(256), residual_row(2048)]
        for row in rows:
            agree({name: way() for name, way in row.ways.items()})
        Console(width=120).print(table([(row, by_turns(row.ways, seconds, clock=time.process_time)) for row in rows]))


if __name__ == "__main__":
    typer.run(main)
