"""A merged dimension goes by a name of its own, which no axis has and no other: `_` may stand in any of them."""

import pytest
from torch import Tensor

from derive import axes, op, sum, tanh, tensor
from derive.ir.equations import Op
from tests.derive.live import assert_derived

n, a, b, c, a_b, b_c, in_ch, k = axes("n a b c a_b b_c in_ch k")


@op
def of_two_words(f, x: tensor[n, in_ch, k]):
    f.flat[n, (in_ch, k)] = tanh(x[n, in_ch, k])
    f.y[n] = f.flat[n, 2]
    return f.y


@op
def of_leading_axes(f, x: tensor[..., in_ch]):
    f.flat[(..., in_ch),] = tanh(x[..., in_ch])
    f.y[()] = f.flat[2]
    return f.y


@op
def beside_its_words(f, x: tensor[n, a_b, c], w: tensor[a, b]):
    f.flat[n, (a_b, c)] = tanh(x[n, a_b, c])
    f.y[n] = f.flat[n, 2] * sum(w[a, b] ** 2, over=(a, b))
    return f.y


@op
def beside_its_name(f, x: tensor[n, a, b], w: tensor[n, a_b]):
    f.flat[n, (a, b)] = tanh(x[n, a, b])
    f.y[n, a_b] = f.flat[n, 2] * w[n, a_b]
    return f.y


@op
def of_one_name(f, x: tensor[a_b, c], w: tensor[a, b_c]):
    f.p[(a_b, c),] = tanh(x[a_b, c])
    f.q[(a, b_c),] = tanh(w[a, b_c])
    f.y[()] = f.p[2] * f.q[3]
    return f.y


def first_of_flat(x: Tensor) -> Tensor:
    return x.tanh().flatten(-2)[..., 2]


CASES = [
    (of_two_words, first_of_flat, {"x": (2, 3, 5)}),
    (of_leading_axes, first_of_flat, {"x": (3, 5)}),
    (beside_its_words, lambda x, w: first_of_flat(x) * w.square().sum(), {"x": (2, 3, 5), "w": (7, 4)}),
    (beside_its_name, lambda x, w: first_of_flat(x)[:, None] * w, {"x": (2, 3, 5), "w": (2, 4)}),
    (of_one_name, lambda x, w: first_of_flat(x) * w.tanh().flatten()[3], {"x": (3, 5), "w": (7, 2)}),
]


@pytest.mark.parametrize(("spec", "forward", "shapes"), CASES, ids=[spec.op.name for spec, _, _ in CASES])
def test_values_and_gradients(spec, forward, shapes) -> None:
    assert_derived(spec.op, forward, shapes)


def test_names() -> None:
    def names(made: Op) -> dict[str, str]:
        return {name: ", ".join(a.base for a in parts) for name, parts in made.merged.items()}

    assert names(of_two_words.op) == {"in_ch_k": "in_ch, k"}
    assert names(beside_its_name.op) == {"a_b_2": "a, b"}
    assert names(of_one_name.op) == {"a_b_c": "a_b, c", "a_b_c_2": "a, b_c"}
