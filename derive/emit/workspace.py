"""Functions that write into tensors of the caller's, and what they compare these with first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from derive.backends.cpu.statements.normal import Unsupported
from derive.backends.cpu.wrapper import Native, in_turn, parts_of, said, told
from derive.backends.torch.layout import Layouts
from derive.backends.torch.outs import into, looked_at, views_of
from derive.backends.values import Dims, Line, is_pack
from derive.emit.model import Function
from derive.emit.pair import Pair, commented, length_said
from derive.emit.signatures import signature


@dataclass(frozen=True)
class _Named:
    """A tensor as the code says it, and as programs and layouts do."""

    code: str
    name: str
    dims: Dims
    value: str = ""  # a variable that is written there as it is: another place or an input may hold the same


def backward_out(pair: Pair, gradients: list[str], kernels: Native | None) -> Function:
    """The backward once more, its gradients written into tensors of the caller's."""
    made = {line.made for line in pair.backward_printed.lines}
    needs = pair.needs
    assert needs is not None
    out = pair.names.out
    places = {_place(g, len(gradients), out): k for k, g in enumerate(gradients)}
    targets, copies = placed(gradients, pair.returned, made, out)
    printed = _into(
        pair, pair.backward_printed.lines, targets, pair.backward_layouts, lambda x, t: needs.needed(places[t], x)
    )
    called = None if kernels is None else kernels.backward_call
    last = (*needs.copied(copies), f"return {out}")
    native = () if called is None else called.lines(last, targets, [pair.returned[k] for k in copies])
    first = [f"{out} = needed_of({out}, {needs.parameter})", *needs.unpacked]
    if len(gradients) == 1:
        first += [f"if {out} is None:", "    return None"]
    return Function(
        f"{pair.backward.name}_out", f"{pair.backward_takes}, *, {out}: {pair.backward.returns}, {needs.typed}",
        pair.backward.returns, f"The same, written into the tensors of `{out}`, which share no memory with the rest.",
        (*first, *pair.of_something(native), *pair.head, *commented(needs.guarded(printed)),
         *pair.zeros(written=True), *last),
        decorators=("writes_out",),
        compared=_compared_backward(pair, gradients), copies=bool(copies),
    )  # fmt: skip


def forward_out(pair: Pair, kernels: Native | None) -> Function:
    """The forward once more, what it computes written where an earlier call's results lie."""
    made = {line.made for line in pair.forward_printed.lines}
    outputs = [pair.names.tensors.get(o, o) for o in pair.d.op.outputs]
    out = pair.names.out
    places = {o: f"{out}[{k}]" for k, o in enumerate(outputs)}
    places = {f.name: f"{out}[-1].{f.name}" for f in pair.saved} | places
    targets = {name: place for name, place in places.items() if name in made}
    inputs, printed = {pair.names.of(o.name) for o in pair.op.operands}, pair.forward_printed.lines
    views = views_of(inputs, printed, _tensors(pair, pair.forward_layouts) - _points(pair.forward_layouts))
    written = {name: place for name, place in targets.items() if name not in views}
    *lines, result = pair.forward.lines
    before = lines[: len(lines) - len(printed)]
    called = None if kernels is None else kernels.forward_call
    native = () if called is None else called.lines((result,), targets)
    return Function(
        f"{pair.forward.name}_out", f"{signature(pair.op)}, *, {out}: {pair.forward.returns}",
        pair.forward.returns, "The same, written over what an earlier call with inputs of these shapes returned.",
        (*before[:pair.lengths_read], *native, *before[pair.lengths_read:],
         *commented(_into(pair, printed, written, pair.forward_layouts)), result), decorators=("writes_out",),
        compared=_compared_forward(pair, written), of_inputs=True,
    )  # fmt: skip


def _into(
    pair: Pair, printed: list[Line], targets: dict[str, str], laid: Layouts,
    given: Callable[[Line, str], str] = lambda line, target: "",
) -> list[Line]:  # fmt: skip
    vectors = {pair.names.tensors.get(n, n) for n, dims in laid.dims.items() if len(dims) == 1}
    many = [n for n, dims in laid.dims.items() if len(dims) > 2 and not any(map(is_pack, dims))]
    deep = {pair.names.tensors.get(n, n) for n in many}
    return into(printed, targets, _tensors(pair, laid), vectors, deep, given)


def _points(laid: Layouts) -> set[str]:
    """The tensors that may have no dimensions: to read at such an index, `x[i]`, is to look at one place."""
    return {name for name, dims in laid.dims.items() if all(map(is_pack, dims))}


def _tensors(pair: Pair, laid: Layouts) -> set[str]:
    """The names that hold tensors, as the code has them."""
    return {*laid.dims, *pair.names.tensors.values()}


def placed(
    gradients: Sequence[str], names: Sequence[str], made: Collection[str], out: str
) -> tuple[dict[str, str], dict[int, str]]:
    """Where in `out` each name of ours is written, and copies, by number, of those that are not made by themselves."""
    targets: dict[str, str] = {}
    copies: dict[int, str] = {}
    for k, (gradient, name) in enumerate(zip(gradients, names, strict=True)):
        place = _place(gradient, len(gradients), out)
        if name in made and name not in targets:
            targets[name] = place
        else:  # a cotangent as it came, or a gradient that is another one's as well
            copies[k] = f"{place}.copy_({name})"
    return targets, copies


def _place(gradient: str, count: int, out: str) -> str:
    return f"{out}.{gradient}" if count > 1 else out


# --- what is compared ------------------------------------------------------------------------------------------------


def compared_together(pair: Pair, gradients: Sequence[str]) -> str:
    """As arguments of a decorator: where a loss and its gradients are written, and what is read."""
    loss = pair.d.op.outputs[0]
    out = pair.names.out
    places = [_Named(f"{out}[0]", loss, pair.forward_layouts[loss]), *_gradients(pair, gradients, f"{out}[1]")]
    return _compared(pair, places, *_forward_reads(pair))


def _compared_forward(pair: Pair, written: Mapping[str, str]) -> str:
    names = {pair.names.tensors.get(n, n): n for n in (*pair.d.op.outputs, *pair.kept)}
    roots = looked_at(pair.forward_printed.lines, _tensors(pair, pair.forward_layouts))
    seen = set(roots.values())
    found = ((c, n, roots.get(c, c if c in seen else "")) for c, n in names.items() if c in written)
    places = [_Named(written[c], n, pair.forward_layouts[n], root) for c, n, root in found]
    return _compared(pair, places, *_forward_reads(pair))


def _compared_backward(pair: Pair, gradients: Sequence[str]) -> str:
    axes = {size: axis for axis, size in pair.names.sizes.items()}
    lengths = {f.name: axes[f.name] for f in pair.saved if f.note == "a length"}
    read = [
        _Named(pair.names.tensors.get(n, n), n, pair.backward_layouts[n]) for n in (*pair.cotangents, *pair.kept)
    ]
    return _compared(pair, _gradients(pair, gradients, pair.names.out), read, lengths)


def _forward_reads(pair: Pair) -> tuple[list[_Named], dict[str, str]]:
    """The forward's tensors, and the axes whose lengths are parameters."""
    tensors = [_Named(o.name, o.name, pair.forward_layouts[o.name]) for o in pair.op.operands if o.is_tensor]
    return tensors, {r.given: r.axis.base for r in pair.op.sizes if r.given is not None}


def _gradients(pair: Pair, gradients: Sequence[str], out: str) -> list[_Named]:
    found = zip(gradients, pair.returns, pair.returned, strict=True)
    return [_Named(_place(g, len(gradients), out), r, pair.backward_layouts[r], value) for g, r, value in found]


def _compared(pair: Pair, places: list[_Named], read: list[_Named], lengths: Mapping[str, str]) -> str:
    """Where is written and what is read, each with its axes, and how the lengths follow that no tensor has."""
    known = {axis for t in read for axis in t.dims if axis is not None} | set(lengths.values())
    wanted = [axis for t in places for axis in t.dims if axis is not None]
    parts = parts_of(pair.d, known, pair.backward_layouts.dims)
    derived = []
    for axis in wanted:
        try:
            derived += in_turn(pair.d.op, parts, known, [axis], length_said)
        except Unsupported:  # the tensor's own is taken for right
            continue
    given = [*(_text(pair, t) for t in read), *(f"{code} (length): {axis}" for code, axis in lengths.items())]
    texts = [told([_text(pair, t) for t in places]), told(given)]
    return ", ".join([*texts, f"({''.join(derived)})"] if derived else texts)


def _text(pair: Pair, t: _Named) -> str:
    value = f" = {t.value}" if t.value not in ("", t.code.rpartition(".")[2]) else ""
    return f"{t.code}{' (whole)' if t.name in pair.whole else ''}{value}: {said(t.dims)}".rstrip()
