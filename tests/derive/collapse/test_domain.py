"""No form divides by what may be 0 where the chain rule does not: nor by a choice one of whose branches is 0."""

import pytest
import torch

from derive import axes, exp, maximum, minimum, op, sigmoid, tanh, tensor, where
from derive.collapse.saving import POLICIES
from derive.errors import DeriveError
from derive.output.live import build

n, d = axes("n d")


@op
def side_of_a_place(f, x: tensor[n, d], w: tensor[n]):
    """`dw` is a sum of `dx` over what of the extremum `x[n, 0]` gets: nothing, where `w` is the larger."""
    f.y[n, d] = tanh(maximum(w[n], x[n, 0]))
    return f.y


@op
def multiple_or_last_place(f, x: tensor[n, d], w: tensor[n]):
    f.y[n, d] = tanh(minimum(3 * w[n], x[n, -1]))
    return f.y


@op
def one_number_or_first_place(f, x: tensor[n], w: tensor[()]):
    f.y[n] = exp(maximum(w[()], x[0]))
    return f.y


@op
def square_or_first_place(f, x: tensor[n], w: tensor[()]):
    f.y[n] = tanh(maximum(w[()] ** 2, x[0]))
    return f.y


@op
def row_or_column_place(f, x: tensor[n, d], w: tensor[d]):
    f.y[n, d] = sigmoid(maximum(x[n, 0], minimum(w[d], x[0, d])))
    return f.y


@op
def shift_where_scaled_away(f, x: tensor[n, d], b: tensor[n], w: tensor[n]):
    """`db = sum(dx)/slope` would hold but for the rows whose slope is 0."""
    f.y[n, d] = tanh(where(w[n] > 0, 0, w[n]) * x[n, d] + b[n])
    return f.y


@op
def shift_beside_a_slope_of_0(f, x: tensor[n, d], b: tensor[n], w: tensor[n]):
    f.y[n, d] = tanh((1 + w[n]) * x[n, d] + b[n])
    return f.y


def rows(x: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    return of[:, None].expand(x.shape)


PLAIN = {
    side_of_a_place: lambda x, w: rows(x, torch.tanh(torch.maximum(w, x[:, 0]))),
    multiple_or_last_place: lambda x, w: rows(x, torch.tanh(torch.minimum(3 * w, x[:, -1]))),
    one_number_or_first_place: lambda x, w: torch.exp(torch.maximum(w, x[0])).expand(len(x)),
    square_or_first_place: lambda x, w: torch.tanh(torch.maximum(w**2, x[0])).expand(len(x)),
    row_or_column_place: lambda x, w: torch.sigmoid(torch.maximum(x[:, :1], torch.minimum(w, x[0]))),
    shift_where_scaled_away: lambda x, b, w: torch.tanh(torch.where(w > 0, 0, w)[:, None] * x + b[:, None]),
    shift_beside_a_slope_of_0: lambda x, b, w: torch.tanh((1 + w)[:, None] * x + b[:, None]),
}


@pytest.mark.parametrize("save", POLICIES)
@pytest.mark.parametrize("spec", PLAIN, ids=lambda s: s.op.name)
def test_gradients_in_either_branch(spec, save: str) -> None:
    """With the one side larger in some rows, the other in others, and a tie in one."""
    try:
        made = build(spec, save)
    except DeriveError as refusal:
        assert save == "output" and "no gradient can be read from an output" in str(refusal)
        return
    generator = torch.Generator().manual_seed(0)
    sizes = {"n": 7, "d": 5}
    for trial in range(4):
        given = [
            torch.randn([sizes[a.name] for a in o.axes], generator=generator, dtype=torch.float64).requires_grad_()
            for o in spec.op.operands
        ]
        if trial == 0:
            with torch.no_grad():
                given[0].flatten()[0] = given[-1].flatten()[0] = 1  # a tie, but of 3*w
        if trial == 1:
            with torch.no_grad():
                given[-1].fill_(-1)  # a slope of 0
        y = PLAIN[spec](*given)
        dy = torch.randn(y.shape, generator=generator, dtype=torch.float64)
        want = torch.autograd.grad(y, given, dy)
        out, saved = made.forward(*(t.detach() for t in given))
        torch.testing.assert_close(out, y.detach(), rtol=1e-12, atol=1e-12)
        for g, w in zip(made.backward(dy, *saved), want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-10, atol=1e-10)
