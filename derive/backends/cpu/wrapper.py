"""The Python around a module's kernels: what they take and give, and the lines that call them before torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sympy import Expr, expand

from derive.backends.cpu.kernel import Kernel, kernel
from derive.backends.cpu.statements.merges import Parts, taken_apart
from derive.backends.cpu.statements.normal import Unsupported
from derive.backends.cpu.statements.rounded import extrema
from derive.backends.cpu.step import descent, with_gradients
from derive.backends.dependence import is_linear
from derive.backends.values import Dims
from derive.contract.contraction_order import two_at_a_time
from derive.facts.lengths.length_code import lengths_of
from derive.facts.lengths.nominal import nominal
from derive.ir.equations import Op
from derive.ir.nodes.liveness import Results
from derive.ir.program import Program
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.elements import At
from derive.pipeline import Derivation


@dataclass(frozen=True)
class Called:
    """A call of a kernel as the code has it: the kernel's name there, its arguments, and the names of its outputs."""

    kernel: str
    args: str
    outputs: tuple[str, ...]

    def lines(
        self, then: tuple[str, ...], out: Mapping[str, str] | None = None, read: Iterable[str] | None = None
    ) -> tuple[str, ...]:
        """The call, and what follows where it ran, which reads its outputs, or no more than those that are said; with
        `out`, they are written into these tensors.
        """
        args = self.args
        if out is not None:
            places = ", ".join(out.get(n, "...") for n in self.outputs)
            args += f", out=({places}{',' if len(self.outputs) == 1 else ''})"
        left = f"({self.outputs[0]},)" if len(self.outputs) == 1 else ", ".join(self.outputs)
        named = [f"    {left} = found"] if read is None or not set(self.outputs).isdisjoint(read) else []
        return (f"found = {self.kernel}({args})", "if found is not None:", *named, *(f"    {t}" for t in then))


@dataclass(frozen=True)
class Together:
    """A loss and its gradients from one kernel: the call, and what the loss and the gradients are named in the code."""

    called: Called
    loss: str
    gradients: tuple[str, ...]


@dataclass(frozen=True)
class Native:
    """What a module has beside its torch form. Without a kernel, the forward's first line says why."""

    kernels: tuple[Kernel, ...] = ()
    why_none: str = ""  # why there is no kernel
    definitions: tuple[str, ...] = ()
    forward_call: Called | None = None
    forward: tuple[str, ...] = ()  # the first lines of the forward
    backward_call: Called | None = None
    backward: tuple[str, ...] = ()
    registration: tuple[str, ...] = ()
    together: Together | None = None  # a loss with its gradients, where there is one
    step: tuple[str, ...] = ()  # the same of the training step
    imports: tuple[str, ...] = ()
    live: Mapping[str, Results] = field(default_factory=dict)  # for which gradients the backward's reads each tensor
    take_all: bool = False  # the kernels take every real tensor, and so can say whether one is half precision


@dataclass(frozen=True)
class Shapes:
    """How the torch form's functions say dimensions, lengths and names: the kernels keep to them."""

    forward: Mapping[str, Dims]
    backward: Mapping[str, Dims]
    names: Callable[[str], str]
    lengths: Mapping[str, str]  # axes whose length is an argument of the forward, and its name there
    backward_lengths: Mapping[str, str]  # the same for the backward
    saved: tuple[str, ...]  # the fields of the saved tuple
    code: Callable[[Expr], str]  # how a length is computed from others
    needed: tuple[str, ...]  # whether each gradient is needed; none of one alone
    results: tuple[str, ...]  # the gradients as they are returned, those that are not needed as None

    def given(self, kernel: str) -> Mapping[str, str]:
        """The axes whose length is an argument of a kernel's function, and its name there."""
        return self.backward_lengths if kernel == "BACKWARD" else self.lengths


def native(d: Derivation, shapes: Shapes, title: str, step: bool, scanned: Callable[[Program], Program]) -> Native:
    """The kernels of an op and the lines around them; with `step`, a training step's where the op is a loss.

    `scanned` has sums and maxima up to a place as such.
    """
    op = d.op
    if op.recurrences:
        r = op.recurrences[0]
        return torch_only(op, f"the CPU backend has no loop for the recurrence of {r.state} along {r.axis}")
    integers = frozenset(o.name for o in op.operands if o.kind == "index")
    conditions = frozenset(c.name for c in d.conditions)
    whole = with_gradients(d)
    programs = {"FORWARD": d.forward, "BACKWARD": d.backward, "WITH_GRADIENTS": whole}
    programs["STEP"] = descent(d) if step else None
    names = {"FORWARD": f"{op.name}_forward", "BACKWARD": f"{op.name}_backward"}
    flags = {"BACKWARD": shapes.needed, "WITH_GRADIENTS": ("", *shapes.needed) if shapes.needed else ()}
    try:
        lengths, fixed = nominal(d.named), {r.axis.base: r.axis.fixed for r in op.sizes if r.axis.fixed is not None}
        kernels = {
            n: kernel(
                names.get(n, p.name), two_at_a_time(scanned(p), lengths), integers, conditions, fixed, lengths,
                extrema(d.forward), flags.get(n, ()),
            )
            for n, p in programs.items()
            if p is not None
        }  # fmt: skip
        if not kernels["BACKWARD"].outputs:
            del kernels["BACKWARD"]
        return _around(d, shapes, title, integers, kernels, () if whole is None else whole.returns[1:])
    except Unsupported as error:
        return torch_only(op, f"the CPU backend has no loop for {error}")


def torch_only(op: Op, reason: str) -> Native:
    """No kernel, which the forward says."""
    return Native(why_none=reason, forward=(f'torch_only("{op.name}", "{reason}")',), imports=("torch_only",))


def _around(
    d: Derivation, shapes: Shapes, title: str, integers: frozenset[str], kernels: Mapping[str, Kernel],
    joined: tuple[str, ...],
) -> Native:  # fmt: skip
    """The lines around kernels; `joined` are the gradients' names in the one that gives a loss with them."""
    op = d.op
    cotangents = {c.of: c.target.name for c in d.steps.cotangents}
    targets = {o.name: r for o, r in zip(op.differentiable, d.backward.returns, strict=True)}
    calls = {n: _called(n, k, shapes) for n, k in kernels.items()}
    saved = f"{title}Saved({', '.join(shapes.saved)})"
    outputs = [shapes.names(o) for o in op.outputs]

    found = [shapes.names(r) for r in d.backward.returns]
    gradients = shapes.results[0] if len(found) == 1 else f"{title}Gradients({', '.join(shapes.results)})"
    together = None
    if joined:
        together = Together(calls.pop("WITH_GRADIENTS"), outputs[0], tuple(map(shapes.names, joined)))
    results = {"FORWARD": ", ".join([*outputs, saved]), "BACKWARD": gradients, "STEP": outputs[0]}
    lines = {n: c.lines((f"return {results[n]}",)) for n, c in calls.items()}
    parameters, loss = {shapes.names(o.name): o.name for o in op.operands}, [shapes.names(j) for j in joined]
    of_backward = [*cotangents.values(), *shapes.saved]
    forms = {
        "FORWARD": (f"{op.name}_forward", parameters, [*outputs, *shapes.saved]),
        "BACKWARD": (f"{op.name}_backward", {n: n for n in of_backward}, found),
        "WITH_GRADIENTS": (
            f"{op.name}_with_gradients", parameters | {c: c for c in cotangents.values()}, [*outputs, *loss],
        ),
    }
    registration = [_registered(n, _called(n, k, shapes), *forms[n]) for n, k in kernels.items() if n != "STEP"]
    second = "BACKWARD" if "BACKWARD" in kernels else "None"
    linear = ", linear=True" if is_linear(d) else ""
    flags = {f: o.name for f, o in zip(shapes.needed, op.differentiable, strict=bool(shapes.needed))}
    flagged = f", needed={flags!r}" if flags else ""
    registration.append(f"differentiable(FORWARD, {second}, {cotangents!r}, {targets!r}{linear}{flagged})")
    return Native(
        tuple(kernels.values()), "",
        tuple(_definition(n, k, d, integers, shapes, joined) for n, k in kernels.items()),
        calls["FORWARD"], lines["FORWARD"], calls.get("BACKWARD"), lines.get("BACKWARD", ()), tuple(registration),
        together, lines.get("STEP", ()), ("Kernel", "differentiable", "register"),
        kernels["BACKWARD"].live if "BACKWARD" in kernels else {},
        _take_all(op, kernels, {*cotangents.values(), *shapes.saved}, shapes),
    )  # fmt: skip


def _registered(kernel: str, called: Called, form: str, parameters: Mapping[str, str], results: list[str]) -> str:
    """The line that registers a kernel, and the torch form for where it cannot run, if that has the same arguments.

    `parameters` are what the code calls the form's, with their names.
    """
    args = called.args.split(", ")
    if not parameters.keys() <= set(args) or not set(called.outputs) <= set(results):
        return f"register({kernel})"
    if args != list(parameters) or args != list(parameters.values()):
        form = f"lambda {called.args}: {form}({', '.join(f'{name}={a}' for a, name in parameters.items())})"
    places = [str(results.index(o)) for o in called.outputs]
    return f"register({kernel}, {form}, ({', '.join(places)}{',' if len(places) == 1 else ''}))"


def _take_all(op: Op, kernels: Mapping[str, Kernel], given: set[str], shapes: Shapes) -> bool:
    """Whether the kernels take every real tensor that the functions do; `given` is all that the backward has."""
    real = {shapes.names(o.name) for o in op.operands if o.is_tensor and o.kind != "index"}
    taken = {n: {shapes.names(i) for i in (*k.inputs, *k.numbers)} for n, k in kernels.items()}
    tensors = {shapes.names(n) for n in given} - set(shapes.backward_lengths.values())
    return real <= taken["FORWARD"] and tensors <= taken.get("BACKWARD", set())


def _called(name: str, k: Kernel, shapes: Shapes) -> Called:
    given = shapes.given(name)
    args = [shapes.names(n) for n in k.inputs] + list(given.values()) + [shapes.names(n) for n in k.numbers]
    return Called(name, ", ".join(args), tuple(shapes.names(n) for n in k.outputs))


def _definition(
    name: str, k: Kernel, d: Derivation, integers: frozenset[str], shapes: Shapes, joined: tuple[str, ...]
) -> str:
    """The line that makes a kernel: where it is, its tensors and lengths, and what else is to be known of them."""
    dims = shapes.backward if name == "BACKWARD" else shapes.forward
    if name == "WITH_GRADIENTS":
        dims = {**{j: shapes.backward[r] for j, r in zip(joined, d.backward.returns, strict=True)}, **dims}
    needs = () if name == "BACKWARD" else _needs(d.op, shapes)
    conditions = {c.name for c in d.conditions}
    places = [
        f'"{d.op.name}.c"',
        f'"{k.name}"',
        told(f"{n}: {said(dims[n])}".rstrip() for n in k.inputs),
        told(f"{n}: {said(dims[n])}".rstrip() for n in k.outputs),
        told(k.lengths),
    ]
    options = {
        "given": _tuple_of_any(shapes.given(name)),
        "numbers": _tuple_of_any(k.numbers),
        "indices": _tuple_of_any(n for n in k.inputs if n in integers),
        "booleans": _tuple_of_any(n for n in (*k.inputs, *k.outputs) if n in conditions),
        "taped": "False" if name in ("STEP", "WITH_GRADIENTS") else "",
        "changed": told(o.name for o in d.op.differentiable) if name == "STEP" else "",
        "derived": _derived(name, k, d, dims, shapes),
        "read_for": _tuple_of_any(_read_for(k, shapes.needed)) if name == "BACKWARD" and shapes.needed else "",
        "needs": f"lambda s: {' and '.join(needs)}" if needs else "",
    }
    return f"{name} = Kernel({', '.join([*places, *(f'{word}={text}' for word, text in options.items() if text)])})"


def _named_whole(program: Program, dims: Mapping[str, Dims]) -> Parts:
    """The parts of merged dimensions that a program is given under one name: so it is given what the forward keeps."""
    found: Parts = {}
    for name, axes in program.given:
        for axis, dim in zip(axes, (x for x in dims[name] if x is not None), strict=True):
            if isinstance(axis, str) and dim.startswith("("):
                found[axis] = axes_of(dim)
    return found


def _read_as(d: Derivation, known: set[str]) -> Parts:
    """Axes under which an op reads a dimension of an input, or its gradient has it, by one whose length is known."""
    dims = {o.name: [{a.base} for a in o.axes] for o in d.op.operands}
    shorter = {r.axis.base for r in d.op.sizes if not isinstance(r.formula, Size | None)}  # a read beside windows
    reads = (at for e in d.named.equations for at in e.body.atoms(At) if at.name in dims)
    for name, index in [(a.of, a.axes) for a in d.steps.adjoints if a.of in dims] + [(r.name, r.index) for r in reads]:
        for dim, i in zip(dims[name], index, strict=True):
            dim |= {i.base} - shorter if isinstance(i, Axis) else set()
    apart = (dim for axes in dims.values() for dim in axes if dim & known)
    return {axis: (min(dim & known),) for dim in apart for axis in dim - known}


def _needs(op: Op, shapes: Shapes) -> list[str]:
    """What the lengths must satisfy, as code; the torch form says which does not."""
    found = []
    for r in op.requirements:
        left, right = shapes.code(r.left), shapes.code(r.right)
        found.append(f"({left}) % ({right}) == 0" if r.relation == "%" else f"{left} {r.relation} {right}")
    return found


def parts_of(d: Derivation, known: set[str], dims: Mapping[str, Dims]) -> Parts:
    """What the lengths of merged axes are made of, and of axes that are others as well; `dims` are the backward's."""
    parts = {axis: made for p in (d.forward, d.backward) for axis, made in taken_apart(p).items()}
    return _read_as(d, known) | parts | _named_whole(d.backward, dims)


def _derived(name: str, k: Kernel, d: Derivation, dims: Mapping[str, Dims], shapes: Shapes) -> str:
    """The lengths that a kernel is to know and no tensor that it takes has, as code; none where it has all.

    Raises Unsupported where one follows from none that is known.
    """
    given = shapes.given(name)
    known = {x for n in k.inputs for x in dims[n] if x is not None} | set(given)
    parts = parts_of(d, known, shapes.backward)
    merged = [x for n in k.inputs for x in dims[n] if x and x.startswith("(")]  # whose length the runtime checks
    wanted = [*merged, *k.lengths, *(x for n in k.outputs for x in dims[n] if x)]
    if name != "BACKWARD":
        wanted += [s.axis.base for r in d.op.requirements for s in lengths_of(r)]
    lines = in_turn(d.op, parts, known, wanted, shapes.code)
    return f"({''.join(lines)})" if lines else ""


def _read_for(k: Kernel, flags: tuple[str, ...]) -> Iterator[str]:
    """The inputs that are not read for every gradient, each with the numbers of which one says that it is."""
    for name in k.inputs:
        read_for = k.live.get(name, frozenset())
        if 0 < len(read_for) < len(flags):
            yield f"{name}: {' '.join(flags[r] for r in sorted(read_for))}"


def said(dims: Dims) -> str:
    """The dimensions of a tensor as kernels and checks are told them."""
    return " ".join("1" if d is None else d.strip("()").replace(", ", "*") for d in dims)


def told(items: Iterable[str]) -> str:
    """Texts as a tuple of the code's."""
    texts = [f'"{i}"' for i in items]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _tuple_of_any(items: Iterable[str]) -> str:
    """The same; nothing where there are none."""
    found = tuple(items)
    return told(found) if found else ""


def in_turn(op: Op, parts: Parts, known: set[str], wanted: list[str], code: Callable[[Expr], str]) -> list[str]:
    """Lengths that follow from others, in order: what one follows from stands before it. `code` says a length.

    Raises Unsupported where a length that is wanted follows from none that is known.
    """
    out: list[str] = []

    def follows(axis: str, asking: frozenset[str]) -> bool:
        """Whether the length is known, by a line of its own if it has to be."""
        ways = [] if axis in asking else list(_ways(axis, op, parts, code))
        if axis in known or axis.isdecimal():
            return True
        for needed, how in ways:
            if all(follows(a, asking | {axis}) for a in needed):
                known.add(axis)
                out.append(f'("{axis}", lambda s: {how}), ')
                return True
        return False

    for axis in (a for w in wanted for a in axes_of(w)):
        if not follows(axis, frozenset()):
            raise Unsupported(f"the length of {axis}, which no tensor has")
    return out


def _ways(axis: str, op: Op, parts: Parts, code: Callable[[Expr], str]) -> Iterator[tuple[list[str], str]]:
    """The lengths that an axis's length follows from, and how; of a piece, those of what is joined and the others."""
    rule = next((r for r in op.sizes if r.axis.base == axis), None)
    if rule is not None and rule.formula is not None:
        yield sorted({s.axis.base for s in rule.formula.atoms(Size)}), code(rule.formula)
    elif axis in parts:
        yield [*parts[axis]], " * ".join(a if a.isdecimal() else f's["{a}"]' for a in parts[axis])
    for whole in op.sizes:
        if whole.formula is None or not _has(whole.formula, axis):
            continue
        others = expand(whole.formula - Size(Axis(axis)))
        if not _has(others, axis):
            rest = Size(whole.axis) - others
            yield sorted({s.axis.base for s in rest.atoms(Size)}), code(rest)


def _has(length: Expr, axis: str) -> bool:
    return any(s.axis.base == axis for s in length.atoms(Size))


def axes_of(dim: str) -> tuple[str, ...]:
    """The axes of a dimension."""
    return tuple(dim.strip("()").split(", "))
