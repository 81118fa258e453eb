"""What a tensor is called that had no name: `dloss_over_n`, `exp_x`, `x_minus_mu`; and names that are free."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from derive.ir.nodes.products import is_tensor
from derive.ir.nodes.walking import reads, top_down, walk
from derive.ir.program import CONDITIONS, AxisValue, Call, Join, Node, Num, Read, Reduce, Scal, Scan, Shares, SizeOf
from derive.ir.terms.names import free_name, new_name

_LONGEST = 24
_NUMBERS = {"0": "zero", "1": "one", "2": "two", "1/2": "half"}


UNNAMED = "shared"
"""What a node is called that has no words, or too many."""


def name_of(node: Node, taken: Container[str]) -> str:
    """What a node would be called, and no name that is taken."""
    return free_name(stem_of(node), taken, "_")


def new_name_of(node: Node, taken: set[str]) -> str:
    """As `name_of`, and taken from now on."""
    return new_name(stem_of(node), taken, "_")


def stem_of(node: Node) -> str:
    """What a node would be called, if nothing else were."""
    apart = _apart(node)
    words = [_words(n) for top in (apart, node) for n in (top, _without_numbers(top))]
    if isinstance(node, Call) and node.fn in ("sin", "cos") and not reads(node):  # of places alone
        return f"{node.fn}_angle"
    last = "mask" if isinstance(node, Call) and node.fn in CONDITIONS else UNNAMED
    stems = (_at_places(node), _both_ways(node), *words, _tensors(apart), _tensors(node))
    return next((s for s in stems if len(s) <= _LONGEST and s.isidentifier()), last)


def _both_ways(node: Node) -> str:
    """The sum of a matrix and itself turned, of what it weighs: `w_both_ways`; no name for anything else."""
    first, second = node.args if isinstance(node, Call) and node.fn == "add" else (None, None)
    if not (isinstance(first, Read) and isinstance(second, Read) and first.name == second.name):
        return ""
    turned = first.index != second.index and set(first.index) == set(second.index)
    return f"{first.name}_both_ways" if turned else ""


def labels(reads: Iterable[tuple[str, tuple[str, ...]]]) -> dict[tuple[str, tuple[str, ...]], str]:
    """What to call reads, tensor and indices: one that is read in two ways by what differs, `a_2` and `a_0`."""
    out = {}
    reads = list(dict.fromkeys(reads))
    for name, index in reads:
        others = [i for n, i in reads if n == name and len(i) == len(index)]
        differ = [w for k, w in enumerate(index) if len({i[k] for i in others}) > 1]
        label = "_".join([name, *map(_place, differ)])
        out[name, index] = label if label.isidentifier() else name
    return out


def _place(index: str) -> str:
    """An index as a word: `t_plus_1`; an integer tensor's name for what it reads."""
    return index.partition("[")[0].replace(" + ", "_plus_").replace(" - ", "_minus_").replace("'", "2")


def _apart(node: Node) -> Node:
    """The node with tensors that it reads in two ways under two names."""
    own = {n: (n.name, tuple(map(str, n.index))) for n in walk(node) if isinstance(n, Read)}
    known = labels(own.values())
    return top_down(node, lambda n: replace(n, name=known[own[n]]) if isinstance(n, Read) else None)


def _at_places(node: Node) -> str:
    """A tensor at the places of an index: `p[n, y[n]]` is `p_y`; no name for anything else."""
    places = [i.name for i in node.index if isinstance(i, Read)] if isinstance(node, Read) else []
    return "_".join([node.name.rstrip("_"), *places]) if isinstance(node, Read) and places else ""


def _without_numbers(node: Node) -> Node:
    """The node without the numbers that it is multiplied with or divided by, for a shorter name."""
    if not isinstance(node, Call):
        return node
    args = tuple(_without_numbers(a) for a in node.args)
    if node.fn in ("mul", "div") and is_tensor(args[0]) and not is_tensor(args[1]):
        return args[0]
    return args[1] if node.fn == "mul" and not is_tensor(args[0]) else replace(node, args=args)


def _tensors(node: Node) -> str:
    """The function and the tensors that it is of: `exp_logvar_noise`; a condition's name says what it asks."""
    names = "_".join(dict.fromkeys(n.name for n in walk(node) if isinstance(n, Read)))
    if not isinstance(node, Call):
        return names
    if node.fn in ("and", "or"):
        return f"{names}_{_SPAN[node.fn]}" if _is_span(node) else "mask"
    signs = [n for n in walk(node) if isinstance(n, Call) and n.fn == "sign"]
    if len(signs) == 1 and reads(node) == reads(signs[0]):
        return f"sign_{names}"  # a step, whatever is added to it
    asked = {"gt": "above", "ge": "from", "lt": "below", "le": "up_to", "eq": "is"}.get(node.fn)
    if asked is None:
        return f"{node.fn}_{names}" if node.fn not in ("add", "sub", "mul", "div", "pow") else names
    first, second = node.args
    return f"{_tensors(first)}_{asked}_{_words(second)}" if isinstance(first, Call) else names


_SPAN = {"and": "inside", "or": "outside"}


def _is_span(node: Call) -> bool:
    """Whether a condition asks if one tensor lies between two bounds, or beyond either."""
    return {_side(n) for n in node.args} == {1, -1} and len({n for n in walk(node) if isinstance(n, Read)}) == 1


def _side(condition: Node) -> int:
    """1 for what asks whether something is above a bound, -1 for what asks whether it is below, else 0."""
    if not isinstance(condition, Call):
        return 0
    if condition.fn == "not":
        return -_side(condition.args[0])
    return {"gt": 1, "ge": 1, "lt": -1, "le": -1}.get(condition.fn, 0)


def _words(node: Node) -> str:
    """What a node would be called: `dloss_over_n`, `exp_x`, `x_minus_mu`."""
    if isinstance(node, Read | Scal):
        return node.name
    if isinstance(node, SizeOf | AxisValue):
        return "leading" if node.axis == "..." else node.axis
    if isinstance(node, Num):
        written = _NUMBERS.get(str(node), "tiny" if "e-" in str(node) else str(node))
        return written.replace("/", "_over_").replace(".", "p").replace("-", "minus_")
    if isinstance(node, Reduce):
        return f"{node.kind}_{_words(node.body)}"
    if isinstance(node, Shares):
        return f"shares_{_words(node.body)}"
    if isinstance(node, Scan):
        return f"running_{_words(node.body)}"
    if isinstance(node, Join):
        return "_".join(["concat", *(_words(p) for p in node.parts)])
    if node.fn == "where" and _is_diagonal_filled(node):
        return f"{_words(node.args[1])}_off_diagonal"
    joint = {
        "add": "_plus_", "sub": "_minus_", "mul": "_", "div": "_over_", "pow": "_to_", "eq": "_is_", "ne": "_is_not_",
        "gt": "_above_", "lt": "_below_", "ge": "_from_", "le": "_up_to_",
    }.get(node.fn)  # fmt: skip
    words = [_words(a) for a in node.args]
    if node.fn == "pow" and words[1] == "two":
        return f"{words[0]}_squared"
    return joint.join(words) if joint else "_".join([node.fn, *words])


def _is_diagonal_filled(node: Call) -> bool:
    """Whether a choice is a tensor but for a number on its diagonal."""
    condition, value, other = node.args
    places = condition.args if isinstance(condition, Call) and condition.fn == "ne" else ()
    by_place = len(places) == 2 and all(isinstance(n, AxisValue) for n in places)
    return by_place and isinstance(value, Read) and isinstance(other, Num)
