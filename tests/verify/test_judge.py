"""What judge says of candidates: the verdict, the counterexample, the explanation, the class of error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from derive.catalogue import find
from derive.errors import DeriveError
from derive.verify.candidates import load
from derive.verify.judge import Verdict, judge
from derive.verify.subjects import of_backward, of_function_class


def verdict(op: str, backward: Callable[..., Any]) -> Verdict:
    return judge(find(op), of_backward(backward, find(op)))


def norm(dy, x, gamma, beta, eps=1e-5):
    mu = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((x - mu).square().mean(-1, keepdim=True) + eps)
    xhat, g = (x - mu) * rstd, gamma * dy
    dx = rstd * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))
    rows = (-1, gamma.numel())
    return dx, (dy * xhat).reshape(rows).sum(0), dy.reshape(rows).sum(0)


def test_a_right_backward_is_right_in_every_situation() -> None:
    found = verdict("layernorm", norm)
    assert found.right and len(found.situations) > 25 and not found.refused


def test_gradients_may_come_by_name_or_with_none_for_the_rest() -> None:
    assert verdict("layernorm", lambda dy, x, gamma, beta: dict(zip(("dbeta", "dx", "dgamma"),
                   (lambda a, b, c: (c, a, b))(*norm(dy, x, gamma, beta)), strict=True))).right  # fmt: skip
    assert verdict("scale", lambda dy, x, a: [a * dy, (x * dy).sum()]).right
    table = verdict("embedding", lambda d, C, ix: (torch.zeros_like(C).index_put_((ix,), d, accumulate=True), None))
    assert table.right


MISTAKES = {
    "missing term": lambda dy, x: torch.log_softmax(x, -1).exp() * 0 + dy,
    "wrong sign": lambda dy, x: dy + x.softmax(-1) * dy.sum(-1, keepdim=True),
    "wrong scale": lambda dy, x: dy - x.softmax(-1) * dy.mean(-1, keepdim=True),
    "missing factor": lambda dy, x: dy - dy.sum(-1, keepdim=True),
    "missing gradient": lambda dy, x: None,
    "inputs modified": lambda dy, x: dy.sub_(x.softmax(-1) * dy.sum(-1, keepdim=True)),
    "leading axes": lambda dy, x: dy - x.softmax(-1) * dy.sum(1, keepdim=True),
}


@pytest.mark.parametrize("error", MISTAKES)
def test_each_mistake_is_classed(error: str) -> None:
    found = verdict("log_softmax", MISTAKES[error])
    assert not found.right and found.error == error


def in_float32(backward: Callable[..., Any], refuses: bool = False) -> Callable[..., Any]:
    """What a kernel does: float32 inside, and results in the dtype of what it was given."""

    def inside(*tensors, **numbers):
        if refuses and tensors[0].dtype == torch.float64:
            raise NotImplementedError("no float64")
        found = backward(*(t.float() for t in tensors), **numbers)
        several = found if isinstance(found, tuple) else (found,)
        return tuple(g.to(tensors[0].dtype) for g in several)

    return inside


def log_softmax(dy, x):
    return dy - x.softmax(-1) * dy.sum(-1, keepdim=True)


def test_what_computes_in_float32_is_right_and_that_is_said() -> None:
    found = verdict("log_softmax", in_float32(log_softmax))
    assert found.right and [f.text for f in found.findings] == ["computing in float32"] and not found.refused
    assert found.dtype == torch.float32
    refusing = verdict("log_softmax", in_float32(log_softmax, refuses=True))
    assert refusing.right and not refusing.findings and refusing.dtype == torch.float32
    assert refusing.notes == ("judged in float32, the widest dtype that it accepts",)
    assert {d.case.situation for d in refusing.refused} == {"float64"}


def test_statistics_in_float32_are_told_from_a_formula_that_is_off_by_as_much() -> None:
    def norm_of(rstd):
        def backward(dy, x, gamma, eps):
            r = rstd(x, eps)
            g, xhat = dy * gamma, x * r
            dx = r * (g - xhat * (g * xhat).mean(-1, keepdim=True))
            return dx, (dy * xhat).reshape(-1, x.shape[-1]).sum(0)

        return verdict("rmsnorm", backward)

    narrow = norm_of(lambda x, eps: (x.float().square().mean(-1, keepdim=True) + eps).rsqrt().to(x.dtype))
    assert narrow.right and [f.text for f in narrow.findings] == ["computing in float32"]
    without_eps = norm_of(lambda x, eps: x.square().mean(-1, keepdim=True).rsqrt())
    assert without_eps.word != "right" and without_eps.dtype == torch.float64


def test_a_wrong_formula_in_float32_is_explained() -> None:
    found = verdict("log_softmax", in_float32(lambda dy, x: dy + x.softmax(-1) * dy.sum(-1, keepdim=True)))
    assert (found.word, found.error, found.dtype) == ("wrong", "wrong sign", torch.float32)


def test_what_loses_some_digits_is_right_and_less_exact() -> None:
    def beside(number):
        def backward(dy, x):
            y, off = x.tanh(), number if x.dtype.itemsize >= 4 else 0
            return dy * (1 - ((y + off) - off) ** 2)

        return backward

    some = verdict("tanh", beside(64))
    assert some.right and [f.text for f in some.findings] == ["less exact than the derived backward"]
    assert verdict("tanh", beside(1e6)).error == "precision"  # more than half of the digits of float32
    asked = judge(find("tanh"), of_backward(beside(64), find("tanh")), dtype=torch.float64)
    assert asked.right and not asked.findings and asked.notes == ("judged in float64, as asked",)


def test_another_dtype_is_said_and_not_held_against() -> None:
    found = verdict("tanh", lambda dy, x: (dy.float() * (1 - x.float().tanh() ** 2)))
    assert found.right
    assert {f.text for f in found.findings} == {"computing in float32", "returning another dtype"}


def test_sizes_that_a_kernel_refuses_are_not_held_against_it() -> None:
    def in_blocks(dy, x):
        if x.shape[-1] % 8:
            raise ValueError("the last axis is a multiple of 8")
        return log_softmax(dy, x)

    found = verdict("log_softmax", in_blocks)
    assert found.right and "same sizes" in {d.case.situation for d in found.refused}


def test_gradients_in_another_order() -> None:
    found = verdict("layernorm", lambda *args: (lambda dx, dgamma, dbeta: (dx, dbeta, dgamma))(*norm(*args)))
    assert found.error == "gradients exchanged"
    assert [(e.gradients, e.text) for e in found.explanations] == [(("dgamma", "dbeta"), "are exchanged")]


def test_the_counterexample_is_small_and_holds_both_values() -> None:
    found = verdict("add_bias", lambda dy, x, b: (dy, dy.reshape(-1, len(b)).mean(0)))
    example = found.counterexample
    assert example is not None and (example.tensor, example.case.call.leading) == ("db", (2,))
    assert {n: list(t.shape) for n, t in example.case.call.inputs.items()} == {"x": [2, 1], "b": [1]}
    assert example.got != example.expected and f"expected {example.expected:.8g}" in example.message


def test_a_candidate_for_one_rank_is_judged_at_that_rank() -> None:
    def of_matrices(dy, x, b):
        assert x.dim() == 2
        return dy, dy.sum(0)

    found = verdict("add_bias", of_matrices)
    assert found.right
    assert {d.case.situation for d in found.refused} >= {"no leading axes", "three leading axes", "two leading axes"}


def test_a_number_that_the_candidate_does_not_take_is_not_held_against_it() -> None:
    found = verdict("leaky_relu", lambda dy, x: torch.where(x > 0, dy, 0.01 * dy))
    refused = ["other numbers", "numbers 0", "ties with a number"]
    assert found.right and [d.case.situation for d in found.refused] == refused


def test_the_second_run_is_compared_with_the_first() -> None:
    calls = []

    def counting(dy, x):
        calls.append(1)
        return dy * (1 - x.tanh() ** 2) * (1 + len(calls) % 2)

    assert verdict("tanh", counting).error == "state kept between calls"


def test_what_is_no_tensor_is_told() -> None:
    def raising(error: BaseException):
        raise error

    for value, text in (
        (0.0, "returned a float for dx, expected a tensor"),
        (exit, r"it ends Python, as exit\(\) does"),
        (lambda: raising(Exception("boom")), "Exception: boom"),
        (lambda: next(iter([])), "StopIteration"),
        (lambda: raising(MemoryError()), "MemoryError"),
    ):
        with pytest.raises(DeriveError, match=text):
            verdict("tanh", lambda dy, x, value=value: value() if callable(value) else value)


def test_another_forward_is_no_wrong_gradient() -> None:
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, dy):
            return dy * ctx.saved_tensors[0].cos()

    assert judge(find("tanh"), of_function_class(Sine, find("tanh"))).error == "another forward"


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, dy, 2 * ctx.slope * dy), None


def test_an_autograd_function_is_judged_by_its_backward() -> None:
    op = find("leaky_relu")
    found = judge(op, of_function_class(Doubled, op))
    assert found.gradients == ("dx",) and found.word == "wrong"


# --- candidates that cannot be run ------------------------------------------------------------------------------------


def test_what_cannot_be_run_is_told(tmp_path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\n"
        "three = 3\n"
        "def few(dy): return dy\n"
        "def two(dy, x): return dy, dy\n"
        "def raises(dy, x): raise KeyError('weight')\n"
        "def elsewhere(dy, x): return dy if not x.numel() else dy + torch.empty((), device='nowhere')\n"
        "class Layer: pass\n"
    )
    op = find("tanh")
    for name, text in {
        "tree": "mine.py has no tree; it has few, two, raises, elsewhere, Layer",
        "three": "is a int; give a function, or a torch.autograd.Function",
        "Layer": "is a class; give a function",
        "few": "op tanh: the candidate takes 1 arguments, and the op gives 2; write it as backward(dy, x)",
    }.items():
        with pytest.raises(DeriveError) as error:
            load(f"{file}:{name}", op)
        assert text in str(error.value)
    for name, text in {
        "two": "TypeError: returned 2 gradients, expected 1: dx; it is called with dy and then x",
        "raises": "could not be run in any of 27 situations: KeyError: 'weight'",
        "elsewhere": "could not be run in any of 27 situations: RuntimeError: Expected one of cpu, ",
    }.items():
        with pytest.raises(DeriveError) as error:
            judge(op, load(f"{file}:{name}", op))
        assert text in str(error.value)
    for where, text in {
        "mine.py": "names no function in a file; write it as FILE.py:function",
        f"{tmp_path / 'none.py'}:f": "cannot read",
    }.items():
        with pytest.raises(DeriveError, match=text):
            load(where, op)
    file.write_text("def f(:\n")
    with pytest.raises(DeriveError, match="line 1: "):
        load(f"{file}:f", op)
    file.write_text("import no_such_module\n")
    with pytest.raises(DeriveError, match="cannot be run: ModuleNotFoundError"):
        load(f"{file}:f", op)
