"""A quotient of tensors that is added to another is one call of PyTorch, where the quotient itself is large."""

import inspect

import pytest

from derive import axes, op, scalar, tensor
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.live import assert_derived, module

n, d = axes("n d")


@op
def stepped(f, w: tensor[n, d], m: tensor[n, d], v: tensor[n, d], rate: scalar = 0.1):
    f.y[n, d] = w[n, d] - rate * m[n, d] / (v[n, d] ** 2 + 1)
    return f.y


@op
def shared_out(f, w: tensor[n, d], m: tensor[n], v: tensor[n, d].positive):
    f.y[n, d] = m[n] / v[n, d] / 3 + w[n, d]
    return f.y


@op
def of_a_row(f, w: tensor[n, d], m: tensor[n, d], v: tensor[n].positive):
    """To divide by a row's number first is one division a row."""
    f.y[n, d] = w[n, d] + m[n, d] / v[n]
    return f.y


CASES = [
    (stepped, lambda w, m, v: w - 0.1 * m / (v**2 + 1), {"w": (3, 4), "m": (3, 4), "v": (3, 4)}),
    (shared_out, lambda w, m, v: w + m[:, None] / v / 3, {"w": (3, 4), "m": (3,), "v": (3, 4)}),
    (of_a_row, lambda w, m, v: w + m / v[:, None], {"w": (3, 4), "m": (3, 4), "v": (3,)}),
]
SAID = {
    "stepped": "y = torch.addcdiv(w, m, v.square().add_(1), value=-rate)",
    "shared_out": "y = torch.addcdiv(w, m[:, None], v, value=1 / 3)",
}


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES, ids=[made.op.name for made, *_ in CASES])
def test_values_and_gradients(made: OpCall, plain, shapes) -> None:
    assert_derived(made.op, plain, shapes)
    found = verify(made.op)
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


@pytest.mark.parametrize("made", [made for made, *_ in CASES], ids=lambda made: made.op.name)
def test_one_call_where_it_spares_passes(made: OpCall) -> None:
    code = inspect.getsource(getattr(module(made.op), f"{made.op.name}_forward"))
    said = SAID.get(made.op.name)
    assert said in code if said else "addcdiv" not in code, code
