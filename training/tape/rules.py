"""The rules of the tape: each a forward and a backward of the package `generated`, or several one after the other.

What changes a shape is put together from a handful of them: a reshape merges axes and splits them again, a transpose
swaps two, broadcasting repeats an axis, and any indexing takes elements at places. Nothing here differentiates.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

import generated

Shape = tuple[int, ...]
Backward = Callable[[Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Rule:
    """An op of `generated`: what it computes, and the gradients of what it read."""

    name: str
    forward: Callable[..., tuple[Tensor, Any]]
    backward: Callable[..., Any]

    def apply(self, *inputs: Any) -> tuple[Tensor, Backward]:
        """The output, and the way back from its gradient to one of each real input."""
        y, saved = self.forward(*inputs)

        def back(dy: Tensor) -> tuple[Tensor, ...]:
            gradients = self.backward(dy, *saved)
            return (gradients,) if isinstance(gradients, Tensor) else tuple(gradients)

        return y, back


def rule(name: str) -> Rule:
    """The rule of that op."""
    return Rule(name, getattr(generated, f"{name}_forward"), getattr(generated, f"{name}_backward"))


RULES = {
    name: rule(name)
    for name in (
        *("add", "sub", "mul", "div", "pow", "pow_elementwise", "neg"),
        *("exp", "log", "tanh", "relu", "sigmoid", "softmax"),
        *("dot", "matvec", "matmul", "batched_matmul"),
        *("sum", "mean", "amax", "sum_all", "mean_all"),
        *("transpose", "swap_axes", "merge_axes", "split_axis", "repeat_axis", "repeat_number", "take_elements"),
    )
}


@dataclass(frozen=True)
class Stage:
    """One rule of several, and what it is given beside the tensor."""

    rule: Rule
    given: tuple[Any, ...] = ()


Stages = list[Stage]


def stage(name: str, *given: Any) -> Stage:
    """The stage of that rule."""
    return Stage(RULES[name], given)


def run(stages: Stages, x: Tensor) -> tuple[Tensor, Backward]:
    """All stages one after the other, and the way back through them."""
    backs: list[Backward] = []
    for each in stages:
        x, back = each.rule.apply(x, *each.given)
        backs.append(back)

    def back_through(dy: Tensor) -> tuple[Tensor, ...]:
        for back in reversed(backs):
            (dy,) = back(dy)
        return (dy,)

    return x, back_through


# --- shapes ---------------------------------------------------------------------------------------------------


def reshaping(old: Shape, new: Shape) -> Stages:
    """Merge the axes that differ into one, and split that again."""
    if old == new:
        return []
    if math.prod(old) == 0:
        raise ValueError(f"reshape: a tensor of shape {list(old)} has no elements; the tape wants at least one")
    if not old:
        return [stage("repeat_number", 1), *reshaping((1,), new)]
    if not new:
        return [*reshaping(old, (1,)), stage("sum_all")]
    same = 0
    while same < min(len(old), len(new)) - 1 and old[same] == new[same]:
        same += 1
    merged = [stage("merge_axes")] * (len(old) - same - 1)
    # Each split cuts one axis off the front; what is left stays last, where the next cut is made.
    cuts = [stage("split_axis", math.prod(new[k + 1 :])) for k in range(same, len(new) - 1)]
    return merged + cuts


def swapping(shape: Shape, one: int, other: int) -> tuple[Stages, Shape]:
    """Exchange two axes; the shape that results."""
    i, j = sorted((one, other))
    if i == j:
        return [], shape
    after = (*shape[:i], shape[j], *shape[i + 1 : j], shape[i], *shape[j + 1 :])
    if (i, j) == (len(shape) - 2, len(shape) - 1):
        return [stage("transpose")], after
    p, k, q = (math.prod(part) for part in (shape[:i], shape[i + 1 : j], shape[j + 1 :]))
    swapped = (p, shape[j], k, shape[i], q)
    five = (p, shape[i], k, shape[j], q)
    return [*reshaping(shape, five), stage("swap_axes"), *reshaping(swapped, after)], after


def permuting(shape: Shape, order: Sequence[int]) -> Stages:
    """Axes in another order, an exchange at a time: axis k of the result is axis `order[k]`."""
    stages: Stages = []
    here = list(range(len(shape)))
    for k, wanted in enumerate(order):
        at = here.index(wanted)
        more, shape = swapping(shape, k, at)
        here[k], here[at] = here[at], here[k]
        stages += more
    return stages


def broadcasting(shape: Shape, wanted: Shape) -> Stages:
    """Repeat along every axis that is missing or 1 long where `wanted` has more; neighbours are repeated as one."""
    if shape == wanted:
        return []
    if not shape:
        return [stage("repeat_number", math.prod(wanted)), *reshaping((math.prod(wanted),), wanted)]
    padded = (1,) * (len(wanted) - len(shape)) + shape
    stages: Stages = []
    now, shaped = padded, shape
    for grows, axes in groupby(range(len(wanted)), key=lambda k: now[k] != wanted[k]):
        if grows:
            first, *rest = axes
            last = rest[-1] if rest else first
            before, after = math.prod(now[:first]), math.prod(now[last + 1 :])
            times = math.prod(wanted[first : last + 1])
            grown = (*now[:first], *wanted[first : last + 1], *now[last + 1 :])
            stages += [*reshaping(shaped, (before, after)), stage("repeat_axis", times)]
            shaped, now = (before, times, after), grown
    return [*stages, *reshaping(shaped, wanted)]


def reducing(name: str, shape: Shape, over: Sequence[int], keepdim: bool) -> Stages:
    """Sum, mean or maximum: the axes that go are put last and made one."""
    kept = [k for k in range(len(shape)) if k not in over]
    lengths = tuple(shape[k] for k in kept)
    result = tuple(1 if k in over else length for k, length in enumerate(shape)) if keepdim else lengths
    if not over:
        return []
    if not kept and name != "amax":
        return [stage(f"{name}_all"), *reshaping((), result)]
    gone = math.prod(shape[k] for k in over)
    ordered = tuple(shape[k] for k in (*kept, *over))
    ready = [*permuting(shape, (*kept, *over)), *reshaping(ordered, (*lengths, gone))]
    return [*ready, stage(name), *reshaping(lengths, result)]


def taking(shape: Shape, key: Any) -> tuple[Stages, Shape]:
    """Whatever PyTorch understands as an index: it says which places, and they are taken."""
    places = torch.arange(math.prod(shape)).reshape(shape)[key]
    return [*reshaping(shape, (math.prod(shape),)), stage("take_elements", places)], tuple(places.shape)
