"""sum(a) - sum(a*s) is summed as a*(1 - s), which is as exact as autograd where both sums are nearly equal."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from derive import axes, constant, exp, index, log, mean, op, scalar, sigmoid, sqrt, sum, tanh, tensor, where
from derive.notation.spec import OpCall
from derive.pipeline import derive_op
from tests.derive.live import module

n, d, k, e, t, s, p = axes("n d k e t s p=2")


@op
def slope_by_kind(f, x: tensor[n, d], a: tensor[k], kind: index(k)[n]):
    f.y[n, d] = x[n, d] * tanh(a[kind[n]] * x[n, d])
    return f.y


@op
def outer_gate(f, x: tensor[n, e], z: tensor[d]):
    """The sum over d of dy * s alone is read as well."""
    f.y[n, d] = x[n, 0] * sigmoid(x[n, 0] + z[d])
    return f.y


@op
def repeated(f, x: tensor[n, d], o: tensor[k]):
    f.a[()] = exp(o[0]) ** 2
    f.c[n, d] = tanh(f.a[()] * o[0])
    return f.c


@op
def two_gates(f, x: tensor[n, d], w: tensor[p, d]):
    """The sums stand at places of their own."""
    f.y[n, d] = sigmoid(w[0, d] * x[n, d]) - sigmoid(w[1, d] * x[n, d] + 1)
    return f.y


PLAIN: list[tuple[OpCall, dict[str, tuple[int, ...]], Callable[..., Tensor]]] = [
    (slope_by_kind, {"x": (9, 8), "a": (3,)}, lambda x, a, kind: x * torch.tanh(a[kind][:, None] * x)),
    (outer_gate, {"x": (9, 2), "z": (8,)}, lambda x, z: x[:, :1] * torch.sigmoid(x[:, :1] + z)),
    (two_gates, {"x": (9, 8), "w": (2, 8)}, lambda x, w: torch.sigmoid(w[0] * x) - torch.sigmoid(w[1] * x + 1)),
]


@pytest.mark.parametrize(("spec", "shapes", "plain"), PLAIN, ids=lambda p: p.op.name if isinstance(p, OpCall) else "")
def test_float32(spec: OpCall, shapes: dict[str, tuple[int, ...]], plain: Callable[..., Tensor]) -> None:
    function = getattr(module(spec.op), spec.op.name)
    kind = [torch.arange(9) % 3] if spec is slope_by_kind else []
    errors = torch.zeros(2, len(shapes))
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        at = [10 * torch.randn(s, generator=generator) for s in shapes.values()]
        dy = torch.randn(9, 8, generator=generator)

        def gradients(forward: Callable[..., Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
            leaves = [t.to(dtype).requires_grad_() for t in at]  # noqa: B023
            return torch.autograd.grad(forward(*leaves, *kind), leaves, dy.to(dtype))  # noqa: B023

        truth = gradients(plain, torch.float64)
        for row, forward in enumerate((function, plain)):
            for column, (got, want) in enumerate(zip(gradients(forward, torch.float32), truth, strict=True)):
                errors[row, column] += float((got - want).norm() / want.norm())
    assert (errors[0] <= 2 * errors[1]).all(), errors


def test_two_sums_that_two_statements_read() -> None:
    assert "sum(dc[n, d] * (1 - c[n, d]**2), over=(d, n))" in str(derive_op(repeated.op).backward)


@op
def decaying(f, x: tensor[n, t], decay: tensor[()]):
    f.y[n, t] = sum(where((s <= t) & (t - s < 4), x[n, s] * exp(-decay[()] * (t - s)), 0), over=s)
    return f.y


@op
def decaying_in_time(f, x: tensor[n, t], time: constant[t], decay: tensor[()]):
    f.y[n, t] = sum(where((s <= t) & (t - s < 4), x[n, s] * exp(-decay[()] * (time[t] - time[s])), 0), over=s)
    return f.y


@pytest.mark.parametrize("spec", [decaying, decaying_in_time])
def test_a_difference_is_taken_before_it_is_multiplied(spec: OpCall) -> None:
    """`decay*t - decay*s` of places far from 0 has no digits of `decay*(t - s)`."""
    length = 2000
    generator = torch.Generator().manual_seed(0)
    x, dy = (torch.randn(3, length, generator=generator, dtype=torch.float64) for _ in range(2))
    time = [torch.arange(float(length))] if spec is decaying_in_time else []

    def gradient(dtype: torch.dtype) -> Tensor:
        at = x.to(dtype).requires_grad_()
        times = [u.to(dtype) for u in time]
        y = getattr(module(spec.op), spec.op.name)(at, *times, torch.tensor(0.7, dtype=dtype))
        return torch.autograd.grad(y, at, dy.to(dtype))[0]

    truth = gradient(torch.float64)
    assert float((gradient(torch.float32) - truth).norm() / truth.norm()) < 1e-6


@op
def apart_by_more_than_nothing(f, x: tensor[n, d], z: tensor[n, d], eps: scalar = 1e-6):
    f.y[n] = sqrt(sum((x[n, d] - z[n, d] + eps) ** 2, over=d))
    return f.y


def test_a_number_is_added_to_a_difference_after_it_is_taken() -> None:
    """`x + eps - z` is `x - z` where they are large, and the distance has no gradient where they are equal."""
    x = torch.full((2, 3), 100.0, requires_grad=True)
    y = module(apart_by_more_than_nothing.op).apart_by_more_than_nothing(x, x.detach().clone())
    torch.testing.assert_close(y, torch.full((2,), 3**0.5 * 1e-6))
    (dx,) = torch.autograd.grad(y, x, torch.tensor([0.4, -1.3]))
    torch.testing.assert_close(dx, torch.tensor([[0.4], [-1.3]]).expand(2, 3) / 3**0.5)


@op
def odds(f, p_: tensor[n]):
    f.y[n] = p_[n] / (1 - p_[n] + 1e-8)
    return f.y


@op
def surprise(f, p_: tensor[n], eps: scalar = 1e-8):
    f.y[n] = log(1 - p_[n] + eps)
    return f.y


@op
def sine(f, c: tensor[n]):
    f.y[n] = sqrt(1e-12 + (1 - c[n] ** 2))
    return f.y


@op
def from_logit(f, x: tensor[n]):
    f.y[n] = log(1 - sigmoid(x[n]) + 1e-8)
    return f.y


@op
def cross_entropy_of_probabilities(f, p_: tensor[n], t_: constant[n]):
    f.loss[()] = -mean(t_[n] * log(p_[n] + 1e-8) + (1 - t_[n]) * log(1 - p_[n] + 1e-8), over=n)
    return f.loss


AS_WRITTEN: list[tuple[OpCall, float, Callable[..., Tensor]]] = [
    (odds, 1.0, lambda p: p / (1 - p + 1e-8)),
    (surprise, 1.0, lambda p: (1 - p + 1e-8).log()),
    (sine, 1.0, lambda c: (1 - c**2 + 1e-12).sqrt()),
    (from_logit, 20.0, lambda x: (1 - x.sigmoid() + 1e-8).log()),
    (cross_entropy_of_probabilities, 1.0, lambda p, y: -(y * (p + 1e-8).log() + (1 - y) * (1 - p + 1e-8).log()).mean()),
]


@pytest.mark.parametrize(("spec", "at", "plain"), AS_WRITTEN, ids=lambda p: p.op.name if isinstance(p, OpCall) else "")
def test_a_small_number_is_added_last(spec: OpCall, at: float, plain: Callable[..., Tensor]) -> None:
    """In float32 `1.00000001 - p` is 0 where `p` is 1; `1 - p + 1e-8` is not."""
    x = torch.tensor([at, at / 2, at / 3], requires_grad=True)
    others = [torch.tensor([1.0, 0.0, 0.3])] if spec is cross_entropy_of_probabilities else []
    ours, theirs = getattr(module(spec.op), spec.op.name)(x, *others), plain(x, *others)
    torch.testing.assert_close(ours, theirs)
    dy = torch.randn_like(theirs)
    torch.testing.assert_close(torch.autograd.grad(ours, x, dy), torch.autograd.grad(theirs, x, dy))


def test_numbers_of_one_size_are_one() -> None:
    @op
    def shifted(f, x: tensor[n]):
        f.y[n] = 1 + x[n] + 2
        return f.y

    assert [e.name for e in shifted.op.equations] == ["y"]


i, j = axes("i j")


@op
def bounded_pairs(f, x: tensor[i], w: tensor[j]):
    """A number of places less the sum of squares."""
    f.y[i] = sum(tanh(x[i] - w[j]), over=j)
    return f.y


@op
def share_above(f, x: tensor[i], w: tensor[j]):
    """The mean is an output, which stands for the sum of what it is of."""
    f.y[i] = mean(sigmoid(x[i] - w[j]), over=j)
    return f.y


@op
def soft_place(f, x: tensor[i], tau: scalar = 0.1):
    f.y[i] = sum(sigmoid((x[i] - x[j]) / tau), over=j)
    return f.y


SATURATED: list[tuple[OpCall, Callable[..., Tensor], bool]] = [
    (bounded_pairs, lambda x, w: torch.tanh(x[:, None] - w).sum(1), True),
    (share_above, lambda x, w: torch.sigmoid(x[:, None] - w).mean(1), True),
    (soft_place, lambda x: torch.sigmoid((x[:, None] - x) / 0.1).sum(1), False),
]


@pytest.mark.parametrize(("spec", "plain", "two"), SATURATED, ids=lambda p: p.op.name if isinstance(p, OpCall) else "")
def test_what_many_saturated_values_leave(spec: OpCall, plain: Callable[..., Tensor], two: bool) -> None:
    errors = torch.zeros(2)
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        x, w, dy = (torch.randn(size, generator=generator) for size in (300, 400, 300))
        at = [x + 7, w - 1] if two else [10 * x]

        def gradients(forward: Callable[..., Tensor], dtype: torch.dtype) -> Tensor:
            leaves = [t.to(dtype).requires_grad_() for t in at]  # noqa: B023
            return torch.autograd.grad(forward(*leaves), leaves[0], dy.to(dtype))[0]  # noqa: B023

        truth = gradients(plain, torch.float64)
        for row, forward in enumerate((getattr(module(spec.op), spec.op.name), plain)):
            errors[row] += float((gradients(forward, torch.float32) - truth).norm() / truth.norm())
    assert errors[0] <= 2 * errors[1], errors
