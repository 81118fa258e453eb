"""How tensors reach a kernel: at once through DLPack where PyTorch offers it, else pointer by pointer."""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.conftest import Package


@pytest.fixture(params=["at once", "by pointers"])
def native(request: pytest.FixtureRequest, package: Package, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = package("layernorm", "embedding", workspace=True)
    runtime = importlib.import_module(f"{made.__name__}._native")
    assert runtime._hand() is not None, "this PyTorch has the interface"
    if request.param == "by pointers":
        monkeypatch.setattr(runtime, "_hand", lambda: None)
    return made


def _inputs(rows: int = 6, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    return torch.randn(rows, 5, dtype=dtype), torch.randn(5, dtype=dtype), torch.randn(5, dtype=dtype)


def _right(made: ModuleType, *given: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, _ = made.layernorm_forward(*given)
    want = torch.nn.functional.layer_norm(given[0], (5,), given[1], given[2])
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("kernels")
@torch.no_grad()
def test_calls_may_change_in_every_way_from_one_to_the_next(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    _right(native, x, gamma, beta)
    _right(native, *_inputs(rows=7))
    _right(native, *_inputs(dtype=torch.float64))
    _right(native, x, torch.nn.Parameter(gamma), beta)
    _right(native, x.expand(4, 6, 5), gamma, beta)
    _right(native, torch.randn(5, 6).t(), gamma, beta)
    _right(native, x[::2], gamma[:1].expand(5), beta)
    _right(native, torch.randn(1, 5, 1).transpose(1, 2), gamma, beta)
    _right(native, x, gamma, beta)


@pytest.mark.usefixtures("kernels")
@torch.no_grad()
def test_memory_that_fits_is_written_into(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    y, _ = results = native.layernorm_forward(x, gamma, beta)
    for given in (x, x + 1, x):
        again, _ = native.layernorm_forward_out(given, gamma, beta, out=results)
        assert again is y
        torch.testing.assert_close(y, torch.nn.functional.layer_norm(given, (5,), gamma, beta), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_memory_that_does_not_fit_is_left_to_the_torch_form(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    y, saved = native.layernorm_forward(x, gamma, beta)
    other = torch.full((5, 6), torch.nan).t()
    again, _ = native.layernorm_forward_out(x, gamma, beta, out=(other, saved))
    assert again is other
    torch.testing.assert_close(other, y)


@torch.no_grad()
def test_memory_in_which_results_have_no_place_is_refused(native: ModuleType) -> None:
    """Before anything is written, after a call that the next is like as well as before it."""
    x, gamma, beta = _inputs()
    y, saved = native.layernorm_forward(x, gamma, beta)
    dx, dgamma, dbeta = gradients = native.layernorm_backward(y, *saved)
    kept = [t.clone() for t in (x, y, *saved, *gradients)]
    made = type(gradients)
    both = torch.empty(10)
    wrong: list[tuple[Any, str]] = [
        (made(dx, dgamma, dgamma), "out.dgamma shares memory with out.dbeta"),
        (made(dx, both[:5], both[3:8]), "out.dgamma shares memory with out.dbeta"),
        (made(y, dgamma, dbeta), "out.dx shares memory with dy"),
        (made(x, dgamma, dbeta), "out.dx shares memory with x"),
        (made(dx[:3], dgamma, dbeta), r"out.dx has shape \[3, 5\], expected \[6, 5\]"),
        (made(dx, dgamma.double(), dbeta), "out.dgamma has dtype torch.float64, expected torch.float32"),
        ((dx, dgamma, dbeta), "out is a tuple of 3, in which out.dx is not found, expected LayernormGradients"),
        (dx, "out is a Tensor, in which out.dx is not found"),
        (made(dx, None, dbeta), "out.dgamma is a NoneType, expected a tensor"),
    ]
    for _ in range(2):
        for out, message in wrong:
            with pytest.raises((TypeError, ValueError), match=f"^layernorm_backward_out: {message}"):
                native.layernorm_module.layernorm_backward_out(y, *saved, out=out)
        for out, message in (((x, saved), r"out\[0\] shares memory with x"), ((y[:2], saved), r"out\[0\] has shape")):
            with pytest.raises(ValueError, match=f"^layernorm_forward_out: {message}"):
                native.layernorm_module.layernorm_forward_out(x, gamma, beta, out=out)
        assert all(map(torch.equal, (x, y, *saved, *gradients), kept))
        native.layernorm_module.layernorm_backward_out(y, *saved, out=gradients)


@torch.no_grad()
def test_memory_of_one_tensor_that_is_shared_out_is_written_into(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    y, saved = native.layernorm_forward(x, gamma, beta)
    want = native.layernorm_backward(y, *saved)
    flat, columns = torch.empty(40), torch.empty(5, 2)
    parts = flat[:30].view(6, 5), flat[30:35], flat[35:]
    for out in (type(want)(*parts), type(want)(torch.empty(6, 5), columns[:, 0], columns[:, 1])):
        native.layernorm_module.layernorm_backward_out(y, *saved, out=out)
        for g, w in zip(out, want, strict=True):
            torch.testing.assert_close(g, w)


@pytest.mark.usefixtures("kernels")
@torch.no_grad()
def test_indices_of_fewer_bits_are_widened(native: ModuleType) -> None:
    table, places = torch.randn(7, 3), torch.tensor([3, 0, 6])
    for index in (places, places.int(), places):
        y, _ = native.embedding_forward(table, index)
        assert torch.equal(y, table[places])


class Mine(torch.Tensor):
    """A class of somebody's own, whose operations may be anything."""


@torch.no_grad()
def test_other_classes_are_not_handed_over(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    native.layernorm_forward(x, gamma, beta)
    with pytest.warns(UserWarning, match="layernorm_forward runs as PyTorch"):
        y, _ = native.layernorm_forward(x.as_subclass(Mine), gamma, beta)
    assert type(y) is Mine
    _right(native, x, gamma, beta)


@pytest.mark.usefixtures("kernels")
def test_threads_may_call_at_once(native: ModuleType) -> None:
    failed: list[Exception] = []

    def work(rows: int) -> None:
        try:
            with torch.no_grad():
                given = _inputs(rows=rows)
                _, saved = native.layernorm_forward(*given)
                dy = torch.randn_like(given[0])
                want = native.layernorm_backward(dy, *saved)
                for _ in range(50):
                    _right(native, *_inputs(rows=rows))
                    for g, w in zip(native.layernorm_backward(dy, *saved), want, strict=True):
                        assert torch.equal(g, w)  # memory that a call leaves to the next is one call's at a time
        except Exception as error:  # handed to the main thread
            failed.append(error)

    workers = [threading.Thread(target=work, args=(rows,)) for rows in (3, 4, 300)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("half", [(0,), (1,), (0, 1, 2)], ids=str)
def test_half_precision_after_float32_and_before(native: ModuleType, half: tuple[int, ...]) -> None:
    """The kernel says that a tensor is half precision; the call is made again in float32."""
    full = _inputs()
    mixed = [t.bfloat16() if k in half else t for k, t in enumerate(full)]
    with torch.no_grad():
        for given in (full, mixed, full, mixed):
            y, saved = native.layernorm_forward(*given)
            want = torch.nn.functional.layer_norm(given[0].float(), (5,), given[1].float(), given[2].float())
            assert y.dtype == given[0].dtype
            assert saved.rstd.dtype == torch.float32
            torch.testing.assert_close(y, want.to(y.dtype))


HALF = """
from derive import *

n, d = axes("n d")


@op(stepwise=True)
def loss(f, x: tensor[n, d], w: tensor[d]):
    f.h[n] = sum(x[n, d] * w[d], over=d)
    f.l[()] = mean(f.h[n]**2, over=n)
    return f.l


@op
def decay(f, x: tensor[n], a: scalar, b: scalar):
    f.y[n] = exp(-1 / sqrt(x[n])) * a + b
    return f.y
"""


@pytest.fixture(scope="module")
def losses(package: Package) -> ModuleType:
    return package(specs=HALF, workspace=True, step=True)


def test_half_precision_where_no_kernel_is_called_first(losses: ModuleType) -> None:
    x, w = torch.randn(40, 30).bfloat16(), torch.randn(30).bfloat16()
    want, _ = losses.loss_module.loss_stepwise_forward(x.float(), w.float())
    got, saved = losses.loss_module.loss_stepwise_forward(x, w)
    assert got.dtype == torch.bfloat16 and {t.dtype for t in saved} == {torch.float32}
    torch.testing.assert_close(got, want.bfloat16())


def test_half_precision_written_over_float32(losses: ModuleType) -> None:
    x, w = torch.randn(40, 30), torch.randn(30).bfloat16()
    out = losses.loss_forward(x, w)
    got = losses.loss_forward_out(x, w, out=out)
    assert [t.data_ptr() for t in (got[0], got[1].h)] == [t.data_ptr() for t in (out[0], out[1].h)]
    assert got[0].dtype == torch.float32
    one = losses.loss_with_gradients(x, w)
    again = losses.loss_with_gradients_out(x, w, out=one)
    assert again[0].data_ptr() == one[0].data_ptr()


def test_a_step_in_half_precision_runs_as_torch(losses: ModuleType) -> None:
    x, w = torch.randn(40, 30).bfloat16(), torch.randn(30).bfloat16()
    want = torch.autograd.functional.vjp(lambda v: (x.float() @ v).square().mean(), w.float())[1]
    stepped = w - 0.25 * want.bfloat16()
    with pytest.warns(UserWarning, match="there is no kernel for torch.bfloat16"):
        losses.loss_sgd(x, w, 0.25)
    torch.testing.assert_close(w, stepped, rtol=2**-8, atol=2**-9 * float(want.abs().max()))  # once, the other way


def test_the_operator_says_what_to_do_with_half_precision(losses: ModuleType) -> None:
    x, w = torch.randn(40, 30).bfloat16(), torch.randn(30).bfloat16()
    space = getattr(torch.ops, losses.__name__)
    with pytest.raises(TypeError, match=r"loss_forward: there is no kernel for half precision; .*\.float\(\)"):
        space.loss_forward(x, w)


def test_the_root_of_minus_zero_is_no_positive_number(losses: ModuleType) -> None:
    """`1 / sqrt(-0)` is minus infinity, and `exp` of its negative infinite."""
    y, _ = losses.decay_forward(torch.tensor([-0.0, 0.0, 4.0]), 1.0, 0.0)
    torch.testing.assert_close(y, torch.tensor([torch.inf, 0.0, 0.6065307]))


def test_a_number_after_one_that_is_none_is_not_asked_for(losses: ModuleType) -> None:
    class Asked:
        def __float__(self) -> float:
            pytest.fail("asked with an error set")

    x = torch.rand(3)
    losses.decay_forward(x, 1.0, 2.0)
    with pytest.raises(TypeError, match=r"^decay: a is a str, expected a number"):
        losses.decay_forward(x, "no", Asked())


@pytest.mark.slow
def test_what_is_compiled_does_not_hold_to_the_last_call(losses: ModuleType) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(losses.loss, fullgraph=True, backend="eager")
    x, w = torch.randn(4, 3), torch.randn(3)
    with torch._dynamo.config.patch(error_on_recompile=True), torch.no_grad():
        for rows in (4, 0, 5, 4):
            compiled(x, w)
            losses.loss_forward(torch.randn(rows, 3), w)


def test_half_precision_that_autograd_follows_is_computed_in_float32(native: ModuleType) -> None:
    given = [t.bfloat16() for t in _inputs()]
    with pytest.warns(UserWarning, match="autograd is recording") as said:
        y, saved = native.layernorm_forward(given[0].requires_grad_(), *given[1:])
    assert y.dtype == torch.bfloat16
    assert saved.rstd.dtype == torch.float32
    assert native.__path__[0] not in [os.path.dirname(w.filename) for w in said], "the line is the caller's"


@pytest.mark.parametrize("given", [[1.0], 1.0, None, torch.ones(5).numpy()], ids=lambda g: type(g).__name__)
@torch.no_grad()
def test_what_is_no_tensor_is_refused_without_a_warning_before(native: ModuleType, given: Any) -> None:
    x, gamma, _ = _inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match=r"layernorm(_forward)?: beta is a \w+, expected a tensor"):
            native.layernorm_forward(x, gamma, given)


@torch.no_grad()
def test_a_tensor_is_no_number_for_kernels_either(package: Package) -> None:
    """Nor after a call with a number: its gradient would be lost."""
    made = package("leaky_relu")
    x = torch.randn(5)
    for number in (torch.tensor(0.1), torch.tensor([0.1])):
        with pytest.raises(TypeError, match=r"leaky_relu: slope is a Tensor, expected a number; give a float"):
            made.leaky_relu_forward(x, number)
        made.leaky_relu_forward(x, 0.1)


@torch.no_grad()
def test_the_torch_form_runs_as_outside_autocast(package: Package) -> None:
    """Whether a kernel runs, of one dtype, or PyTorch, of several."""
    made = package("linear", workspace=True)
    x, w, b = torch.randn(6, 5), torch.randn(5, 4), torch.randn(4)
    want = made.linear_forward(x, w, b)[0].clone()
    for bias in (b, b.double()):
        with torch.autocast("cpu", dtype=torch.bfloat16), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = made.linear_forward(x, w, bias)
            torch.testing.assert_close(got[0].float(), want, rtol=1e-6, atol=1e-6)
            into = made.linear_forward_out(x, w, b, out=made.linear_forward(x, w, b))
        torch.testing.assert_close(into[0], want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("number", ["1e-5", None, [1.0]], ids=str)
@torch.no_grad()
def test_what_is_no_number_is_refused(native: ModuleType, number: Any) -> None:
    x, gamma, beta = _inputs()
    for _ in range(2):
        with pytest.raises(TypeError, match=r"^layernorm: eps is a \w+, expected a number"):
            native.layernorm_forward(x, gamma, beta, number)


@pytest.mark.parametrize("function", ["the function", "the operator"])
@pytest.mark.parametrize("name", ["layernorm", "silu"])
def test_a_gradient_that_is_differentiated_again_is_an_error(package: Package, name: str, function: str) -> None:
    """Also of what only kernels know of: `silu` keeps its derivative."""
    made = package("layernorm", "silu")
    x = torch.randn(4, 5, requires_grad=True)
    given = (x,) if name == "silu" else (x, *_inputs()[1:])
    if function == "the operator":
        y = getattr(made, f"{name}_module").FORWARD.op(*given, *([] if name == "silu" else [1e-5]))[0]
    else:
        y = getattr(made, name)(*given)
    (dx,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=f"^{name} is differentiable once: its backward has no derivative; "):
        torch.autograd.grad(dx.square().sum() + x.sum(), x)
