"""The kernels that PyTorch's autograd runs backwards through a forward's equations, one operation at a time, counted.

An operation has one kernel for each operand that needs a gradient, which does the elementary operations of PyTorch's
formula (`derivatives.yaml`) on the operation's elements. Where an operand was broadcast, its gradient is summed by one
more kernel; where several gradients of a tensor meet, each but the first is added by one. A sum expands its gradient,
an addition passes it on, and neither runs anything. Equal subexpressions count once, which favours autograd.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from derive.decisions import MATMUL
from derive.facts.lengths.nominal import Nominal, nominal
from derive.ir.equations import Op
from derive.ir.nodes.products import is_matrix_product, is_tensor, product_factors
from derive.ir.nodes.walking import node_axes, walk
from derive.ir.program import Call, Node, Read, Reduce
from derive.primitives import row
from derive.schedule.order import forward_program

_PASS_ON = {"add"}
_OPERATIONS = {"mul": 1.0, "sub": 1.0, "neg": 1.0, "where": 1.0}
"""The elementary operations of a backward kernel, `exp` and its like counted as three or four."""


@dataclass(frozen=True)
class Kernel:
    """One kernel: what it is for, the axes of what it writes, its work, whether it writes an input's gradient."""

    of: str
    axes: tuple[str, ...]
    work: float
    final: bool = False


@dataclass
class _Walk:
    """What needs a gradient, how often each tensor has been given one, and the kernels so far."""

    nominal: Nominal
    needs: set[str]
    inputs: frozenset[str]
    axes: dict[str, tuple[str, ...]]
    kernels: list[Kernel] = field(default_factory=list)
    reached: dict[Node, int] = field(default_factory=dict)
    done: set[Node] = field(default_factory=set)


def kernels_of_autograd(op: Op) -> tuple[Kernel, ...]:
    """The kernels of a backward through the op's equations, counted as the module says."""
    op = op.cut
    program = forward_program(op, ())
    needs = {o.name for o in op.differentiable}
    walk_ = _Walk(nominal(op), set(needs), frozenset(needs), dict(program.given))
    for s in program.statements:
        walk_.axes[s.name] = node_axes(s.value) or ()
        if _flows(s.value, walk_.needs):
            walk_.needs.add(s.name)
    for s in program.statements:
        _node(s.value, walk_)
    return tuple(walk_.kernels)


def _flows(node: Node, needs: set[str]) -> bool:
    """Whether a gradient flows into the node: through values, never through indices, conditions or signs."""
    if isinstance(node, Read):
        return node.name in needs
    if isinstance(node, Reduce):
        return _flows(node.body, needs)
    if isinstance(node, Call):
        return node.fn != "sign" and any(_flows(a, needs) for a in (node.args[1:] if node.fn == "where" else node.args))
    return False


def _node(node: Node, w: _Walk) -> None:
    """The kernels of one operation, then of what it was computed from; a node met twice is one."""
    if node in w.done or not _flows(node, w.needs):
        return
    w.done.add(node)
    if isinstance(node, Reduce):
        _reduction(node, w)
    elif isinstance(node, Call):
        _call(node, w)
    elif isinstance(node, Read) and any(isinstance(n, Read) for i in node.index for n in walk(i)):
        own = w.axes[node.name]
        work = w.nominal.elements(node_axes(node)) + w.nominal.elements(own)
        _add(w, node, own, work, node)  # zeros, and a scatter-add onto them


def _reduction(node: Reduce, w: _Walk) -> None:
    own = node_axes(node.body)
    if is_matrix_product(node):
        for factor in product_factors(node.body):
            if _flows(factor, w.needs):
                _add(w, node, node_axes(factor), w.nominal.elements(own) / MATMUL, factor)
                _node(factor, w)
        return
    if node.kind == "mean":
        _add(w, node, node_axes(node), w.nominal.elements(node_axes(node)), None)
    elif node.kind != "sum":
        _add(w, node, own, 3 * w.nominal.elements(own), node.body)  # compare, count, share out
    if node.kind in ("sum", "mean"):
        _meet(w, node.body)
    _node(node.body, w)


def _call(node: Call, w: _Walk) -> None:
    own = node_axes(node)
    for k, a in enumerate(node.args):
        if (node.fn == "where" and k == 0) or not _flows(a, w.needs):
            continue
        broadcast = set(node_axes(a)) < set(own)
        passes_on = node.fn in _PASS_ON or (node.fn == "sub" and k == 0)
        if not passes_on:
            _add(w, node, own, _operations(node, k) * w.nominal.elements(own), None if broadcast else a)
        if broadcast:
            _add(w, node, node_axes(a), w.nominal.elements(own), a)
        elif passes_on:
            _meet(w, a)
        _node(a, w)


def _operations(node: Call, k: int) -> float:
    """The elementary operations of a kernel for the k-th operand."""
    if node.fn == "div":
        return 1.0 if k == 0 else 3.0
    if node.fn == "pow":
        return 2.0 if k == 0 and str(node.args[1]) == "2" else 4.0
    return _OPERATIONS.get(node.fn, row(node.fn).slope_work)


def _add(w: _Walk, of: Node, axes: tuple[str, ...], work: float, into: Node | None) -> None:
    """A kernel; `into` is the operand that it gives a gradient to, unless another one has to sum it first."""
    final = isinstance(into, Read) and into.name in w.inputs
    w.kernels.append(Kernel(str(of), axes, work, final))
    if into is not None:
        _meet(w, into)


def _meet(w: _Walk, into: Node) -> None:
    """One more gradient of a tensor; each but the first is added."""
    if not is_tensor(into):
        return
    key = Read(into.name, ()) if isinstance(into, Read) else into
    w.reached[key] = w.reached.get(key, 0) + 1
    if w.reached[key] > 1:
        axes = w.axes[into.name] if isinstance(into, Read) else node_axes(into)
        final = isinstance(into, Read) and into.name in w.inputs
        w.kernels.append(Kernel(f"gradients of {into} meet", axes, w.nominal.elements(axes), final))
