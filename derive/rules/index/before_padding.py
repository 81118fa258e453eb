"""What is made of one element of padded tensors, and is 0 where these are, is made before the padding.

`x_padded[c] ** 2` at every place is `x_squared[c] = x[c] ** 2` with zeros around it: nothing is computed of the zeros,
and a backward that needs `x` has it without a longer copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sympy import Basic, Expr, Mul, S

from derive.ir.equations import Equation, Op
from derive.ir.lowering import lower
from derive.ir.nodes.naming import name_of
from derive.ir.terms.elements import At, Delta, Tensor
from derive.ir.terms.names import free_name


def made_before_padding(op: Op) -> Op:
    """The same op, where everything that reads a padded tensor may be made so."""
    pads = {e.name: e for e in op.equations if _pads(e)}
    readers = {name: [e for e in op.equations if name in {at.name for at in e.reads}] for name in pads}
    made = {e.name: e for e in op.equations if _is_made_of(e, pads)}
    gone = {name for name, own in readers.items() if own and all(e.name in made for e in own)}
    made = {name: e for name, e in made.items() if {at.name for at in e.reads} <= gone}
    gone = {name for name in gone if all(e.name in made for e in readers[name])}
    if not gone:
        return op
    taken = op.names
    equations: list[Equation] = []
    named: dict[Basic, Tensor] = {}
    for e in (e for e in op.equations if e.name not in gone):
        if e.name in made and {at.name for at in e.reads} <= gone:
            equations += _padded_last(e, pads, taken)
            named[e.target] = equations[-1].target
        else:
            equations.append(replace(e, body=_renamed(e, named)))
    return replace(op, equations=tuple(equations))


def _pads(e: Equation) -> bool:
    """Whether an equation adds a tensor to zeros, at places behind those in front of it."""
    return not e.given and e.kind == "sum" and e.scale == 1 and _source(e) is not None


def _source(e: Equation) -> At | None:
    deltas: list[Expr] = []
    others: list[Expr] = []
    for f in Mul.make_args(e.body):
        (deltas if isinstance(f, Delta) else others).append(f)
    return others[0] if deltas and len(others) == 1 and isinstance(others[0], At) else None


def _is_made_of(e: Equation, pads: Mapping[str, Equation]) -> bool:
    """Whether an equation of ours makes one element of those there of tensors padded alike, and 0 of zeros."""
    if e.given or e.kind is not None or not e.reads or not all(at.name in pads for at in e.reads):
        return False
    around = {(pads[at.name].index, pads[at.name].over, _deltas(pads[at.name])) for at in e.reads}
    there = all(at.index == e.index == pads[at.name].index for at in e.reads)
    return there and len(around) == 1 and e.body.xreplace(dict.fromkeys(e.reads, S.Zero)) == 0


def _deltas(pad: Equation) -> frozenset[Basic]:
    return frozenset(f for f in Mul.make_args(pad.body) if isinstance(f, Delta))


def _padded_last(e: Equation, pads: Mapping[str, Equation], taken: set[str]) -> list[Equation]:
    """The same of the tensors themselves, then padded as they were."""
    sources = {at: _source(pads[at.name]) for at in e.reads}
    body = e.body.xreplace(sources)
    pad = pads[e.reads[0].name]
    (first, *_) = sources.values()
    assert first is not None, "it is what a padded tensor is made of"
    target = Tensor(name_of(lower.node(body), taken))
    last = Tensor(free_name(f"{target.name}_padded", taken | {target.name}))
    taken |= {target.name, last.name}
    inner = Equation(target, first.index, body, given=False)
    return [inner, replace(pad, target=last, body=Mul(*_deltas(pad), At(target, *first.index)))]


def _renamed(e: Equation, named: Mapping[Basic, Tensor]) -> Basic:
    return e.body.xreplace({at: At(named[at.tensor], *at.index) for at in e.reads if at.tensor in named})
