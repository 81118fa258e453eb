"""Right backwards, rewritten as people write them: in another order, in float32, in place, by views, by blocks of rows.

`python -m tests.verify.rewritten` has the judge acquit all of them, and ends with 1 where it does not. `--ops` and
`--rewritings` choose some.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from derive.catalogue import find
from derive.ir.equations import Op
from derive.output.live import build
from derive.verify.cases import Call, reference
from derive.verify.judge import Verdict, judge
from derive.verify.subjects import of_backward

Backward = Callable[..., Any]

OPS = (
    *("tanh", "gelu", "silu", "softmax", "log_softmax", "layernorm", "rmsnorm", "linear", "add_bias", "swiglu"),
    *("mse", "softmax_cross_entropy", "embedding", "batchnorm", "l2_normalize", "attention"),
)


def derived(op: Op) -> Backward:
    """`backward(*cotangents, *inputs)` by the op's derived functions."""
    live = build(op, proven=False)

    def backward(*given: Any) -> tuple[Tensor, ...]:
        cotangents, inputs = given[: len(op.outputs)], given[len(op.outputs) :]
        *_, saved = live.forward(*inputs)
        found = live.backward(*cotangents, *saved)
        return tuple(found) if isinstance(found, tuple) else (found,)

    return backward


def _as_it_is(op: Op, backward: Backward) -> Backward:
    return backward


def _in_another_order(op: Op, backward: Backward) -> Backward:
    """Every second element of the cotangent first, then the others: the gradient is linear in it."""

    def split(t: Tensor) -> tuple[Tensor, Tensor]:
        first = (torch.arange(t.numel()) % 2 == 0).reshape(t.shape)
        return torch.where(first, t, 0), torch.where(first, 0, t)

    def other(*given: Any) -> tuple[Tensor, ...]:
        cotangents, inputs = given[: len(op.outputs)], given[len(op.outputs) :]
        halves = zip(*map(split, cotangents), strict=True)
        one, two = (backward(*half, *inputs) for half in halves)
        return tuple(a + b for a, b in zip(two, one, strict=True))

    return other


def _by_autograd(op: Op, backward: Backward) -> Backward:
    """Every intermediate by the chain rule, none by the closed form."""

    def other(*given: Any) -> tuple[Tensor, ...]:
        inputs = given[len(op.outputs) :]
        tensors = {o.name: t for o, t in zip(op.operands, inputs, strict=True) if o.is_tensor}
        numbers = {o.name: v for o, v in zip(op.operands, inputs, strict=True) if not o.is_tensor}
        leading = next((_leading(op, o.axes, tensors[o.name]) for o in op.operands if _packed(o.axes)), ())
        return tuple(reference(Call(op, leading, tensors, numbers, given[: len(op.outputs)]))[1].values())

    return other


def _packed(axes: Sequence[Any]) -> bool:
    return any(a.is_pack for a in axes)


def _leading(op: Op, axes: Sequence[Any], t: Tensor) -> tuple[int, ...]:
    before = [a.is_pack for a in axes].index(True)
    return tuple(t.shape[before : t.dim() - (len(axes) - before - 1)])


def _in_float32(op: Op, backward: Backward) -> Backward:
    """As a kernel does: float32 inside, and results in the dtype of what they are gradients of."""

    def other(*given: Any) -> tuple[Tensor, ...]:
        real = [t.dtype for t in given if isinstance(t, Tensor) and t.is_floating_point()]
        found = backward(*(t.float() if isinstance(t, Tensor) and t.is_floating_point() else t for t in given))
        return tuple(g.to(real[-1]) for g in found)

    return other


def _without_float64(op: Op, backward: Backward) -> Backward:
    inside = _in_float32(op, backward)

    def other(*given: Any) -> tuple[Tensor, ...]:
        if any(isinstance(t, Tensor) and t.dtype == torch.float64 for t in given):
            raise TypeError("expected float32, float16 or bfloat16")
        return inside(*given)

    return other


def _in_place(op: Op, backward: Backward) -> Backward:
    """Over copies of what it is given, added to gradients that start as zeros."""

    def other(*given: Any) -> tuple[Tensor, ...]:
        mine = [t.clone(memory_format=torch.contiguous_format) if isinstance(t, Tensor) else t for t in given]
        found = backward(*mine)
        out = tuple(torch.zeros_like(g) for g in found)
        for total, g in zip(out, found, strict=True):
            total.add_(g)
        for t in mine:  # what was a copy is scratch memory
            if isinstance(t, Tensor):
                t.zero_()
        return out

    return other


def _by_views(op: Op, backward: Backward) -> Backward:
    """Inputs and results lie the other way round in memory."""

    def turned(t: Any) -> Any:
        if not isinstance(t, Tensor):
            return t
        order = tuple(reversed(range(t.dim())))
        return t.permute(order).contiguous().permute(order)

    return lambda *given: tuple(turned(g) for g in backward(*map(turned, given)))


def _in_blocks_of_rows(op: Op, backward: Backward) -> Backward | None:
    """Two rows at a time, the gradients of parameters summed; None of an op whose rows are not alone."""
    outputs = [next(e for e in op.equations if e.name == name) for name in op.outputs]
    rows_are_alone = all(not _packed(e.over) for e in op.equations) and all(_packed(e.axes) for e in outputs)
    if not rows_are_alone or any(_packed(o.axes) and not o.axes[0].is_pack for o in op.operands):
        return None
    packed = [True] * len(op.outputs) + [_packed(o.axes) for o in op.operands]
    widths = [len(e.axes) - 1 for e in outputs] + [len(o.axes) - 1 for o in op.operands]

    def other(*given: Any) -> tuple[Tensor, ...]:
        lead = given[0].shape[: given[0].dim() - widths[0]]
        flat = [
            t.reshape(-1, *t.shape[len(lead) :]) if p else t for t, p in zip(given, packed, strict=True)
        ]
        count = flat[0].shape[0]
        parts = [
            backward(*(t[k : k + 2] if p else t for t, p in zip(flat, packed, strict=True)))
            for k in range(0, max(count, 1), 2)
        ]
        out = []
        for gradients, operand in zip(zip(*parts, strict=True), op.differentiable, strict=True):
            if _packed(operand.axes):
                out.append(torch.cat(gradients).reshape(*lead, *gradients[0].shape[1:]))
            else:
                out.append(sum(g.double() for g in gradients).to(gradients[0].dtype))
        return tuple(out)

    return other


REWRITINGS: dict[str, Callable[[Op, Backward], Backward | None]] = {
    "as it is": _as_it_is,
    "in another order": _in_another_order,
    "by autograd": _by_autograd,
    "in float32": _in_float32,
    "without float64": _without_float64,
    "in place": _in_place,
    "by views": _by_views,
    "in blocks of rows": _in_blocks_of_rows,
}


def rewritten(
    ops: Sequence[str] = OPS, rewritings: Sequence[str] = tuple(REWRITINGS)
) -> Iterator[tuple[Op, str, Backward]]:
    """Ops, the name of a rewriting, and the backward that it makes, of all that it makes one of."""
    for name in ops:
        op = find(name)
        right = derived(op)
        for rewriting in rewritings:
            found = REWRITINGS[rewriting](op, right)
            if found is not None:
                yield op, rewriting, found


def verdict(op: Op, backward: Backward) -> Verdict:
    """What the judge says of a backward that takes all of the op's inputs in order."""
    return judge(op, of_backward(backward, op))


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all, and print each verdict. 1 where one is not acquitted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", nargs="*", default=list(OPS))
    parser.add_argument("--rewritings", nargs="*", default=list(REWRITINGS))
    given = parser.parse_args(arguments)
    right, total = 0, 0
    for op, rewriting, backward in rewritten(given.ops, given.rewritings):
        found = verdict(op, backward)
        right, total = right + found.right, total + 1
        said = ", ".join([found.word, *(f.text for f in found.findings)])
        print(f"{op.name}, {rewriting}: {said}{'' if found.right else f' {found.where} ({found.error})'}", flush=True)
    print(f"{right} of {total} acquitted")
    return int(right < total)


if __name__ == "__main__":
    sys.exit(main())
