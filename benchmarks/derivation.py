"""How long derivation takes: the catalogue op by op, and chains of 5, 10, 20 and 40 layers.

`python -m benchmarks.derivation` prints two tables. A chain's time should grow as its number of equations does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import fsum

from rich.console import Console
from rich.table import Table

from derive.catalogue import catalogue
from derive.emit import render
from derive.ir.equations import Op
from derive.ir.terms.axes import PACK, Axis
from derive.notation import mean, rsqrt, sum, tanh, tensor
from derive.notation.annotations import Kind
from derive.notation.handles import Frame
from derive.notation.spec import OpCall, op
from derive.pipeline import derive_op

LAYERS = (5, 10, 20, 40)


def perceptron(layers: int) -> Op:
    """Linear and tanh, again and again."""
    widths = [Axis(f"a{k}") for k in range(layers + 1)]

    def body(f: Frame, x, **weights):
        for k in range(layers):
            i, o = widths[k], widths[k + 1]
            below = x if k == 0 else getattr(f, f"h{k}")
            getattr(f, f"z{k + 1}")[PACK, o] = (
                sum(below[PACK, i] * weights[f"w{k}"][i, o], over=i) + weights[f"b{k}"][o]
            )
            getattr(f, f"h{k + 1}")[PACK, o] = tanh(getattr(f, f"z{k + 1}")[PACK, o])
        return getattr(f, f"h{layers}")

    kinds: dict[str, Kind] = {"x": tensor[..., widths[0]]}
    for k in range(layers):
        kinds |= {f"w{k}": tensor[widths[k], widths[k + 1]], f"b{k}": tensor[widths[k + 1]]}
    return _traced("perceptron", body, kinds)


def norms(layers: int) -> Op:
    """Layer norms with a gain, one on the other, with no matrix product between them."""
    d = Axis("d")

    def body(f: Frame, x, **gains):
        for k in range(layers):
            below = x if k == 0 else getattr(f, f"h{k}")
            getattr(f, f"mu{k}")[PACK] = mean(below[PACK, d], over=d)
            mu = getattr(f, f"mu{k}")[PACK]
            getattr(f, f"var{k}")[PACK] = mean((below[PACK, d] - mu) ** 2, over=d)
            getattr(f, f"rstd{k}")[PACK] = rsqrt(getattr(f, f"var{k}")[PACK] + 1)
            getattr(f, f"xhat{k}")[PACK, d] = (below[PACK, d] - mu) * getattr(f, f"rstd{k}")[PACK]
            getattr(f, f"h{k + 1}")[PACK, d] = gains[f"g{k}"][d] * getattr(f, f"xhat{k}")[PACK, d]
        return getattr(f, f"h{layers}")

    return _traced("norms", body, {"x": tensor[..., d]} | {f"g{k}": tensor[d] for k in range(layers)})


def residuals(layers: int) -> Op:
    """`h + tanh(h)`, again and again: pointwise all the way."""

    def body(f: Frame, x):
        for k in range(layers):
            below = x if k == 0 else getattr(f, f"h{k}")
            getattr(f, f"h{k + 1}")[PACK] = below[PACK] + tanh(below[PACK])
        return getattr(f, f"h{layers}")

    return _traced("residuals", body, {"x": tensor[...]})


def _traced(name: str, body: Callable, kinds: dict[str, Kind]) -> Op:
    """An op from a function of keyword inputs, as `@op` reads one from a signature."""
    scope: dict = {"body": body, **{f"kind_{k}": v for k, v in kinds.items()}}
    typed = ", ".join(f"{k}: kind_{k}" for k in kinds)
    passed = ", ".join(f"{k}={k}" for k in kinds)
    exec(f"def {name}(f, {typed}):\n    return body(f, {passed})\n", scope)  # the signature is the op's
    made: OpCall = op(scope[name])
    return made.op


def seconds(made: Op) -> tuple[float, int]:
    """Seconds to derive and render one op, and its number of equations."""
    start = time.perf_counter()
    derivation = derive_op(made)
    render(derivation)
    return time.perf_counter() - start, len(derivation.named.equations)


def main() -> None:
    """Print both tables."""
    console = Console()
    chains = Table("chain", "layers", "equations", "seconds", "ms an equation")
    for family in (perceptron, norms, residuals):
        for layers in LAYERS:
            took, equations = seconds(family(layers))
            each = f"{1000 * took / equations:.0f}"
            chains.add_row(family.__name__, str(layers), str(equations), f"{took:.2f}", each)
    console.print(chains)
    times = sorted(((seconds(o)[0], o.name) for o in catalogue()), reverse=True)
    slow = Table("op", "seconds", title=f"{len(times)} ops in {fsum(took for took, _ in times):.1f} s; the slowest ten")
    for took, name in times[:10]:
        slow.add_row(name, f"{took:.2f}")
    console.print(slow)


if __name__ == "__main__":
    main()
