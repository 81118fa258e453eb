"""`stop` lets no gradient through, of any order, and is no operation; `clamp` passes the whole gradient at its ends."""

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.autograd import grad

import derive
from derive import amax, axes, clamp, constant, mean, op, scalar, sqrt, stop, tanh, tensor, where
from derive.errors import DeriveError
from derive.notation.spec import OpCall
from derive.output.package import write_package
from tests.derive.against_loops import code_of

n, d, t = axes("n d t")


@op
def held(f, x: tensor[n, d], w: tensor[d]):
    f.s[n] = sqrt(mean(x[n, d] ** 2, over=d))
    f.y[n, d] = w[d] * x[n, d] ** 2 / stop(f.s[n])
    return f.y


@op
def own_copy(f, x: tensor[n, d]):
    f.s[n, d] = stop(x[n, d] ** 2)
    f.y[n, d] = f.s[n, d] * x[n, d]
    return f.y, f.s


@op
def straight_through(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] ** 2 + stop(where(x[n, d] > 0, 1, 0) - x[n, d] ** 2)
    return f.y


@op
def by_largest(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] ** 3 / stop(amax(abs(x[n, d]), over=d))
    return f.y


@op
def clamped(f, x: tensor[n, d], low: scalar = -1.0, high: scalar = 1.0):
    f.y[n, d] = clamp(x[n, d], low, high) ** 2 + clamp(x[n, d], low=0) * x[n, d] + clamp(x[n, d] ** 2, high=2)
    return f.y


@op
def clamped_by_tensors(f, x: tensor[n, d], low: tensor[d], high: tensor[d]):
    f.y[n, d] = clamp(x[n, d], low[d], high[d]) ** 3
    return f.y


@op
def beside_its_state(f, x: tensor[n, t], h0: tensor[n]):
    """A state that is carried on, and one that is a stopped copy of it."""
    f.h[n, -1] = h0[n]
    f.p[n, -1] = stop(h0[n])
    f.h[n, t] = tanh(x[n, t] + clamp(f.h[n, t - 1], -0.5, 0.5) * f.p[n, t - 1])
    f.p[n, t] = stop(f.h[n, t])
    return f.h


def _beside_its_state(x: Tensor, h: Tensor) -> Tensor:
    made, p = [], h.detach()
    for x_t in x.unbind(1):
        h = (x_t + h.clamp(-0.5, 0.5) * p).tanh()
        p = h.detach()
        made.append(h)
    return torch.stack(made, 1)


def _held(x: Tensor, w: Tensor) -> Tensor:
    return w * x**2 / x.square().mean(1, keepdim=True).sqrt().detach()


def _clamped(x: Tensor) -> Tensor:
    return x.clamp(-1, 1) ** 2 + x.clamp(min=0) * x + (x**2).clamp(max=2)


X = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
W = torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=torch.float64)
ENDS = torch.tensor([[-1.0, 1.0, 0.0, -0.0], [2.0, -2.0, 0.5, 1.5]], dtype=torch.float64)
LOW, HIGH = torch.tensor([-1.0, 0.0, 0.5, -2.0]).double(), torch.tensor([1.0, 0.1, 0.75, 3.0]).double()
CASES = [
    (held, _held, (X, W)),
    (own_copy, lambda x: ((x**2).detach() * x + 0 * x**3, 0 * x**3 + (x**2).detach()), (X,)),
    (straight_through, lambda x: x**2 + ((x > 0).double() - x**2).detach(), (X,)),
    (by_largest, lambda x: x**3 / x.abs().amax(1, keepdim=True).detach(), (X,)),
    (beside_its_state, _beside_its_state, (X, X[:, 0] / 3)),
    (clamped, _clamped, (X,)),
    (clamped, _clamped, (ENDS,)),
    (clamped_by_tensors, lambda x, low, high: x.clamp(low, high) ** 3, (X, LOW, HIGH)),
]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    root = tmp_path_factory.mktemp("stopped")
    sys.path.insert(0, str(root))
    write_package(list(dict.fromkeys(made.op for made, _, _ in CASES)), root / "stopped_ops", order=2, proven=False)
    importlib.invalidate_caches()
    yield importlib.import_module("stopped_ops")
    sys.path.remove(str(root))


@pytest.mark.parametrize(("made", "reference", "given"), CASES)
def test_values_and_first_and_second_derivatives(
    functions: ModuleType, made: OpCall, reference: Callable[..., object], given: tuple[Tensor, ...]
) -> None:
    leaves = [t.clone().requires_grad_() for t in given]
    found = _orders(getattr(functions, made.op.name), leaves)
    for one, other in zip(found, _orders(reference, leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def _orders(function: Callable[..., object], leaves: list[Tensor]) -> list[Tensor]:
    """The outputs, their gradients by random cotangents, and the gradients of these."""
    out = function(*leaves)
    outputs = [y for y in (out if isinstance(out, tuple) else (out,)) if isinstance(y, Tensor)]
    generator = torch.Generator().manual_seed(5)

    def weighed(tensors: list[Tensor]) -> Tensor:
        return sum((t * torch.randn(t.shape, dtype=t.dtype, generator=generator)).sum() for t in tensors)

    first = grad(weighed(outputs), leaves, create_graph=True, materialize_grads=True)
    nothing = 0 * sum(t.sum() for t in leaves)  # where no gradient depends on an input
    second = grad(weighed(list(first)) + nothing, leaves, materialize_grads=True)
    return [*outputs, *first, *second]


def test_stop_is_no_operation() -> None:
    code = code_of(held.op)
    assert "stop" not in code and "detach" not in code
    assert "clamp" in code_of(clamped.op).split("def clamped_backward")[0]


def test_what_is_held_gets_no_gradient_of_infinity() -> None:
    """A stopped root at 0, of which the slope is infinite: 0 times it would be nan."""

    @op
    def of_a_root(f, x: tensor[n], z: constant[n]):
        f.y[n] = x[n] * z[n] + stop(sqrt(x[n]))
        return f.y

    x, z = torch.zeros(3, dtype=torch.float64, requires_grad=True), torch.ones(3, dtype=torch.float64)
    derive.build(of_a_root).function(x, z).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 1]


def test_ends_that_are_none_are_refused() -> None:
    x = _element()
    with pytest.raises(DeriveError, match=r"clamp\(\) has no end; write clamp\(x, -1, 1\)"):
        clamp(x)
    with pytest.raises(DeriveError, match=r"clamp\(…, 2, 1\): its low end is above its high one; exchange them"):
        clamp(x, 2, 1)


def _element() -> object:
    found = []

    @op
    def reads(f, x: tensor[n]):
        found.append(x[n])
        f.y[n] = x[n] ** 2
        return f.y

    return found[0]
