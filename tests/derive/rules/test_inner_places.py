"""A sum that a condition keeps from the ends of an axis runs over the places between them, by slices."""

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive import axes, exp, index, log, mean, ne, op, scalar, size, sum, tensor, where
from derive.notation.spec import OpCall
from derive.verify.verify import verify
from tests.derive.live import as_tuple, assert_alike, assert_derived_at, chooses, module

c, h, n, s, t, v, w = axes("c h n s t v w")
five = axes("five=5")


@op
def total_variation(f, x: tensor[n, h, w]):
    down = sum(where(h + 1 < size(h), abs(x[n, h + 1, w] - x[n, h, w]), 0), over=(h, w))
    across = sum(where(w + 1 < size(w), abs(x[n, h, w + 1] - x[n, h, w]), 0), over=(h, w))
    f.y[n] = down + across
    return f.y


@op
def second_differences(f, x: tensor[n, t]):
    bend = (x[n, t + 1] - 2 * x[n, t] + x[n, t - 1]) ** 2
    f.y[()] = mean(where((t >= 1) & (t + 1 < size(t)), bend, 0), over=(n, t))
    return f.y


@op
def weighted_places(f, x: tensor[n, t], a: tensor[t]):
    """The places themselves are counted from where they were."""
    f.y[n] = sum(where(t > 1, a[t] * t * x[n, t - 2] * x[n, t], 0), over=t)
    return f.y


@op
def pairs_apart(f, x: tensor[n, t]):
    """One condition is of both axes, and stays."""
    f.y[n] = sum(where((s < t) & (t + 1 < size(t)), x[n, s] * x[n, t + 1], 0), over=(s, t))
    return f.y


@op
def neighbours(f, x: tensor[t, w]):
    f.y[w] = sum(where(t >= 1, (x[t, w] - x[t - 1, w]) ** 2, 0), over=t)
    return f.y


@op
def of_fixed_length(f, x: tensor[n, five]):
    f.y[n] = sum(where(five >= 2, x[n, five - 2] * x[n, five], 0), over=five)
    return f.y


def _total_variation(x: Tensor) -> Tensor:
    return x.diff(dim=1).abs().sum((1, 2)) + x.diff(dim=2).abs().sum((1, 2))


def _second_differences(x: Tensor) -> Tensor:
    return x.diff(n=2, dim=1).square().sum() / x.numel() if x.shape[1] > 2 else 0 * x.sum()


def _pairs_apart(x: Tensor) -> Tensor:
    later = torch.tensor([[float(s < t and t + 1 < x.shape[1]) for t in range(x.shape[1])] for s in range(x.shape[1])])
    return torch.einsum("ns, nt, st -> n", x, functional.pad(x[:, 1:], (0, 1)), later.to(x.dtype))


PLAIN: dict[str, Callable[..., Tensor]] = {
    "total_variation": _total_variation,
    "second_differences": _second_differences,
    "weighted_places": lambda x, a: (a * torch.arange(len(a)) * x * functional.pad(x, (2, 0))[:, : len(a)]).sum(1),
    "pairs_apart": _pairs_apart,
    "neighbours": lambda x: x.diff(dim=0).square().sum(0),
    "of_fixed_length": lambda x: (x[:, :3] * x[:, 2:]).sum(1),
}
OPS: dict[str, OpCall] = {
    made.op.name: made
    for made in (total_variation, second_differences, weighted_places, pairs_apart, neighbours, of_fixed_length)
}


@pytest.mark.parametrize("length", [1, 2, 3, 6])
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients(name: str, length: int) -> None:
    lengths = {"n": 3, "h": length, "w": 4, "t": length, "five": 5}
    assert_derived_at(OPS[name].op, PLAIN[name], lengths)


@pytest.mark.parametrize("name", OPS)
def test_battery(name: str) -> None:
    found = verify(OPS[name].op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@pytest.mark.parametrize("name", OPS)
def test_nothing_is_computed_to_be_left_out(name: str) -> None:
    code = inspect.getsource(module(OPS[name].op)).partition(f"def {name}_forward")[2]
    assert "place_" not in code
    assert "_padded" not in code
    assert not chooses(code)


def test_differences_of_neighbours_lie_as_their_tensor_does() -> None:
    assert "y_inner = x[1:] - x[:t_inner]" in inspect.getsource(module(neighbours.op))


def test_what_is_put_among_zeros_first_is_not_negated() -> None:
    code = inspect.getsource(module(neighbours.op))
    assert "dx = functional.pad(dy_inner, (0, 0, 1, 0))" in code
    assert "dx[:t_inner] -= dy_inner" in code


@op
def next_token(f, z: tensor[n, t, v], y: index(v)[n, t], skip: scalar = -100):
    f.lse[n, t] = log(sum(exp(z[n, t, v]), over=v))
    nll = f.lse[n, t] - z[n, t, y[n, t + 1]]
    f.loss[()] = sum(where((t + 1 < size(t)) & ne(y[n, t + 1], skip), nll, 0), over=(n, t)) / size(n)
    return f.loss


@op
def next_token_in_two(f, z: tensor[n, t, v], y: index(v)[n, t]):
    f.lse[n, t] = log(sum(exp(z[n, t, v]), over=v))
    nll = f.lse[n, t] - z[n, t, y[n, t + 1]]
    f.nll[n, t] = where(t + 1 < size(t), where(ne(y[n, t + 1], -100), nll, 0), 0)
    f.loss[()] = sum(f.nll[n, t], over=(n, t)) / size(n)
    return f.loss


def _next_token(z: Tensor, y: Tensor) -> Tensor:
    ahead = z[:, :-1].reshape(-1, z.shape[2])
    return functional.cross_entropy(ahead, y[:, 1:].reshape(-1), ignore_index=-100, reduction="sum") / len(z)


@pytest.mark.parametrize("made", [next_token, next_token_in_two], ids=lambda made: made.op.name)
def test_an_index_is_read_by_a_window_under_the_condition_that_keeps_it_inside(made: OpCall) -> None:
    z = torch.randn(3, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.tensor([[0, 6, 2, -100, 6], [1, -100, -100, 3, 3], [-100, 0, 0, 0, -100]])
    (ours,) = as_tuple(getattr(module(made.op), made.op.name)(z, y))
    assert_alike(ours, _next_token(z, y), [z])


@pytest.mark.parametrize("made", [next_token, next_token_in_two], ids=lambda made: made.op.name)
def test_battery_of_indices(made: OpCall) -> None:
    found = verify(made.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


@op
def next_token_kept(f, z: tensor[n, t, v], y: index(v)[n, t]):
    f.loss[()] = sum(where(t + 1 < size(t), -z[n, t, y[n, t + 1]], 0), over=(n, t))
    return f.loss


def test_a_gather_of_a_slice_is_one_of_a_view() -> None:
    code = inspect.getsource(module(next_token_kept.op))
    assert "z[:, :t_inner].gather(2, y[:, 1:].unsqueeze(2))" in code
    assert "dz[:, :t_inner].scatter_add_(2, y[:, 1:].unsqueeze(2)" in code


@op
def path_score(f, em: tensor[n, t, c], tr: tensor[c, c], y: index(c)[n, t]):
    """The score of one labelling of a chain (Lafferty, McCallum & Pereira, 2001)."""
    f.e[n] = sum(em[n, t, y[n, t]], over=t)
    f.s[n] = f.e[n] + sum(where(t > 0, tr[y[n, t - 1], y[n, t]], 0), over=t)
    return f.s


def test_an_index_is_not_guarded_where_it_is_read_throughout() -> None:
    made = module(path_score.op)
    code = "".join(inspect.getsource(getattr(made, f"path_score_{way}")) for way in ("forward", "backward"))
    assert "y_read" not in code and not chooses(code), code
    draw = torch.Generator().manual_seed(0)
    em, tr = (torch.randn(s, dtype=torch.float64, generator=draw).requires_grad_() for s in ((2, 5, 3), (3, 3)))
    y = torch.randint(3, (2, 5), generator=draw)
    plain = em.gather(2, y[:, :, None]).sum((1, 2)) + tr[y[:, :-1], y[:, 1:]].sum(1)
    assert_alike(made.path_score(em, tr, y), plain, [em, tr])
