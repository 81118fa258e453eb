"""What is written more than once gets a name where it is written whole, and nowhere else."""

from derive.backends.torch.reads.ranges import places_named, ranges_named, views_named
from derive.backends.values import Line
from tests.derive.code_of import line_of

D, T = "torch.arange(d, device=x.device)", "torch.arange(t, device=x.device)"


def _codes(lines: list[Line]) -> list[str]:
    return [line.code for line in lines]


def test_a_comparison_with_more_dimensions_is_another() -> None:
    lines = [
        line_of(f"a = torch.where({D}[:, None] == {T}, u, 0)"),
        line_of(f"b = torch.where({D}[:, None] == {T}, v, 0)"),
        line_of(f"c = torch.where({D}[:, None] == {T}[:, None, None], w, 0)"),
    ]
    *_, a, b, c = _codes(ranges_named(lines, lambda name: name))
    assert a == "a = torch.where(d_is_t, u, 0)" and b == "b = torch.where(d_is_t, v, 0)"
    assert c == "c = torch.where(d_range[:, None] == t_range[:, None, None], w, 0)"


def test_a_tensor_whose_name_ends_alike_is_another() -> None:
    view = "x.unflatten(0, (t, d))"
    lines = [line_of(f"a = {view}"), line_of(f"b = {view}.exp()"), line_of(f"c = max_{view} + {view}")]
    *_, c = _codes(views_named(lines, {"x"}, lambda name: name))
    assert c == "c = max_x.unflatten(0, (t, d)) + x_apart"


def test_two_dimensions_as_one_are_so_once_where_that_is_written_often() -> None:
    view = "x.flatten(1, 2)"
    twice = [line_of(f"a = {view}"), line_of(f"b = {view}.exp()")]
    assert _codes(views_named(twice, {"x"}, lambda name: name)) == _codes(twice)
    often = [*twice, line_of(f"c = max_{view} + {view}")]
    first, *_, c = _codes(views_named(often, {"x"}, lambda name: name))
    assert first == f"x_flat = {view}" and c == "c = max_x.flatten(1, 2) + x_flat"
    assert _codes(views_named(often, {"y"}, lambda name: name)) == _codes(often)


def test_a_place_of_two_indices_is_computed_once() -> None:
    place = "(y * w + x)[:, None].expand(-1, c, -1)"
    texts = f"a = im.gather(2, {place})", f"b.scatter_add_(2, {place}, a)", "c = im[y * w + x]"
    lines = [line_of(text) for text in texts]
    first, a, b, c = _codes(places_named(lines, {"x", "y"}, lambda name: name))
    assert first == f"y_x = {place}" and a == "a = im.gather(2, y_x)" and b == "b.scatter_add_(2, y_x, a)"
    assert c == "c = im[y * w + x]"
    assert _codes(places_named(lines, {"y"}, lambda name: name)) == _codes(lines)  # x holds no places
