"""Matrix products in C: one call for every value of the batch axes, through the BLAS that the runtime hands over."""

from __future__ import annotations

from derive.backends.cpu.expressions import Expressions
from derive.backends.cpu.loops.forms import Scratch
from derive.backends.cpu.loops.nests import decode
from derive.backends.cpu.names import extent, times, variable
from derive.backends.cpu.products.matrices import Matrix, Product
from derive.backends.cpu.products.windows import print_windowed
from derive.backends.cpu.statements.normal import Normal
from derive.backends.cpu.writer import Writer


def print_product(p: Product, form: Normal, out: Writer, scratch: Scratch, adds: str = "") -> None:
    """A call of the matrix product, for every value of the batch axes; `adds` says when it adds to what is there."""
    if p.windowed:
        print_windowed(p, form, out, scratch, adds)
        return
    text = Expressions(form)
    out.comment(p.note)
    alpha = " * ".join(text.value(x).real.inside(7) for x in p.alpha) or "1"
    a = _side(p.a, p.rows, p.inner, p.batch, text)
    b = _side(p.b, p.inner, p.columns, p.batch, text)
    c = _side(p.out, p.rows, p.columns, p.batch, text)
    sizes = f"{extent(p.rows)}, {extent(p.columns)}, {extent(p.inner)}"
    call = f"product({a}, {b}, {c}, {sizes}, {alpha}, {{}});"
    if adds:
        call = f"sum_of_products({a}, {b}, {c}, {sizes}, {alpha}, {adds}, {{}});"
    if not p.batch:
        out.line(call.format("threads"))
        return
    count = extent(p.batch)
    together = f"batch_team(threads, {count})"
    out.line(f"#pragma omp parallel for num_threads({together}) schedule(static)")
    with out.loop("at", "0", count):
        decode(out, p.batch, "at")
        out.line(call.format(f"threads / {together}"))


def _side(m: Matrix, rows: tuple[str, ...], columns: tuple[str, ...], batch: tuple[str, ...], text: Expressions) -> str:
    """An operand: where it begins, whether it lies transposed, and how far apart its rows are."""
    steps = [times(variable(a), extent(m.stride((a,)))) for a in batch if a in m.dims]
    start = " + ".join([text.name(m.name), *steps])
    flipped = bool(rows) and m.dims[-1:] == rows[-1:]
    outer, inner = (columns, rows) if flipped else (rows, columns)
    lead = extent(m.stride(outer)) if outer else extent(inner)
    return f"{start}, {'TRANSPOSED' if flipped else 'PLAIN'}, {lead}"
