"""Choices at a threshold, without choosing: `where(x > 0, x + 1, exp(x))` is `relu(x) + exp(minimum(x, 0))`.

PyTorch chooses element by element, which takes a CPU twenty times as long as a product where the mask has no pattern.
Two branches of one tensor that meet at the threshold are taken each on its own side, where the other stands still, if
no digit is lost by it (`meeting.py`). Two lines that meet at 0 are one call. Where one branch is a number, both are
weighed by the mask and one less the mask: what is not chosen is finite and adds 0. Where one is a multiple of the
other, the number stands where the mask does not: `v * threshold(m, 0, a)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from derive.backends.torch.bends import bent_at_zero
from derive.backends.torch.compared import Comparison, Known, comparison
from derive.backends.torch.dtypes import Dtypes
from derive.backends.torch.jumps import beyond, jump, one_of_three, step, step_between, weighed
from derive.backends.torch.meeting import met
from derive.backends.torch.or_nothing import gap_or_nothing, in_full, or_nothing
from derive.facts.interpreter import Facts
from derive.ir.nodes.arithmetic import ONE, ZERO
from derive.ir.nodes.inlining import inline
from derive.ir.nodes.leftovers import without_unread
from derive.ir.nodes.soundness import check
from derive.ir.nodes.walking import by_axes_once, reads, rebuilt, uses
from derive.ir.program import Assign, Call, Node, Program, Read, Scatter, Statement
from derive.schedule.compared import clamped
from derive.schedule.share import share


def without_choices(
    program: Program,
    integers: frozenset[str] = frozenset(),
    computed: frozenset[str] = frozenset(),
    values: Facts | None = None,
    negative: frozenset[str] = frozenset(),
) -> Program:
    """The same program with sums and products in place of such choices.

    `integers` are no real tensors; `computed` are no inputs of the op, though they may be given to the program. What is
    known of `values` holds where they are not chosen, too. `negative` are numbers of the caller's below 0 as a default.
    """
    added_to = {n for s in program.statements if isinstance(s, Scatter) for n in (s.name, s.onto)}
    known = {s.name: s for s in program.statements if isinstance(s, Assign) and s.name not in added_to}
    masks, is_real = _masks(program, computed, values or Facts(), known, negative), Dtypes(program, integers).is_real

    def unchosen(s: Statement) -> Statement:
        return replace(s, value=bent_at_zero(or_nothing(_within(s.value, known, masks), known, is_real)))

    statements = tuple(s if s.name in integers else unchosen(s) for s in program.statements)
    if statements == program.statements:
        return program
    return share(check(_read_once(without_unread(replace(program, statements=statements)), program)))


def _read_once(program: Program, before: Program) -> Program:
    """The program with products written where they are read, if both branches of a choice read them before."""
    for s in program.statements:
        is_product = isinstance(s, Assign) and isinstance(s.value, Call) and s.value.fn in ("mul", "div")
        if is_product and len(uses(s.name, before.statements)) > 1:
            program = inline(s, program) or program  # type: ignore[arg-type]
    return program


@dataclass(frozen=True)
class _Masks:
    """The names of what a program is given, masks among it, and of the inputs of the op among that; what is finite."""

    given: frozenset[str]
    inputs: frozenset[str]
    values: Facts
    known: Known
    negative: frozenset[str]

    def asked(self, condition: Node) -> Comparison | None:
        """What a condition compares with a number."""
        found = comparison(condition, self.known)
        return None if found is None else replace(found, negative=self.negative)

    def is_finite(self, node: Node) -> bool:
        """Whether a node is finite where it is not chosen either."""
        return self.values.of(self._opened(node)).is_finite

    def _opened(self, node: Node) -> Node:
        """A node with what its names stand for, but for those that are known to be finite."""
        value = self.values.of(node)
        if isinstance(node, Read) and not (value.is_finite or value.is_away_from_0):
            whole = in_full(node, self.known)
            return node if whole is node else self._opened(whole)
        return rebuilt(node, self._opened) if isinstance(node, Call) else node


def _masks(
    program: Program, computed: frozenset[str], values: Facts, known: Known, negative: frozenset[str]
) -> _Masks:
    given = frozenset(n for n, _ in program.given)
    return _Masks(given, given - computed - {s.name for s in program.statements}, values, known, negative)


def _within(node: Node, known: Known, masks: _Masks) -> Node:
    """The node without such choices, inner ones first. What `or_nothing` does without as well is left to it."""
    node = rebuilt(node, lambda n: _within(n, known, masks))
    if not isinstance(node, Call) or node.fn != "where" or not reads(node.args[0]):
        return node
    if node.args[2] != ZERO:
        return _unchosen(node, known, masks) or node
    asked = None if gap_or_nothing(node, known) is not None else masks.asked(node.args[0])
    return node if asked is None else met(asked, node, known) or beyond(asked, node, known) or node


def _unchosen(node: Call, known: Known, masks: _Masks) -> Node | None:
    """The first way in which a choice can do without choosing; None where there is none."""
    condition = node.args[0]
    asked = masks.asked(condition)
    if asked is not None:
        strict, turned = asked.strictly(node)
        found = clamped(replace(node, args=(in_full(condition, known), *node.args[1:])))
        found = found or met(asked, node, known) or step(asked, node, known, masks.is_finite)
        found = found or jump(strict, turned, known) or weighed(turned, strict.mask)
        return found or one_of_three(node, known, masks.is_finite)
    if (between := step_between(node, known, masks.inputs)) is not None:
        return between
    if not isinstance(condition, Read) or condition.name not in masks.given or not by_axes_once(condition):
        return None
    return weighed(node, Call("where", (condition, ONE, ZERO))) or one_of_three(node, known, masks.is_finite)
