"""What is made of one element is made before the padding: the backward keeps no longer copy of an input."""

from torch import Tensor
from torch.nn import functional

from derive import axes, op, size, sum, tensor, where
from derive.pipeline import derivation_of
from derive.verify.verify import verify
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

n, c, h, z = axes("n c h z=5")


@op
def by_neighbours(f, x: tensor[n, c, h]):
    """Divided by the energy of the channels around (Krizhevsky et al., 2012)."""
    inside = (c + z >= 2) & (c + z - 2 < size(c))
    f.q[n, c, h] = sum(where(inside, x[n, c + z - 2, h] ** 2, 0), over=z)
    f.y[n, c, h] = x[n, c, h] / (2 + f.q[n, c, h]) ** 2
    return f.y


@op
def of_two(f, x: tensor[n, c], y: tensor[n, c]):
    """Both are padded alike."""
    inside = (c + z >= 2) & (c + z - 2 < size(c))
    f.s[n, c] = sum(where(inside, x[n, c + z - 2] * y[n, c + z - 2], 0), over=z)
    return f.s


@op
def read_twice(f, x: tensor[n, c]):
    """The padded tensor is read by itself as well: it is padded once."""
    inside = (c + z >= 2) & (c + z - 2 < size(c))
    f.a[n, c] = sum(where(inside, x[n, c + z - 2], 0), over=z)
    f.b[n, c] = sum(where(inside, x[n, c + z - 2] ** 2, 0), over=z)
    f.y[n, c] = f.b[n, c] - f.a[n, c] ** 2
    return f.y


def _around(x: Tensor) -> Tensor:
    return functional.pad(x.movedim(1, -1), (2, 2)).unfold(-1, 5, 1).sum(-1).movedim(-1, 1)


def test_gradients() -> None:
    assert_derived(by_neighbours.op, lambda x: x / (2 + _around(x.square())) ** 2, {"x": (3, 7, 4)})
    assert_derived(of_two.op, lambda x, y: _around(x * y), {"x": (3, 6), "y": (3, 6)})
    assert_derived(read_twice.op, lambda x: _around(x * x) - _around(x) ** 2, {"x": (3, 6)})
    for made in (by_neighbours.op, of_two.op, read_twice.op):
        assert verify(made).right


def test_no_padded_input_is_kept() -> None:
    for made in (by_neighbours.op, of_two.op):
        assert not any("padded" in name for name in derivation_of(made).kept)
    assert "functional.pad(x.square(), (0, 0, 2, 2))" in code_of(by_neighbours.op)
    assert "functional.pad(x * y, (2, 2))" in code_of(of_two.op)


def test_what_is_read_by_itself_too_is_padded_once() -> None:
    assert code_of(read_twice.op).split("_backward(")[0].count("functional.pad(") == 1
