"""A read by an axis of fewer places, where both lengths are fixed, is one of the first places."""

import pytest

from derive import axes, op, sigmoid, size, sum, tensor
from derive.errors import DeriveError
from derive.verify.verify import verify
from tests.derive.live import assert_derived

n, d, e = axes("n d e")
two, three, four = axes("two=2 three=3 four=4")


@op
def projected(f, x: tensor[n, three]):
    """Seen by a pinhole: places on a plane."""
    f.y[n, two] = x[n, two] / x[n, 2]
    return f.y


@op
def moved(f, h: tensor[four, four], x: tensor[n, three]):
    f.y[n, three] = sum(h[three, four] * h[four, three], over=four) * x[n, three] + h[three, 3]
    return f.y


def test_gradients() -> None:
    assert_derived(projected.op, lambda x: x[:, :2] / x[:, 2:], {"x": (5, 3)})
    assert_derived(moved.op, lambda h, x: (h[:3] * h[:, :3].T).sum(1) * x + h[:3, 3], {"h": (4, 4), "x": (5, 3)})
    for made in (projected, moved):
        assert verify(made.op).right


def test_what_has_fewer_places_is_not_read_by_more() -> None:
    with pytest.raises(DeriveError, match="length 2, which is never 3"):

        @op
        def beyond(f, x: tensor[n, two]):
            f.y[n, three] = 2 * x[n, three]
            return f.y

        _ = beyond.op


@op
def gated(f, x: tensor[n, d]):
    f.y[n, e] = x[n, e] * sigmoid(x[n, e + size(d) // 2])
    return f.y


@op
def gated_apart(f, x: tensor[n, d]):
    f.z[n, two, e] = x[n, (two, e)]
    f.y[n, e] = f.z[n, 0, e] * sigmoid(f.z[n, 1, e])
    return f.y


@op
def thirds(f, x: tensor[n, d]):
    f.y[n, e] = x[n, e] * sigmoid(x[n, e + size(d) // 3]) * x[n, e + 2 * size(d) // 3]
    return f.y


def test_what_to_write_for_parts_of_an_axis() -> None:
    """Both of what the error names are accepted, and right."""
    with pytest.raises(DeriveError) as refused:

        @op
        def halves(f, x: tensor[n, d]):
            f.y[n, e] = x[n, e] * sigmoid(x[n, e + size(e)])
            return f.y

    assert "say where in d a part of it begins, e + size(d) // 2, or take it apart" in str(refused.value)
    assert 'f.z[…, p, e] = x[…, (p, e)] with p = axes("p=2"), and read f.z[…, 1, e]' in str(refused.value)
    with pytest.raises(DeriveError, match=r"e \+ size\(d\) // 3, or take it apart .* axes\(\"p=3\"\)"):

        @op
        def parts(f, x: tensor[n, d]):
            f.y[n, e] = x[n, e] * sigmoid(x[n, e + size(e)]) * x[n, e + 2 * size(e)]
            return f.y

    for made in (gated, gated_apart):
        assert_derived(made.op, lambda x: x[:, :3] * x[:, 3:].sigmoid(), {"x": (5, 6)})
    assert_derived(thirds.op, lambda x: x[:, :2] * x[:, 2:4].sigmoid() * x[:, 4:], {"x": (5, 6)})
