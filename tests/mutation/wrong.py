"""Wrong candidates for judge: right backwards with one mistake each, of kinds that it has a name for, and of others.

A mistake is made in the syntax tree of a generated backward (`tests.mutation.mutants`), in what the forward hands to
it, or in what comes out of it. The classes of error that are true of it are known from how it was made.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import permutations
from types import ModuleType
from zlib import crc32

import torch
from torch import Tensor

from derive.emit import render
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from derive.verify.battery import BATTERY
from derive.verify.cases import Call
from derive.verify.compare import Answer, Subject, disagreements
from derive.verify.subjects import of_functions
from tests.mutation.mutants import mutants
from tests.mutation.trial import loaded

Gradients = dict[str, Tensor | None]
Right = Callable[[Call], Gradients]


@dataclass(frozen=True)
class Wrong:
    """A wrong candidate: what was done, and which classes of error are true of it: none where judge has no name."""

    name: str
    classes: frozenset[str]
    subject: Subject


def right_of(op: Op) -> Subject:
    """The generated pair of an op."""
    module = loaded(op.name, render(derivation_of(op), unproven="for a trial"))
    return _of(op, module)


def _of(op: Op, module: ModuleType) -> Subject:
    return of_functions(vars(module)[f"{op.name}_forward"], vars(module)[f"{op.name}_backward"])


def _alone(subject: Subject) -> Right:
    return lambda call: dict(subject(call).gradients)


def _candidate(right: Right, change: Callable[[Call, Gradients], Mapping[str, Tensor | None]]) -> Subject:
    return lambda call: Answer(change(call, right(call)))


def wrong(op: Op, named: int, others: int) -> Iterator[Wrong]:
    """Of an op so many candidates with a mistake that has a name, and so many with another, some of every kind."""
    right, ordinary = _alone(right_of(op)), BATTERY[0].make(op)
    assert ordinary is not None, f"{op.name} has no ordinary call"
    made = [*_in_the_backward(op), *_in_the_forward(op)]
    written = _spread(op, [w for w in made if not any(d.kind == "raised" for d in disagreements(ordinary, w.subject))])
    after = _spread(op, list(_named(op, right)))
    first = [w for pair in zip(written, after, strict=False) for w in pair]
    rest = [w for w in (*written, *after) if w not in first]
    yield from [w for w in (*first, *rest) if w.classes][:named]
    yield from _spread(op, [*_without_name(op, right), *(w for w in written if not w.classes)])[:others]


def _spread(op: Op, made: list[Wrong]) -> list[Wrong]:
    """In an order that is another one for every op, kinds in turn."""
    shuffled = sorted(made, key=lambda w: crc32(f"{op.name} {w.name}".encode()))
    seen: dict[str, int] = {}
    turn = {}
    for w in shuffled:
        kind = w.name.split(":")[0]
        turn[w.name] = seen[kind] = seen.get(kind, -1) + 1
    return sorted(shuffled, key=lambda w: turn[w.name])


# --- in the code -----------------------------------------------------------------------------------------------------

_LESS = ("missing term", "missing factor", "missing scale", "missing gradient", "held constant", "missing mask")
_CLASSES = {
    "sign": {"wrong sign"},
    "dropped term": {*_LESS, "overwritten instead of accumulated"},
    "dropped factor": {*_LESS},
    "wrong dim": {"wrong axis", "leading axes", "raises", "wrong scale", "missing term"},
    "keepdim": {"wrong axis", "leading axes", "raises"},
    "swapped operands": {"wrong sign", "wrong mask", "wrong axis", "raises", "wrong saved tensor", "missing mask"},
    "= for accumulate": {"overwritten instead of accumulated", "missing term"},
    "function": {"another function's formula"},
    "statistic": {"degrees of freedom", "wrong scale"},
    "epsilon": {"missing term", "degrees of freedom"},
}


def _in_the_backward(op: Op) -> Iterator[Wrong]:
    for mutant in mutants(render(derivation_of(op), unproven="for a trial"), op.name):
        inverted = mutant.kind == "swapped operands" and "/" in mutant.after  # a quotient the other way up has no name
        classes = frozenset() if inverted else frozenset(_CLASSES[mutant.kind])
        kind = "quotient inverted" if inverted else mutant.kind
        yield Wrong(f"{kind}: {mutant.after}", classes, _gradients_of(op, mutant.source))


_FUNCTIONS = {"tanh": "sigmoid", "sigmoid": "tanh", "sin": "cos", "erf": "tanh", "softplus": "relu", "atan": "tanh"}


def _in_the_forward(op: Op) -> Iterator[Wrong]:
    """What a candidate computes again by itself: statistics, exponentials, masks."""
    source = render(derivation_of(op), unproven="for a trial")
    tree = ast.parse(source)
    at = next(k for k, n in enumerate(tree.body) if isinstance(n, ast.FunctionDef) and n.name == f"{op.name}_forward")
    for number, node in enumerate(ast.walk(tree.body[at])):
        for kind, new in _of_forward(node):
            copy = deepcopy(tree)
            old = next(n for k, n in enumerate(ast.walk(copy.body[at])) if k == number)
            _put(copy.body[at], old, new)
            subject = _gradients_of(op, ast.unparse(ast.fix_missing_locations(copy)))
            yield Wrong(f"{kind}: {ast.unparse(new)} in the forward", frozenset(_CLASSES[kind]), subject)


def _of_forward(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in _FUNCTIONS:
            function = ast.Attribute(node.func.value, _FUNCTIONS[name])
            yield "function", ast.Call(function, node.args, node.keywords)
        if name == "mean" and not isinstance(node.func.value, ast.Name):
            less = ast.parse("(t.numel() / m.numel()) / (t.numel() / m.numel() - 1)", mode="eval").body
            yield "statistic", ast.BinOp(node, ast.Mult(), _filled(less, {"t": node.func.value, "m": node}))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_number(node.right):
        yield "epsilon", node.left


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in ("eps", "epsilon"))


def _filled(tree: ast.expr, names: Mapping[str, ast.expr]) -> ast.expr:
    class Filled(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return deepcopy(names[node.id])

    return Filled().visit(tree)


def _put(root: ast.AST, old: ast.AST, new: ast.AST) -> None:
    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    Put().visit(root)


def _gradients_of(op: Op, source: str) -> Subject:
    subject = _of(op, loaded(op.name, source))
    return lambda call: Answer(subject(call).gradients)


# --- in what comes out, with a name ----------------------------------------------------------------------------------


def _named(op: Op, right: Right) -> Iterator[Wrong]:
    names = [o.name for o in op.differentiable]

    def made(text: str, classes: Sequence[str], change: Callable[[Call, Gradients], Gradients]) -> Wrong:
        return Wrong(text, frozenset(classes), _candidate(right, change))

    for a, b in permutations(names, 2):
        if a < b:
            yield made(f"exchanged: d{a} and d{b}", ["gradients exchanged"], _exchanged(a, b))
    for n in names:
        yield made(f"none: d{n}", ["missing gradient"], _of_one(n, lambda call, g: None))
        yield made(f"never written: d{n}", ["missing gradient"], _of_one(n, lambda call, g: torch.zeros_like(g)))
        yield made(f"negative: d{n}", ["wrong sign"], _of_one(n, lambda call, g: -g))
        yield made(f"twice: d{n}", ["missing scale"], _of_one(n, lambda call, g: 2 * g))
        operand = op.operand(n)
        if operand is not None and operand.axes and not operand.axes[-1].is_pack:
            scales = ["missing scale", "wrong scale", "missing factor"]
            yield made(f"mean: d{n} over its last axis", scales, _of_one(n, lambda call, g: g / g.shape[-1]))
            for block in (4, 16):
                text = f"blocks: columns of d{n} behind the last {block}"
                yield made(text, ["last block dropped"], _of_one(n, _whole_columns(block)))
            if len(operand.axes) == 2:
                text = f"blocks: rows of d{n} behind the last 8"
                yield made(text, ["last block dropped"], _of_one(n, _whole_rows))
    if len(op.outputs) > 1:
        for k, output in enumerate(op.outputs):
            yield Wrong(f"ignored: d{output}", frozenset(["cotangent ignored"]), _ignoring(right, k))
    yield Wrong("strides: a cotangent read as if it lay in one piece", frozenset(["strides"]), _contiguous(right))


def _exchanged(a: str, b: str) -> Callable[[Call, Gradients], Gradients]:
    return lambda call, found: {**found, a: found[b], b: found[a]}


def _of_one(
    name: str, change: Callable[[Call, Tensor], Tensor | None]
) -> Callable[[Call, Gradients], Gradients]:
    def changed(call: Call, found: Gradients) -> Gradients:
        gradient = found[name]
        assert gradient is not None
        return {**found, name: change(call, gradient)}

    return changed


def _whole_columns(block: int) -> Callable[[Call, Tensor], Tensor]:
    def change(call: Call, g: Tensor) -> Tensor:
        out = g.clone()
        out[..., g.shape[-1] // block * block :] = 0
        return out

    return change


def _whole_rows(call: Call, g: Tensor) -> Tensor:
    flat = g.reshape(-1, g.shape[-1]).clone() if g.dim() > 1 else g.reshape(-1).clone()
    flat[len(flat) // 8 * 8 :] = 0
    return flat.reshape(g.shape)


def _ignoring(right: Right, k: int) -> Subject:
    def subject(call: Call) -> Answer:
        given = tuple(torch.zeros_like(c) if j == k else c for j, c in enumerate(call.cotangents))
        return Answer(right(Call(call.op, call.leading, call.inputs, call.numbers, given)))

    return subject


def _contiguous(right: Right) -> Subject:
    """Where the memory is shorter than that, it reads the first number everywhere."""

    def subject(call: Call) -> Answer:
        given = []
        for c in call.cotangents:
            room = c.untyped_storage().nbytes() // c.element_size() - c.storage_offset() >= c.numel()
            steps = torch.empty(c.shape).stride() if room else [0] * c.dim()
            given.append(torch.as_strided(c, c.shape, steps, c.storage_offset()))
        return Answer(right(Call(call.op, call.leading, call.inputs, call.numbers, tuple(given))))

    return subject


# --- in what comes out, without a name -------------------------------------------------------------------------------

_SLIPS: dict[str, Callable[[Tensor], Tensor]] = {
    "shifted by one place": lambda g: g.roll(1, -1),
    "in reverse": lambda g: g.flip(-1),
    "times its size": lambda g: g * g.abs(),
    "a little more": lambda g: g + 0.01,
    "cut off at a half": lambda g: g.clamp(-0.5, 0.5),
    "without signs": torch.abs,
    "every second place": lambda g: g * (torch.arange(g.numel()).reshape(g.shape) % 2).to(g.dtype),
    "less its mean": lambda g: g - g.mean(-1, keepdim=True),
    "running sums": lambda g: g.cumsum(-1),
    "sorted": lambda g: g.sort(-1).values,
    "a tenth less": lambda g: 0.9 * g,
    "bent": torch.sin,
}


_ALONG = ("shifted by one place", "in reverse", "running sums", "sorted", "less its mean")


def _without_name(op: Op, right: Right) -> Iterator[Wrong]:
    for operand in op.differentiable:
        for text, slip in _SLIPS.items():
            if operand.axes or text not in _ALONG:
                change = _of_one(operand.name, lambda call, g, slip=slip: slip(g) if g.dim() else slip(g[None])[0])
                yield Wrong(f"{text}: d{operand.name}", frozenset(), _candidate(right, change))
