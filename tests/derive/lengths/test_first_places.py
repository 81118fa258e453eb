"""A read by an axis of fewer places, where both lengths are fixed, is one of the first places."""

import pytest

from derive import axes, op, sum, tensor
from derive.errors import DeriveError
from derive.verify.verify import verify
from tests.derive.live import assert_derived

n = axes("n")
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
