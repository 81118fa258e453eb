"""The lines of the generated code and the equations that they compute."""

import re
from html import unescape

import pytest

from derive.catalogue import find
from derive.pipeline import derivation_of
from derive.show.book.listing import listings


def paired(name: str, way: int) -> dict[str, tuple[str, ...]]:
    """Each line of a listing that has equations, up to its sign of equality, and these."""
    lines = listings(derivation_of(find(name)))[way].lines
    texts = [(unescape(re.sub("<[^>]+>", "", line.html)).strip(), line.keys) for line in lines]
    return {text.split(" = ")[0]: keys for text, keys in texts if keys}


def test_a_line_belongs_to_the_equation_of_what_it_sets_and_a_helper_to_all_it_serves() -> None:
    assert paired("layernorm", 0) == {
        name: (f"forward-{name}",) for name in ("mu", "x_minus_mu", "var", "rstd", "xhat", "y")
    }
    assert paired("layernorm", 1) == {
        "dy_xhat": ("backward-dx", "backward-dgamma"),
        "mean_dxhat_xhat": ("backward-dx",),
        "mean_dxhat": ("backward-dx",),
        "dx": ("backward-dx", "backward-dxhat"),  # gamma * dy is written out in it
        "dgamma": ("backward-dgamma",),
        "dbeta": ("backward-dbeta",),
    }


def test_what_is_passed_on_belongs_to_the_return() -> None:
    returned = "return AddGradients(dz if need_dx else None, dz if need_dy else None)"
    assert paired("add", 1) == {returned: ("backward-dx", "backward-dy")}


def test_what_is_changed_in_place_belongs_to_its_equation() -> None:
    lines = paired("softmax_cross_entropy", 1)
    assert [keys for text, keys in lines.items() if text.startswith("dz")] == [("backward-dz",)] * 2


@pytest.mark.parametrize("way", [0, 1])
def test_comments_are_left_out_and_nothing_else(way: int) -> None:
    lines = listings(derivation_of(find("layernorm")))[way].lines
    text = unescape(re.sub("<[^>]+>", "", "\n".join(line.html for line in lines)))
    assert "#" not in text
    compile(text, "listing", "exec")
