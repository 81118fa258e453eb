"""Candidates without a spec: their own forward, another, finite differences; what it takes, written or guessed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from derive.errors import DeriveError
from derive.verify.inputs import by_example, written
from derive.verify.judge import Verdict, judge
from derive.verify.opaque import Opaque
from derive.verify.unspecified import Standing, standing, unspecified


def stands(candidate: Any, forward: Callable[..., Any] | None = None, inputs: str = "") -> Standing:
    given = unspecified(candidate, "candidate", forward, "a forward")
    return standing(given, written(inputs) if inputs else None, 0)


def verdict(candidate: Any, forward: Callable[..., Any] | None = None, inputs: str = "") -> Verdict:
    given = unspecified(candidate, "candidate", forward, "a forward")
    return judge(op := stands(candidate, forward, inputs).op, given.subject(op))


def norm_with(gradient: Callable[..., Any], differentiable: bool = True) -> type[torch.autograd.Function]:
    """A root-mean-square norm with that backward; its forward hides from autograd unless it is differentiable."""

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, gamma, eps):
            held = x if differentiable else x.detach()
            r = (held.square().mean(-1, keepdim=True) + eps).rsqrt()
            ctx.save_for_backward(x, gamma, r.detach())
            return held * r * gamma

        @staticmethod
        def backward(ctx, dy):
            x, gamma, r = ctx.saved_tensors
            return (*gradient(dy, x, gamma, r), None)

    return Norm


def right(dy, x, gamma, r):
    g, xhat = dy * gamma, x * r
    dx = r * (g - xhat * (g * xhat).mean(-1, keepdim=True))
    return dx, (dy * xhat).flatten(0, -2).sum(0)


def as_it_lies(dy, x, gamma, r):
    """Of a cotangent as if it lay in memory as the input does."""
    memory = torch.empty(0, dtype=dy.dtype).set_(dy.untyped_storage())
    there = torch.zeros(max(x.numel(), memory.numel()), dtype=dy.dtype)
    there[: memory.numel()] = memory
    return right(there[: x.numel()].view(x.shape), x, gamma, r)


@pytest.mark.parametrize("differentiable", [True, False])
def test_a_function_is_held_against_its_own_forward(differentiable: bool) -> None:
    found = verdict(norm_with(right, differentiable))
    assert found.right and len(found.situations) > 25 and isinstance(found.op, Opaque)
    assert found.op.by_differences != differentiable
    assert [str(o) for o in found.op.operands] == ["x: tensor[..., d]", "gamma: tensor[d]", "eps: scalar = 1e-05"]


@pytest.mark.parametrize("differentiable", [True, False])
def test_a_wrong_backward_is_found_and_where(differentiable: bool) -> None:
    def scaled(dy, x, gamma, r):
        dx, dgamma = right(dy, x, gamma, r)
        return dx, 1.01 * dgamma

    found = verdict(norm_with(scaled, differentiable))
    assert (found.word, found.gradients) == ("wrong", ("dgamma",)) and found.counterexample is not None
    some = verdict(norm_with(as_it_lies, differentiable))
    assert (some.word, some.where) == ("right only where", "the incoming gradient is contiguous")


def test_a_forward_that_computes_in_float32_is_judged_there() -> None:
    class Tanh(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.detach().float().tanh().to(x.dtype)

        @staticmethod
        def backward(ctx, dy):
            return (dy.float() * (1 - ctx.saved_tensors[0].float().tanh() ** 2)).to(dy.dtype)

    found = verdict(Tanh)
    assert found.right and found.notes[0] == "judged in float32, which its forward computes in"


def test_a_backward_comes_with_a_forward() -> None:
    def gradient(dy, x):
        return dy * x.sigmoid() * (1 + x * (1 - x.sigmoid()))

    assert verdict(gradient, lambda x: x * x.sigmoid()).right
    assert not verdict(gradient, lambda x: x * x.tanh()).right
    with pytest.raises(DeriveError, match="candidate is a function, whose forward is not known; give --forward"):
        stands(gradient)


def test_kinks_are_not_judged_by_finite_differences() -> None:
    class Relu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.detach().clamp(min=0)

        @staticmethod
        def backward(ctx, dy):
            return dy * (ctx.saved_tensors[0] >= 0)  # at 0 another convention

    found = verdict(Relu)
    assert found.right and isinstance(found.op, Opaque) and found.op.by_differences


def test_repeated_places_of_an_index_are_found() -> None:
    class Table(torch.autograd.Function):
        @staticmethod
        def forward(ctx, table, at):
            ctx.save_for_backward(table, at)
            return table[at]

        @staticmethod
        def backward(ctx, dy):
            table, at = ctx.saved_tensors
            dtable = torch.zeros_like(table)
            dtable[at] = dy
            return dtable, None

    found = verdict(Table, inputs="table: [v, d], at: index(v)[n]")
    assert (found.word, found.error) == ("right only where", "overwritten instead of accumulated")


def test_a_gradient_that_is_none_is_missing_where_there_is_one() -> None:
    def none(dy, x, gamma, r):
        return right(dy, x, gamma, r)[0], None

    found = verdict(norm_with(none))
    assert (found.word, found.error, found.gradients) == ("wrong", "missing gradient", ("dgamma",))
    assert verdict(norm_with(none), inputs="x: [..., d], gamma: constant[d], eps: 1e-5").right


# --- what a forward takes ---------------------------------------------------------------------------------------------


def test_inputs_are_written_as_shapes_and_numbers() -> None:
    found = written("x: [..., d], w: 3x5, t: index(d)[n], m: constant[d], v: [d].positive, eps: 1e-5, k: 2, how: 'sum'")
    assert [str(t) for t in found] == [
        *("x [..., d]", "w [3, 5]", "t index(d)[n]", "m constant[d]", "v [d]", "eps = 1e-05", "k = 2", "how = sum")
    ]
    assert [t.kind for t in found][-3:] == ["scalar", "fixed", "fixed"] and found[4].assumed == "positive"
    for text in ("x", "x: ", "x: [d", "x: much", "x: [d e]"):
        with pytest.raises(DeriveError, match=r"^--inputs: "):
            written(text)


def test_an_example_gives_shapes_and_keeps_lengths_that_must_stay() -> None:
    found = by_example(("x", "t", "k"), (torch.randn(4, 6), torch.tensor([1, 5, 0, 2]), 3))
    assert [str(t) for t in found] == ["x [4, 6]", "t index(6)[4]", "k = 3"]

    class Halves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.reshape(-1, 2, 4).sum(-1)

        @staticmethod
        def backward(ctx, dy):
            return dy.repeat_interleave(4, -1).reshape(-1, 8)

    assert verdict(Halves, inputs="x: 3x8").right


def test_what_a_forward_takes_is_asked_for_where_it_cannot_be_guessed() -> None:
    class Split(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, heads: int):
            return x.reshape(len(x), heads, -1)

        @staticmethod
        def backward(ctx, dy):
            return dy.flatten(1), None

    with pytest.raises(DeriveError, match=r'--inputs "x: \[n, d\], heads: 2"'):
        stands(Split)
    for text, message in {
        "y: [d]": "its forward takes no y; it takes x, heads",
        "x: [n, d]": "what heads is, is not said",
        "x: index(k)[n], heads: 2": r"x is index\(k\), and no tensor has an axis k",
        "x: [n, d], heads: 'two'": "its forward fails: TypeError",
    }.items():
        with pytest.raises(DeriveError, match=message):
            stands(Split, inputs=text)


def test_a_forward_that_draws_is_refused() -> None:
    with pytest.raises(DeriveError, match="its forward returns something else each time"):
        stands(lambda dy, x: dy, lambda x: x * torch.rand_like(x))


# --- ops of torch.library, and kernels -------------------------------------------------------------------------------


LIBRARY = """
import torch

torch.library.define("derive_tests::{name}", "(Tensor x) -> Tensor")
torch.library.define("derive_tests::{name}_backward", "(Tensor dy, Tensor x) -> Tensor")
torch.library.impl("derive_tests::{name}", "cpu", lambda x: x.exp())
torch.library.impl("derive_tests::{name}_backward", "cpu", lambda dy, x: dy * x.exp())
torch.library.register_autograd(
    "derive_tests::{name}",
    lambda ctx, dy: dy * ctx.saved_tensors[0].exp(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def forward(x):
    return x.exp()
"""


def test_an_op_of_a_library_is_a_candidate(derive, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LIBRARY.format(name="power"))
    alone = derive("judge", "mine.py:derive_tests::power")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert "held against finite differences of its own forward, of x [..., d], guessed" in alone.stdout
    (tmp_path / "mine.py").write_text(LIBRARY.format(name="other"))
    backward = derive("judge", "mine.py:derive_tests::other_backward", "--forward", "mine.py:forward")
    assert (backward.returncode, backward.stderr) == (0, "")
    assert "agrees with autograd of its forward" in backward.stdout
    (tmp_path / "mine.py").write_text("")
    none = derive("judge", "mine.py:derive_tests::root", "--op", "tanh")
    assert none.returncode == 2 and "mine.py registers no op derive_tests::root" in none.stderr


KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def row(dp, x, dx, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    v = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
    g = tl.load(dp + at, mask=inside, other=0.0).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    p = e / tl.sum(e, 0)
    tl.store(dx + at, p * (g - tl.sum(g * p, 0)), mask=inside)


def backward(dp, x):
    dp, x = dp.contiguous(), x.contiguous()
    dx, n = torch.empty_like(x), x.shape[-1]
    if x.numel():
        row[(x.numel() // n,)](dp, x, dx, n, BLOCK=triton.next_power_of_2(n))
    return dx
"""


def test_a_kernel_in_triton_runs_by_its_interpreter(tmp_path: Path) -> None:
    """In a process of its own: Triton asks for the interpreter as it is imported, once."""
    pytest.importorskip("triton")
    (tmp_path / "kernel.py").write_text(KERNEL)
    command = [sys.executable, "-m", "derive.cli", "judge", "kernel.py:backward", "--op", "softmax"]
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("softmax: right, computing in float32\n")
