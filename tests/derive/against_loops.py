"""The generated PyTorch of a spec held against loops over its equations, and as text."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from derive.ir.equations import Op
from derive.ir.terms.axes import Axis
from derive.ir.terms.indices import Merge
from derive.pipeline import derivation_of
from tests.derive.evaluate import World, backward, forward, inputs, with_cotangents
from tests.derive.live import as_tuple, module


def named(rows: Sequence) -> list[str]:
    """A name for each row of a table whose first column is a spec."""
    return [f"{row[0].op.name}-{k}" for k, row in enumerate(rows)]


def _shape(axes_: Sequence[object], sizes: dict[str, int], pack: tuple[int, ...]) -> tuple[int, ...]:
    """The torch shape of a tensor over these axes; the loops see `...` as one axis, torch as `pack`."""
    out: list[int] = []
    for a in axes_:
        if isinstance(a, Merge):
            out.append(math.prod(_shape(a.args, sizes, pack)))
        else:
            assert isinstance(a, Axis)
            out += pack if a.is_pack else [sizes[a.base]]
    return tuple(out)


def _operands(op_: Op, world: World, pack: tuple[int, ...]) -> dict[str, torch.Tensor]:
    tensors = {o.name: o for o in op_.operands if o.is_tensor}
    return {
        name: torch.from_numpy(np.array(world.tensors[name])).reshape(_shape(o.axes, dict(world.sizes), pack))
        for name, o in tensors.items()
    }


def compare(op_: Op, sizes: dict[str, int], pack: tuple[int, ...] = (), seed: int = 0, strides: str = "plain") -> None:
    """The generated functions on random operands against the loops."""
    sizes = {**sizes, "...": math.prod(pack)}
    steps, live = derivation_of(op_).steps, module(op_)
    rng = np.random.default_rng(seed)
    start = inputs(op_, sizes, rng)
    world, cotangents = with_cotangents(steps, forward(steps.op, start), rng)
    world = backward(steps, world)
    given = {name: _restrided(value, strides) for name, value in _operands(op_, world, pack).items()}
    before = {name: value.clone() for name, value in given.items()}
    *outputs, saved = getattr(live, f"{op_.name}_forward")(**given, **start.scalars)
    for name, output in zip(op_.outputs, outputs, strict=True):
        expected = world.tensors[name]
        equation = op_.equation(name)
        assert equation is not None
        assert tuple(output.shape) == _shape(equation.index, dict(world.sizes), pack), name
        np.testing.assert_allclose(
            output.numpy().reshape(expected.shape), expected, rtol=1e-10, atol=1e-12, err_msg=name
        )
    upstream = [
        _restrided(torch.from_numpy(cotangents[o]).reshape(y.shape), strides)
        for o, y in zip(op_.outputs, outputs, strict=True)
    ]
    gradients = as_tuple(getattr(live, f"{op_.name}_backward")(*upstream, *saved))
    for operand, gradient in zip(op_.differentiable, gradients, strict=True):
        target = next(a.target.name for a in steps.adjoints if a.of == operand.name)
        expected = world.tensors[target]
        assert gradient.shape == given[operand.name].shape, target
        np.testing.assert_allclose(
            gradient.numpy().reshape(expected.shape), expected, rtol=1e-9, atol=1e-11, err_msg=target
        )
    for name, value in given.items():
        assert torch.equal(value, before[name]), f"{name} was changed"


def _restrided(value: torch.Tensor, strides: str) -> torch.Tensor:
    """The same numbers with other strides."""
    if strides == "plain" or value.dim() == 0:
        return value
    return value.movedim(0, -1).contiguous().movedim(-1, 0)


def code_of(op_: Op) -> str:
    """The forward and the backward, comments left out."""
    text = Path(module(op_).__file__ or "").read_text(encoding="utf-8")
    text = text[text.index("@in_float32") : text.index(".autograd.Function")]
    return re.sub(r"  # .*", "", text)
