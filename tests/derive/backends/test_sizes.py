"""How code asks for lengths."""

from derive.backends.code import Name
from derive.backends.torch.sizes import Sizes
from derive.ir.program import Window
from derive.ir.terms.axes import Axis, Size


def test_lengths_are_asked_for_in_one_order_whatever_their_hashes() -> None:
    """The first asked for is the first that the function says."""
    asked: list[str] = []

    def of(axis: str) -> str:
        asked.append(axis)
        return axis

    axes = "abcdefg"
    rest = sum(Size(Axis(a)) for a in axes)
    sizes = Sizes(of, str, lambda: Name("cpu"), set(), lambda _: 0, lambda *_: True, lambda *_: rest)
    assert sizes.behind("a", Window((("a", 1),), 0)) == "a + b + c + d + e + f + g"
    assert asked == list(axes)
