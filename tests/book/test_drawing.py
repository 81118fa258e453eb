"""The drawing of axes, read off the equations."""

from derive.catalogue import find
from derive.pipeline import derivation_of
from derive.show.book.drawing import drawing


def marks(op: str, name: str) -> dict[str, tuple[str, ...]]:
    row = next(row for row in drawing(derivation_of(find(op))).rows if row.name == name)
    return {cell.axis: cell.marks for cell in row.cells}


def sentence(op: str, name: str) -> str:
    return next(row.sentence for row in drawing(derivation_of(find(op))).rows if row.name == name)


def test_broadcast_is_summed_and_a_reduction_is_spread() -> None:
    assert marks("layernorm", "x") == {"...": ("has",), "d": ("has",)}
    assert marks("layernorm", "gamma") == {"...": ("summed",), "d": ("has",)}
    assert marks("layernorm", "mu") == {"...": ("has",), "d": ("summed", "spread")}


def test_a_gather_and_a_window_add_up_at_places() -> None:
    assert marks("embedding", "C")["v"] == ("has",)
    assert "placed" in {m for cell in marks("embedding", "C").values() for m in cell}
    assert {axis for axis, found in marks("conv1d", "x").items() if "placed" in found}


def test_a_contraction_is_summed_for_each_operand_over_what_the_other_has() -> None:
    assert [axis for axis, found in marks("matmul", "a").items() if found == ("summed",)] != []


def test_the_drawing_in_words() -> None:
    assert sentence("layernorm", "gamma") == (
        "has the axis d; is broadcast along the axis ..., so the backward sums over it."
    )
    assert sentence("layernorm", "y") == "has the axes ... and d."
    assert sentence("softmax_cross_entropy", "loss").startswith("is what a reduction over the axis n leaves, so")
