"""What tensors, axes and lengths are called in C."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from derive.ir.program import base

_RESERVED = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    real threads status scratch chunk chunks piece pieces task at from to few first last block lane adds tile place
    row slice slices heap heaps share shares R before above rows_near row_near places added weight at
    main bool true false asm""".split()  # noqa: SIM905
)
_SHARED = frozenset(
    """at_most at_least team batch_team first_of_chunk first_of_chunks chunks_of first_of_piece blocks columns
    column_blocks whole_rows bytes take all_below larger smaller fill add_up largest smallest square
    TILE_ROWS TILE_COLUMNS STEPS
    cube whole_power product sum_of_products tile_of near NEAR HIGH LOW FEW_ROWS blas use_blas malloc free
    reserve release spare kept next width fresh KEPT VECTOR rows_together TOGETHER NEARBY FAR_OFF LANES FOUR
    IN_FOURS IN_VECTORS IN_LANES sum_of_four largest_of_four smallest_of_four sum_of_lanes largest_of_lanes
    smallest_of_lanes whole eight_lanes four_lanes PART_OF_VECTOR EXTREMUM_OF_LANES OF_FOUR PLUS STRIP TILE BLOCK
    LONG STRETCH PLANE ROWS COLUMNS SPAN BUNDLE ABREAST SHORT TALL WIDE NO_MEMORY BAD_INDEX PLAIN TRANSPOSED NULL NAN
    INFINITY REAL INLINE SHARED IS_FLOAT STAYS FOURS WRAPPED CHOOSE LIBRARY HUGE_PAGE ONE_FLOAT NEAREST_FLOAT
    VECTOR_BYTES unix linux NARROW MANY many_rows CHUNK SIDE NO_SIDE side
    axis edge windowed windowed_result widened product_of_windows offsets done lane omp_get_thread_num errno""".split()  # noqa: SIM905
)
_SUFFIXES = tuple(  # of our own variables
    """_here _total _block _end _from _to _part _parts _rows _new _nan _pieces _columns _tile _tiles _last _few
    _four _at _lanes _one _packed _plane _near _finite""".split()  # noqa: SIM905
)
_PREFIXES = ("i_", "n_", "given_n_", "first_", "phase_", "shift_", "real_", "number_", "utf_")


_MACROS = re.compile(r"[A-Z][A-Z0-9_]*[A-Z][A-Z0-9_]*")
"""How C's headers spell their macros, M_PI and INT64_MAX, which no list could hold all of."""


Sizes = Callable[[str], str]
"""What the length of an axis is called."""


def tensor_name(tensor: str) -> str:
    """A tensor's name, with one underscore more after what C or we have for something else, so that two stay two."""
    name = in_ascii(tensor)
    stem = name.rstrip("_")
    ours = tensor.startswith(_PREFIXES) or stem.endswith(_SUFFIXES)
    return f"{name}_" if ours or stem in _RESERVED | _SHARED or _MACROS.fullmatch(stem) else name


def in_ascii(name: str) -> str:
    """A name in letters that all compilers know; not all do others, and PyTorch's operators have none."""
    if name.isascii():
        return name
    return "utf_" + "".join(c if c.isascii() and c != "U" else f"U{ord(c):x}_" for c in name)


def axis_name(axis: str) -> str:
    """`row` for `...`, and a number for each prime of a bound copy."""
    stem, *rest = in_ascii(axis).split("'")
    stem = "rows_" if stem == "rows" else stem.replace("...", "rows")  # which stands alone, or in the name of a merge
    return "_".join([stem, *(r or "1" for r in rest)])


def variable(axis: str) -> str:
    """What the place on an axis is called in C."""
    return f"i_{axis_name(axis)}"


def length(axis: str) -> str:
    """What the length of an axis is called in C."""
    return f"n_{axis_name(base(axis))}"


def extent(axes: Iterable[str], size: Sizes = length) -> str:
    """How many places the axes have together."""
    return " * ".join(map(size, axes)) or "1"


def times(*factors: str) -> str:
    """A product, its ones left out."""
    return " * ".join(f for f in factors if f != "1") or "1"
