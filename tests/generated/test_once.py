"""What has no further derivatives, of the first order or compiled: a gradient that is differentiated again is an error,
never a constant.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils.checkpoint import checkpoint

from derive.catalogue import find
from derive.output.live import build
from generated import _support, add, layernorm, relu, silu

ONCE = "{0} is differentiable once: its backward has no derivative; where a gradient is differentiated again, write {0} in plain PyTorch"


def once(name: str) -> Callable[..., Tensor]:
    """An op of the catalogue of the first order alone."""
    return build(find(name), proven=False)


def inputs() -> list[Tensor]:
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((4, 5), (5,), (5,))]


def gradient(of: Tensor, x: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(of, x, create_graph=True)
    return found


@pytest.mark.parametrize("cotangent", ["constant", "followed"])
@pytest.mark.parametrize("how", ["backward", "grad of the input", "grad of another"])
def test_a_gradient_penalty_is_an_error(cotangent: str, how: str) -> None:
    x, gamma, beta = inputs()
    y = once("layernorm")(x.sin(), gamma, beta)
    score = y.square().sum() if cotangent == "followed" else (y * torch.randn(4, 5)).sum()
    loss = score + x.sum() + gradient(score, x).square().sum()
    with pytest.raises(RuntimeError, match=re.escape(ONCE.format("layernorm"))):
        if how == "backward":
            loss.backward()
        else:
            torch.autograd.grad(loss, x if how == "grad of the input" else gamma)


def test_an_input_that_is_not_kept_is_still_followed() -> None:
    """`silu` keeps its derivative, which autograd knows nothing of."""
    x = inputs()[0]
    score = once("silu")(x).sum()
    with pytest.raises(RuntimeError, match=re.escape(ONCE.format("silu"))):
        torch.autograd.grad(gradient(score, x).sum() + score, x)


@pytest.mark.parametrize("name", ["relu", "add", "sum_rows"])
def test_gradients_that_are_constant_stay_so(name: str) -> None:
    """Of what is linear, the second derivative is that of what comes before it."""
    x = inputs()[0]
    y = x.exp()
    found = gradient(once(name)(*[y] * (2 if name == "add" else 1)).sum(), x)
    want = torch.autograd.grad(found.sum(), x)[0]
    torch.testing.assert_close(want, found.detach())


def test_linear_ops_do_not_pass_a_derivative_on() -> None:
    x = inputs()[0]
    with pytest.raises(RuntimeError, match=re.escape(ONCE.format("add"))):
        gradient(gradient(once("add")(x, x).exp().sum(), x).sum(), x)


def test_an_input_that_nothing_follows() -> None:
    x, w, b = (torch.randn(s, dtype=torch.float64) for s in ((4, 5), (5, 3), (3,)))
    b.requires_grad_()
    with pytest.raises(RuntimeError, match=re.escape(ONCE.format("linear"))):
        gradient(gradient(once("linear")(x, w, b).square().sum(), b).sum(), b)


def test_first_derivatives_with_a_graph_are_as_without() -> None:
    given = inputs()
    layernorm(*given).square().sum().backward()
    want = [t.grad for t in given]
    again = [t.detach().requires_grad_() for t in given]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a cycle between a tensor and its gradient
        layernorm(*again).square().sum().backward(create_graph=True)
    torch.testing.assert_close([t.grad.detach() for t in again], want)  # type: ignore[union-attr]
    assert torch.autograd.gradcheck(layernorm, inputs())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant: bool) -> None:
    given = inputs()
    checkpoint(layernorm, *given, use_reentrant=reentrant).square().sum().backward()
    want = torch.autograd.grad(layernorm(*given).square().sum(), given)
    torch.testing.assert_close([t.grad for t in given], list(want))


# --- under torch.compile ---------------------------------------------------------------------------------------------

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
OF_PYTORCH = "torch.compile with aot_autograd does not currently support double backward"  # of every function


def penalty_of(score: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, *others: gradient(score(x, *others), x).square().sum()


@pytest.fixture
def traced_gradients() -> Iterator[None]:
    """`torch.autograd.grad` in a compiled function is compiled as well, and breaks no graph."""
    torch.compiler.reset()
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        yield
    torch.compiler.reset()


@pytest.fixture
def scores(request: pytest.FixtureRequest) -> Callable[..., Tensor]:
    weights = torch.randn(4, 5, dtype=torch.float64)
    by_name: dict[str, Callable[..., Tensor]] = {
        "followed cotangent": lambda x, g, b: layernorm(x.sin(), g, b).pow(3).sum(),
        "constant cotangent": lambda x, g, b: (layernorm(x.sin(), g, b) * weights).sum(),
        "an input that is not kept": lambda x, g, b: silu(x * g).sum(),
        "linear": lambda x, g, b: add(x, g.expand(4, 5)).exp().sum(),
        "two in a row": lambda x, g, b: relu(layernorm(x, g, b)).sum(),
    }
    return by_name[request.param]


ALL = ["followed cotangent", "constant cotangent", "an input that is not kept", "linear", "two in a row"]
NAMED = re.compile(
    r"(layernorm|silu|add) is differentiable once: its backward has no derivative; "
    r"where a gradient is differentiated again, leave \1 out of torch\.compile"
)


@pytest.mark.parametrize("scores", ALL, indirect=True)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_penalty_outside_a_compiled_function(backend: str, scores: Callable[..., Tensor]) -> None:
    """Compilers through AOTAutograd refuse second derivatives of whatever they compile, and of what they name nothing."""
    torch.compiler.reset()
    given = inputs()
    penalty = penalty_of(torch.compile(scores, backend=backend, fullgraph=True))
    with pytest.raises(RuntimeError, match=NAMED if backend == "eager" else OF_PYTORCH):
        penalty(*given).backward()
    assert all(t.grad is None for t in given)


@pytest.mark.parametrize("scores", ALL, indirect=True)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_penalty_inside_a_compiled_function(
    traced_gradients: None, backend: str, scores: Callable[..., Tensor]
) -> None:
    given = inputs()
    compiled = torch.compile(penalty_of(scores), backend=backend, fullgraph=True)
    with pytest.raises(Exception, match=NAMED):  # a compiler has its own class for what goes wrong while it compiles
        compiled(*given).backward()
    assert all(t.grad is None for t in given)


@pytest.mark.parametrize("scores", ["followed cotangent", "linear"], indirect=True)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_penalty_of_a_compiled_function_inside_another(backend: str, scores: Callable[..., Tensor]) -> None:
    torch.compiler.reset()
    given = inputs()
    inner = torch.compile(scores, backend=backend)
    outer = torch.compile(penalty_of(inner), backend=backend)
    with pytest.raises(RuntimeError, match=NAMED if backend == "eager" else OF_PYTORCH):
        outer(*given).backward()
    assert all(t.grad is None for t in given)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_with_a_penalty_that_is_compiled_as_a_whole(traced_gradients: None, backend: str) -> None:
    def step(x: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(penalty_of(lambda *a: layernorm(*a).pow(3).sum())(x, g, b), (x, g))

    with pytest.raises(Exception, match=NAMED):
        torch.compile(step, backend=backend)(*inputs())


@pytest.mark.parametrize("scores", ALL, indirect=True)
@pytest.mark.parametrize("backend", BACKENDS)
def test_first_derivatives_are_compiled_as_ever(backend: str, scores: Callable[..., Tensor]) -> None:
    torch.compiler.reset()
    given, plain = inputs(), scores
    want = torch.autograd.grad(plain(*given), given, allow_unused=True)
    torch.compile(scores, backend=backend, fullgraph=True)(*given).backward()
    for t, w in zip(given, want, strict=True):
        assert (t.grad is None) == (w is None)
        if w is not None:
            assert t.grad is not None and not t.grad.requires_grad
            torch.testing.assert_close(t.grad, w)


def test_compilers_find_nothing_to_compute_of_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a call in the graphs nor a tensor more that is kept for the backward."""

    def graphs() -> list[str]:
        found: list[str] = []

        def compiler(graph: torch.fx.GraphModule, _: Any) -> Any:
            found.append(str([(node.op, node.target) for node in graph.graph.nodes]))
            return make_boxed_func(graph.forward)

        torch.compiler.reset()
        backend = aot_autograd(fw_compiler=compiler)
        torch.compile(lambda x, g, b: silu(layernorm(x, g, b)).sum(), backend=backend)(*inputs()).backward()
        return found

    guarded = graphs()
    assert len(guarded) == 2 and "addcmul" in guarded[0]
    monkeypatch.setattr(_support, "_watched", lambda op, gradient, cotangents, operands: gradient)
    assert guarded == graphs()
