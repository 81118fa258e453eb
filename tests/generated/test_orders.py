"""Every op of the catalogue differentiated twice, in reverse and forward mode, and mapped: against independent forwards."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from derive.catalogue import catalogue
from derive.ir.equations import Op
from tests.catalogue.references import REFERENCES, sample
from tests.derive.live import as_tuple

OPS = {op.name: op for op in catalogue()}
EXACT = 1e-9
EVERY = [pytest.param(op, id=op.name) for op in OPS.values()]
SAMPLE = ("softmax", "layernorm", "linear", "gelu", "max_pool2d", "softmax_cross_entropy", "embedding", "concatenate")
FEW = [pytest.param(op, id=op.name, marks=[] if op.name in SAMPLE else pytest.mark.slow) for op in OPS.values()]
Function = Callable[..., tuple[Tensor, ...]]


@contextmanager
def in_plain_products() -> Iterator[None]:
    """Attention of PyTorch's that has a second derivative."""
    with sdpa_kernel(SDPBackend.MATH):
        yield


class Case:
    """An op's call: ours and an independent forward, as functions of the real inputs alone."""

    def __init__(self, op: Op, variant: str = "odd", package: str = "generated"):
        self.op, self.module = op, importlib.import_module(f"{package}.{op.name}")
        self.args, self.numbers = sample(op, 0, torch.float64, variant)
        tensors = [o for o in op.operands if o.is_tensor]
        self.real = [k for k, o in enumerate(tensors) if o.differentiable]
        self.ours = partial(self._call, getattr(self.module, op.name))
        self.theirs = partial(self._call, REFERENCES[op.name].forward)

    @property
    def leaves(self) -> list[Tensor]:
        return [self.args[k].clone().requires_grad_() for k in self.real]

    def _call(self, function: Callable[..., Any], *real: Tensor) -> tuple[Tensor, ...]:
        args = list(self.args)
        for k, x in zip(self.real, real, strict=True):
            args[k] = x
        return as_tuple(function(*args, **self.numbers))

    def like(self, tensors: Sequence[Tensor], seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [torch.randn(t.shape, generator=generator, dtype=torch.float64) for t in tensors]


def same(name: str, found: Sequence[Tensor | None], wanted: Sequence[Tensor | None]) -> None:
    for k, (got, want) in enumerate(zip(found, wanted, strict=True)):
        want = torch.zeros_like(got) if want is None and got is not None else want
        if want is None:
            continue
        got = torch.zeros_like(want) if got is None else got
        assert got.shape == want.shape, f"{name}, {k}"
        bound = EXACT * max(1.0, float(want.abs().max()) if want.numel() else 0.0)
        off = (got - want).abs().max() if want.numel() else torch.tensor(0.0)
        assert off <= bound, f"{name}, {k}: off by {off}, of {want.abs().max()}"


def second(
    f: Function, leaves: list[Tensor], dys: list[Tensor], seconds: Sequence[Tensor | None]
) -> Sequence[Tensor | None]:
    """What cotangents of the gradients give the real inputs, and the cotangents where they are followed."""
    first = torch.autograd.grad(f(*leaves), leaves, dys, create_graph=True, allow_unused=True)
    pairs = [(g, s) for g, s in zip(first, seconds, strict=True) if g is not None and s is not None and g.requires_grad]
    by = [*leaves, *(dy for dy in dys if dy.requires_grad)]
    if not pairs:
        return [None] * len(by)
    return torch.autograd.grad([g for g, _ in pairs], by, [s for _, s in pairs], allow_unused=True)


@pytest.mark.parametrize("op", EVERY)
def test_second_derivatives(op: Op) -> None:
    """By the inputs where the cotangents are constant, and by both; of all gradients, and of each alone."""
    case = Case(op)
    with in_plain_products():
        outputs = case.theirs(*case.leaves)
        dys = case.like(outputs, 1)
        seconds = case.like(case.leaves, 2)
        alone = [[s if j == k else None for j, s in enumerate(seconds)] for k in range(len(seconds))]
        for of in (seconds, *(alone if len(alone) > 1 else ())):
            same("by the inputs", second(case.ours, case.leaves, dys, of), second(case.theirs, case.leaves, dys, of))
            followed = [dy.clone().requires_grad_() for dy in dys]
            both = (second(f, case.leaves, followed, of) for f in (case.ours, case.theirs))
            same("by the cotangents too", *both)


@pytest.mark.parametrize("op", EVERY)
def test_tangents(op: Op) -> None:
    """Of all inputs, and of each alone: PyTorch's zeros for the others, which are not computed with."""
    case = Case(op)
    primals = [x.detach() for x in case.leaves]
    tangents = case.like(primals, 3)
    with in_plain_products():
        wanted = torch.func.jvp(case.theirs, tuple(primals), tuple(tangents))
        found = torch.func.jvp(case.ours, tuple(primals), tuple(tangents))
        same("outputs and tangents", _flat(found), _flat(wanted))
        for k, (x, t) in enumerate(zip(primals, tangents, strict=True)):

            def of_one(f: Function, given: Tensor, k: int = k) -> tuple[Tensor, ...]:
                return f(*primals[:k], given, *primals[k + 1 :])

            found, wanted = (torch.func.jvp(partial(of_one, f), (x,), (t,)) for f in (case.ours, case.theirs))
            same(f"of input {k}", _flat(found), _flat(wanted))


@pytest.mark.parametrize("op", FEW)
def test_vmap(op: Op) -> None:
    """Over each real input alone, and over all: outputs, gradients, tangents and second derivatives, as one by one."""
    case = Case(op)
    first = [x.detach() for x in case.leaves]
    outputs = case.ours(*first)
    dys, seconds, tangents = case.like(outputs, 4), case.like(first, 5), case.like(first, 6)

    def gradients(*real: Tensor) -> tuple[Tensor, ...]:
        return torch.func.vjp(case.ours, *real)[1](tuple(dys))

    def of_gradients(*real: Tensor) -> tuple[Tensor, ...]:
        return torch.func.vjp(gradients, *real)[1](tuple(seconds))

    def forwards(*real: Tensor) -> Any:
        return torch.func.jvp(case.ours, real, tuple(tangents))

    def reverse_then_forwards(*real: Tensor) -> Any:
        return torch.func.jvp(gradients, real, tuple(tangents))

    functions = {f.__name__: f for f in (gradients, of_gradients, forwards, reverse_then_forwards)}
    functions["outputs"] = case.ours  # type: ignore[assignment]
    dims = [tuple(0 if j == k else None for j in range(len(first))) for k in range(len(first))]
    for in_dims in dict.fromkeys([*dims, (0,) * len(first)]):
        several = [torch.stack([x, 0.5 * x + 0.3, -x]) if d == 0 else x for x, d in zip(first, in_dims, strict=True)]
        if any((x <= 0).any() for x in several) and _only_positive(op):
            several = [x.abs() + 0.1 for x in several]
        for name, function in functions.items():
            found = torch.func.vmap(function, in_dims)(*several)
            each = [function(*(x[k] if d == 0 else x for x, d in zip(several, in_dims, strict=True))) for k in range(3)]
            wanted = [torch.stack(own) for own in zip(*map(_flat, each), strict=True)]
            same(f"{name} over {in_dims}", _flat(found), wanted)


def _only_positive(op: Op) -> bool:
    return "positive" in REFERENCES[op.name].domains.values()


def _flat(found: Any) -> list[Tensor]:
    return [found] if isinstance(found, Tensor) else [t for each in found for t in _flat(each)]


@pytest.mark.parametrize("op", FEW)
def test_hessians(op: Op) -> None:
    """By reverse over reverse, forward over reverse and reverse over forward: of small calls, of a sum of all outputs."""
    case = Case(op, "tiny")
    first = [x.detach() for x in case.leaves]
    weights = case.like(case.theirs(*first), 7)
    by = tuple(range(len(first)))

    def of(f: Function) -> Function:
        return lambda *real: sum((w * y).sum() for w, y in zip(weights, f(*real), strict=True))

    with in_plain_products():
        wanted = _flat(torch.autograd.functional.hessian(of(case.theirs), tuple(first)))
        same("functional", _flat(torch.autograd.functional.hessian(of(case.ours), tuple(first))), wanted)
    reverse, forward = torch.func.jacrev, torch.func.jacfwd
    for outer, inner in ((reverse, reverse), (forward, reverse), (reverse, forward)):
        found = _flat(outer(inner(of(case.ours), by), by)(*first))
        same(f"{outer.__name__}({inner.__name__})", found, wanted)


@pytest.mark.parametrize("op", FEW)
def test_gradgradcheck(op: Op) -> None:
    case = Case(op, "tiny")
    assert torch.autograd.gradgradcheck(case.ours, case.leaves, atol=1e-4)
    more = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert torch.autograd.gradcheck(case.ours, case.leaves, atol=1e-4, **more)


def test_norms_are_right_in_reverse_over_forward_mode_where_pytorch_may_not_be() -> None:
    """At the points of pytorch#196700 and pytorch#196699: against reverse over reverse mode of PyTorch's own."""
    package, f64 = importlib.import_module("generated"), torch.float64

    def layer(norm: Callable[..., Tensor], t: Tensor) -> Tensor:
        x = torch.stack((t, torch.zeros((), dtype=f64))).reshape(1, 2)
        return norm(x, torch.tensor([1, 2], dtype=f64), torch.zeros(2, dtype=f64)).sum()

    def batch(norm: Callable[..., Tensor], t: Tensor) -> Tensor:
        x = torch.stack([(i + 1) * t + (i % 3 - 1) * t * t + i for i in range(8)]).reshape(2, 2, 2)
        x = x.transpose(1, 2).reshape(4, 2)
        y = norm(x, torch.tensor([1.5, -0.5], dtype=f64), torch.tensor([0.25, 1], dtype=f64))
        return (y * torch.arange(8, dtype=f64).add(1).reshape(2, 2, 2).transpose(1, 2).reshape(4, 2)).sum()

    forms = (
        (layer, 0.7, 0.7749142079590942, lambda x, w, b: package.layernorm(x, w, b, 0.25)),
        (batch, -6.0, -0.20703015646993195, lambda x, w, b: package.batchnorm(x, w, b, 0.25, 0)),
    )
    for function, at, right, norm in forms:
        of, t = partial(function, norm), torch.tensor(at, dtype=f64)
        tangent = lambda t, of=of: torch.func.jvp(of, (t,), (torch.ones_like(t),))[1]  # noqa: E731
        assert float(torch.func.grad(tangent)(t)) == pytest.approx(right, rel=1e-12)
        assert float(torch.func.jvp(torch.func.grad(of), (t,), (torch.ones_like(t),))[1]) == pytest.approx(right, rel=1e-12)
        with pytest.raises(RuntimeError, match="forward over forward mode"):
            torch.func.jvp(tangent, (t,), (torch.ones_like(t),))


def test_an_output_that_is_saved_makes_no_backward_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """softmax keeps its output: a second derivative reads that, and goes on to the input alone."""
    module = importlib.import_module("generated.softmax")
    ran, backward = [], module.softmax_backward
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    p = module.softmax(x)
    (dx,) = torch.autograd.grad(p, x, torch.randn_like(p), create_graph=True)
    monkeypatch.setattr(module, "softmax_backward", lambda *given, **needs: ran.append(1) or backward(*given, **needs))
    torch.autograd.grad(dx, x, torch.randn_like(x))
    assert not ran


# --- what is missing, what is empty, what is kept ------------------------------------------------------------------


def test_what_is_missing_is_none_and_is_left_out() -> None:
    """By name: of every set of cotangents and tangents what the given ones alone give."""
    module = importlib.import_module("generated.orders.layernorm")
    x, gamma, beta, dy = (torch.randn(s, dtype=torch.float64) for s in ((3, 7), (7,), (7,), (3, 7)))
    _, saved = module.layernorm_forward(x, gamma, beta)
    given = [torch.randn(s, dtype=torch.float64) for s in ((3, 7), (7,), (7,))]
    alone = [[t if j == k else None for j, t in enumerate(given)] for k in range(3)]
    whole = module.layernorm_double_backward(*given, dy, *saved)
    parts = [module.layernorm_double_backward(*of, dy, *saved) for of in alone]
    assert parts[2][1:] == (None, None, None)  # of the shift's gradient, which depends on the cotangent alone
    for k, want in enumerate(whole[:3]):
        torch.testing.assert_close(sum(p[k] for p in parts if p[k] is not None), want, rtol=1e-10, atol=1e-12)
    assert whole[3] is None
    assert module.layernorm_double_backward(None, None, None, dy, *saved) == (None,) * 4
    asked = module.layernorm_double_backward(*given, dy, *saved, needs=(False, True, False, False))
    assert asked[0] is None and asked[2] is None
    torch.testing.assert_close(asked[1], whole[1], rtol=0, atol=0)
    tangents = [module.layernorm_jvp(*of, *saved) for of in alone]
    torch.testing.assert_close(sum(tangents), module.layernorm_jvp(*given, *saved), rtol=1e-10, atol=1e-12)
    assert module.layernorm_jvp(None, None, None, *saved) is None


@pytest.mark.parametrize("name", ["softmax", "layernorm", "softmax_cross_entropy", "batchnorm"])
@pytest.mark.parametrize("variant", ["empty", "ones", "ties", "strided"])
def test_other_inputs(name: str, variant: str) -> None:
    """Empty and single axes, ties, strides; cotangents and tangents of one number."""
    if (variant == "empty" and name in ("softmax_cross_entropy", "batchnorm")) or (variant, name) == ("ones", "batchnorm"):
        pytest.skip("the statistics of nothing, or of one place, are not finite")
    case = Case(OPS[name], variant)
    dys = [torch.tensor(1.7, dtype=y.dtype).expand(y.shape) for y in case.theirs(*case.leaves)]
    seconds = [torch.tensor(0.3, dtype=x.dtype).expand(x.shape) for x in case.leaves]
    same(variant, second(case.ours, case.leaves, dys, seconds), second(case.theirs, case.leaves, dys, seconds))
    primals = tuple(x.detach() for x in case.leaves)
    found, wanted = (torch.func.jvp(f, primals, tuple(seconds)) for f in (case.ours, case.theirs))
    same(variant, _flat(found), _flat(wanted))


def test_an_input_that_only_the_graph_goes_on_to_is_not_held() -> None:
    """softmax keeps its output, and of its input no values; a gradient of a gradient goes on to what made the input."""
    w = torch.randn(400, 400, dtype=torch.float64, requires_grad=True)
    p = importlib.import_module("generated").softmax(w * 1.5)
    assert [t.untyped_storage().nbytes() > 8 for t in p.grad_fn.saved_tensors] == [True, False]
    dp, ddw = torch.randn_like(p), torch.randn_like(p)
    (dw,) = torch.autograd.grad(p, w, dp, create_graph=True)
    (found,) = torch.autograd.grad(dw, w, ddw)
    (dw,) = torch.autograd.grad(torch.softmax(w * 1.5, -1), w, dp, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(dw, w, ddw)[0], rtol=1e-10, atol=1e-12)


def test_what_no_gradient_needs_is_not_kept() -> None:
    """Of a frozen weight: neither order reads the input then."""
    linear = importlib.import_module("generated").linear
    x, w, b = torch.randn(4, 5, requires_grad=True), torch.randn(5, 3), torch.randn(3)
    kept = linear(x, w, b).grad_fn.saved_tensors
    assert [t is None for t in kept] == [True, False]
    x, w = x.double().detach().requires_grad_(), w.double()
    (dx,) = torch.autograd.grad(linear(x, w, b.double()).pow(3).sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(dx.square().sum(), x)
    (dx,) = torch.autograd.grad((x @ w + b.double()).pow(3).sum(), x, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(dx.square().sum(), x)[0], rtol=1e-10, atol=1e-12)


def test_a_third_derivative_is_an_error_that_names_the_op() -> None:
    softmax = importlib.import_module("generated").softmax
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    of = softmax(x)[:, 0].sum()
    for _ in range(2):
        (g,) = torch.autograd.grad(of, x, create_graph=True)
        of = g.pow(2).sum()
    with pytest.raises(RuntimeError, match="softmax is differentiable twice"):
        of.backward()
    with pytest.raises(RuntimeError, match="softmax is differentiable twice: forward over forward mode"):
        torch.func.jacfwd(torch.func.jacfwd(softmax))(x.detach())


def test_orders_are_imported_when_they_are_asked_for() -> None:
    script = (
        "import sys, torch, generated; x = torch.randn(3, requires_grad=True); generated.softmax(x)[0].backward();"
        "assert not any('orders' in m for m in sys.modules if m.startswith('generated')); torch.func.vmap(generated.softmax)(x[None]);"
        "assert 'generated.orders.softmax' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
