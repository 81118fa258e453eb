"""`python -m benchmarks.calls`: what an op's differentiable function costs beside its calls of PyTorch or its kernels.

Forward and backward on tiny tensors, over a bare `torch.autograd.Function` of the same calls, in microseconds; then
what falls away with each layer between. Each number is the least of many rounds, which the ways take by turns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer
from typer import Option

from benchmarks.clock import by_turns
from benchmarks.kernels import native_package
from benchmarks.rows import Row, carried, row
from derive.catalogue import find

OPS = ["silu", "softmax", "linear", "layernorm", "softmax_cross_entropy"]
"""Of one input and of several, with a number, with an index."""

LENGTH = 4
"""Of every axis: so small that what is measured is the calling."""


def _as_it_is(*_: Any, **__: Any) -> Callable[..., Any]:
    return lambda function: function


def _unwrapped(function: Any) -> Any:
    function.__wrapped__ = function
    return function


def _all(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


LAYERS: Mapping[str, Mapping[str, Any]] = {
    "dtypes": {"in_float32": _unwrapped, "kernel_in_float32": _unwrapped},
    "shapes": {"check_shapes": lambda *_: None},
    "indices": {"explains_index": _as_it_is},
    "keeping": {
        "keep_in": lambda ctx, saved, operands: ctx.save_for_backward(*saved),
        "kept_in": lambda ctx: ctx.saved_tensors,
        "gradients_of": lambda ctx, backward, cotangents, kept, **needs: _all(backward(*cotangents, *kept, **needs)),
    },
    "orders": {
        "is_transformed": lambda: False, "edges_alone": lambda found, *_: found, "twice_differentiable": _as_it_is,
        "once_differentiable": _as_it_is,
    },
}  # fmt: skip
"""What stands between a caller and the calls, by its names in a module, and what does nothing instead."""


def main(
    ops: Annotated[list[str] | None, typer.Argument(metavar="[OPS]...")] = None,
    seconds: Annotated[float, Option(help="Seconds an op.", min=0.01)] = 4.0,
) -> None:
    """Print a row an op: the calls alone, what the function adds to them, and what falls away with each layer."""
    torch.set_num_threads(1)
    wanted = [find(name) for name in ops or OPS]
    print(f"{'microseconds':<32}{'bare':>8}{'added':>8}" + "".join(f"{name:>10}" for name in LAYERS))
    with native_package(wanted) as native:
        for kind, package in (("", import_module("generated")), (", kernels", native.module)):
            for op in wanted if package is not None else ():
                tiny = row(op, "small", given={a.base: LENGTH for a in carried(op)})
                least = {name: 1e6 * t.best for name, t in by_turns(_ways(package, tiny), seconds, most=10**6).items()}
                gone = "".join(f"{least['all'] - least[name]:10.1f}" for name in LAYERS)
                print(f"{op.name + kind:<32}{least['bare']:8.1f}{least['all'] - least['bare']:8.1f}{gone}")


def _ways(package: ModuleType, tiny: Row) -> dict[str, Callable[[], Any]]:
    """Forward and backward: by the function as it is, by a bare one, and by one without each of the layers."""
    leaves = [t.requires_grad_(w) for t, w in zip((t.clone() for t in tiny.args), tiny.wanted, strict=True)]
    asked = [t for t in leaves if t.requires_grad]
    module = import_module(f"{package.__name__}.{tiny.op.name}")
    numbers = [o.default for o in tiny.op.operands if o.kind == "number"]

    def way(function: Callable[..., Any]) -> Callable[[], Any]:
        out = function(*leaves, *numbers)
        first = out[0] if isinstance(out, tuple) else out
        cotangent = torch.ones_like(first)

        def call() -> Any:
            out = function(*leaves, *numbers)
            return torch.autograd.grad(out[0] if isinstance(out, tuple) else out, asked, cotangent)

        return call

    own = {"all": getattr(module, tiny.op.name), "bare": _bare(module, tiny)}
    own |= {name: getattr(_without(module, instead), tiny.op.name) for name, instead in LAYERS.items()}
    return {name: way(function) for name, function in own.items()}


def _bare(module: ModuleType, tiny: Row) -> Callable[..., Any]:
    """An autograd function of the module's own forward and backward, or of its kernels, and nothing else."""
    nothing = _without(module, {name: f for layer in LAYERS.values() for name, f in layer.items()})
    forward, backward = (getattr(nothing, f"{tiny.op.name}_{part}") for part in ("forward", "backward"))
    without = len(tiny.op.operands) - sum(tiny.wanted)
    spare = (None,) * without  # gradients of what has none, behind those that are

    class Bare(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            out, saved = forward(*args)
            ctx.save_for_backward(*saved)
            return out

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            found = backward(*cotangents, *ctx.saved_tensors)
            return *_all(found), *spare

    return Bare.apply


def _without(module: ModuleType, instead: Mapping[str, Any]) -> ModuleType:
    """The module loaded once more, with other functions under these names of the package."""
    copy, spec = ModuleType(module.__name__), module.__spec__
    assert spec is not None and spec.origin is not None
    homes = [import_module(f"{module.__package__}.{name}") for name in ("_support", "_derivatives", "_native")
             if find_spec(f"{module.__package__}.{name}")]  # fmt: skip
    with contextlib.ExitStack() as stack:
        for home in homes:
            for name in instead.keys() & vars(home).keys():
                stack.enter_context(patch.object(home, name, instead[name]))
        copy.__package__ = module.__package__
        text = Path(spec.origin).read_text()
        exec(compile(text.partition("\nregister(")[0], spec.origin, "exec"), vars(copy))
    return copy


if __name__ == "__main__":
    typer.run(main)
