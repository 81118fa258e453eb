"""What is written more than once gets a name where it is written whole, and nowhere else."""

from derive.backends.torch.reads.ranges import ranges_named, views_named
from derive.backends.values import Line

D, T = "torch.arange(d, device=x.device)", "torch.arange(t, device=x.device)"


def _codes(lines: list[Line]) -> list[str]:
    return [line.code for line in lines]


def test_a_comparison_with_more_dimensions_is_another() -> None:
    lines = [
        Line(f"a = torch.where({D}[:, None] == {T}, u, 0)"),
        Line(f"b = torch.where({D}[:, None] == {T}, v, 0)"),
        Line(f"c = torch.where({D}[:, None] == {T}[:, None, None], w, 0)"),
    ]
    *_, a, b, c = _codes(ranges_named(lines, lambda name: name))
    assert a == "a = torch.where(d_is_t, u, 0)" and b == "b = torch.where(d_is_t, v, 0)"
    assert c == "c = torch.where(d_range[:, None] == t_range[:, None, None], w, 0)"


def test_a_tensor_whose_name_ends_alike_is_another() -> None:
    view = "x.unflatten(0, (t, d))"
    lines = [Line(f"a = {view}"), Line(f"b = {view}.exp()"), Line(f"c = max_{view} + {view}")]
    *_, c = _codes(views_named(lines, {"x"}, lambda name: name))
    assert c == "c = max_x.unflatten(0, (t, d)) + x_apart"
