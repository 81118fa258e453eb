"""Reductions over the taps of windows in torch: the mean, the sum or an extremum of every window is a pool.

They are made one dimension after another, of slices: PyTorch's pools take a CPU 2 to 50 times as long, but where there
are few windows, wide and some places from one another (3 times as fast for 7 x 7 of 16 x 16). PyTorch's are called for
maxima along one dimension and means there of windows some places apart, and where nothing is to be fused. A sum of
windows some places apart is one of slices as well, in a fifth to a half of the time of PyTorch's sum of the windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.backends.code import ALL, NEW, Slice, as_code, call, method, negative
from derive.backends.torch.reads.slices import reached, sliced, stretch
from derive.backends.torch.reductions.boxes import said
from derive.backends.values import Value, is_pack, squeeze
from derive.ir.nodes.arithmetic import multiplied
from derive.ir.program import Node, Read, Reduce, SizeOf, Window

if TYPE_CHECKING:
    from derive.backends.torch.printer import Printer

_KINDS = {"mean", "sum", "amax", "amin"}
_EXTREMA = {"amax": "torch.maximum", "amin": "torch.minimum"}
_MOST = 3  # dimensions that torch pools over


def is_pool(node: Node) -> bool:
    """Whether every window over the last dimensions of a tensor is reduced to its mean, sum or an extremum."""
    if not isinstance(node, Reduce) or node.kind not in _KINDS or not isinstance(node.body, Read):
        return False
    index = node.body.index
    windows = [i for i in index if isinstance(i, Window)]
    plain = index[: len(index) - len(windows)]
    steps = [a for w in windows for a, _ in w.steps]
    return bool(
        1 <= len(windows) <= _MOST
        and all(len(w.steps) == 2 and all(step > 0 for _, step in w.steps) for w in windows)
        and plain
        and all(isinstance(i, str) and not is_pack(i) for i in plain)
        and len({*plain, *steps}) == len(index) + len(windows)
        and len(node.axes) == len(windows)
        and all(len({a for a, _ in w.steps} & set(node.axes)) == 1 for w in windows)
        and (node.kind in _EXTREMA or all(step == 1 for w in windows for a, step in w.steps if a in node.axes))
    )


def pooled(printer: Printer, node: Reduce) -> Value | None:
    """One call for the mean, sum or an extremum of every window; None for any other reduction."""
    if not is_pool(node) or not isinstance(node.body, Read):
        return None
    code = printer.as_real(node.body, squeeze(printer.stored(node.body.name)))
    dims, width, stride, dilation, out = code.dims, [], [], [], []
    for k, i in enumerate(node.body.index):
        if not isinstance(i, Window):
            out.append(str(i))
            continue
        ((tap, d),) = [s for s in i.steps if s[0] in node.axes]
        ((place, step),) = [s for s in i.steps if s[0] not in node.axes]
        start = printer.number(i.offset)
        if not printer.sizes.tight(str(dims[k]), i):
            reach = reached(step, printer.size(place), d, printer.size(tap))
            code = sliced(code, k, stretch(start, reach))
        elif start != "0":
            code = sliced(code, k, Slice(start))
        width.append(printer.size(tap))
        stride.append(str(step))
        dilation.append(str(d))
        out.append(place)
    if not printer.fuse and (node.kind != "sum" or len(width) > 1):  # the call that an operation of the equations is
        return _pool(printer, node.kind, code, (width, stride, dilation), out)
    sides = range(len(code.dims) - len(width), len(code.dims))
    widths = dict(zip(sides, width, strict=True))
    steps, gaps = (dict(zip(sides, some, strict=True)) for some in (stride, dilation))
    more = {"steps": said(steps) if set(stride) != {"1"} else None}
    if node.kind in _EXTREMA and (node.kind == "amin" or len(width) > 1):
        more["apart"] = said(gaps) if set(dilation) != {"1"} else None
        return Value(call("over_windows", _EXTREMA[node.kind], code, said(widths), **more), tuple(out))
    if node.kind == "sum" or (node.kind == "mean" and (stride == ["1"] or len(width) > 1)):
        sums = Value(call("window_sums", code, said(widths), **more), tuple(out))
        places = printer.number(multiplied([SizeOf(a) for a in node.axes]))
        return sums if node.kind == "sum" else sums.method("div_", places)
    return _pool(printer, node.kind, code, (width, stride, dilation), out)


def _pool(
    printer: Printer, kind: str, code: Value, windows: tuple[list[str], list[str], list[str]], out: list[str]
) -> Value:
    """The call of PyTorch's pool: how wide its windows are, how far they lie from one another, and what is in them."""
    width, stride, dilation = map(_together, windows)
    options = {
        "stride": stride,
        "dilation": None if dilation == "1" else dilation,
        "divisor_override": 1 if kind == "sum" else None,
    }
    pool = f"functional.{'max' if kind in _EXTREMA else 'avg'}_pool{len(windows[0])}d"
    plain = out[: len(out) - len(windows[0])]
    signed = negative if kind == "amin" else as_code
    if len(plain) == 2:
        return Value(signed(call(pool, signed(code.code), width, **options)), tuple(out))
    # torch takes rows alone for channels, of which there must be one; it pools behind two dimensions, no more
    rows = (code if len(plain) == 1 else code.method("flatten", 0, len(plain) - 1)).at(ALL, NEW)
    made = method(call(pool, signed(rows.code), width, **options), "squeeze", 1)
    apart = method(made, "unflatten", 0, printer.shape(tuple(plain))) if len(plain) > 1 else made
    return Value(signed(apart), tuple(out))


def _together(numbers: list[str]) -> str:
    return numbers[0] if len(set(numbers)) == 1 else f"({', '.join(numbers)})"
