"""Backwards of many equations: the search grows with their number and no faster, and what it finds is right."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from derive import axes, mean, op, relu, sqrt, sum, tanh, tensor
from derive.collapse import local_search
from derive.ir.equations import Op
from derive.pipeline import derive_op
from tests.derive.live import assert_derived

n, d, e, t = axes("n d e t")


def chain(length: int, norms: bool) -> Op:
    """`tanh(z + w)` again and again, in turn with a norm: every step reads the same weight."""

    def steps(f, x: tensor[n, d], w: tensor[d]):
        f.z0[n, d] = x[n, d] * w[d]
        for k in range(length):
            z = getattr(f, f"z{k}")[n, d]
            normed = norms and k % 2 == 1
            getattr(f, f"z{k + 1}")[n, d] = z / sqrt(mean(z**2, over=d) + 1) if normed else tanh(z + w[d])
        return getattr(f, f"z{length}")

    return op(steps).op


def plain_chain(length: int, norms: bool) -> Callable[..., torch.Tensor]:
    def plain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        z = x * w
        for k in range(length):
            normed = norms and k % 2 == 1
            z = z / ((z**2).mean(1, keepdim=True) + 1).sqrt() if normed else (z + w).tanh()
        return z

    return plain


@pytest.mark.parametrize("norms", [False, True])
def test_a_chain_of_40_equations_is_right(norms: bool) -> None:
    assert_derived(chain(40, norms), plain_chain(40, norms), {"x": (3, 5), "w": (5,)})


def test_each_step_of_a_chain_is_as_by_hand() -> None:
    """`dz * (1 - z**2)` by the output, and no more kept than the outputs and inputs."""
    made = derive_op(chain(40, norms=False))
    lines = [str(s) for s in made.backward.statements]
    assert all(any(line == f"dz{k}[n, d] = dz{k + 1}[n, d] * (1 - z{k + 1}[n, d]**2)" for line in lines)
               for k in range(1, 30)), lines  # fmt: skip
    assert set(made.kept) <= {"x", "w", *(f"z{k}" for k in range(1, 41))}, made.kept


@pytest.mark.parametrize("norms", [False, True])
def test_the_search_grows_as_the_chain(norms: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by the definitions of all the forms of stretches that are priced."""
    priced = [0]
    with_kept = local_search.with_kept

    def counted(steps: Any, definitions: Any, *others: Any) -> Any:
        priced[-1] += len(definitions)
        return with_kept(steps, definitions, *others)

    monkeypatch.setattr(local_search, "with_kept", counted)
    for length in (20, 40):
        priced.append(0)
        assert derive_op(chain(length, norms)).closed
    _, twenty, forty = priced
    assert twenty > 0 and forty < 2.5 * twenty, priced


def test_residual_blocks_are_right() -> None:
    @op
    def residual(f, x: tensor[n, d], w: tensor[d]):
        f.z0[n, d] = x[n, d] * w[d]
        for k in range(24):
            z = getattr(f, f"z{k}")[n, d]
            getattr(f, f"z{k + 1}")[n, d] = z + tanh(z * w[d])
        return f.z24

    def plain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        z = x * w
        for _ in range(24):
            z = z + (z * w).tanh()
        return z

    assert_derived(residual.op, plain, {"x": (3, 5), "w": (5,)})


def test_an_unrolled_recurrence_is_right() -> None:
    @op
    def elman(f, x: tensor[n, t, e], w: tensor[e, d], u: tensor[e, d], h: tensor[n, d], b: tensor[d]):
        state = h
        for k in range(24):
            step = sum(x[n, k, e] * w[e, d], over=e) + sum(state[n, e] * u[e, d], over=e)
            getattr(f, f"h{k + 1}")[n, d] = tanh(b[d] + step)
            state = getattr(f, f"h{k + 1}")
        return f.h24

    def plain(x: torch.Tensor, w: torch.Tensor, u: torch.Tensor, h: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for k in range(24):
            h = (b + x[:, k] @ w + h @ u).tanh()
        return h

    assert_derived(elman.op, plain, {"x": (3, 24, 5), "w": (5, 5), "u": (5, 5), "h": (3, 5), "b": (5,)})


def test_a_deep_perceptron_is_right() -> None:
    @op
    def perceptron(f, x: tensor[n, d], w: tensor[e, d], b: tensor[d]):
        z = x
        for k in range(8):
            getattr(f, f"s{k}")[n, d] = b[d] + sum(z[n, e] * w[e, d], over=e)
            s = getattr(f, f"s{k}")[n, d]
            getattr(f, f"r{k}")[n, d] = s / sqrt(mean(s**2, over=d) + 1e-6)
            getattr(f, f"z{k}")[n, d] = relu(getattr(f, f"r{k}")[n, d])
            z = getattr(f, f"z{k}")
        return f.z7

    def plain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            s = b + x @ w
            x = (s / ((s**2).mean(1, keepdim=True) + 1e-6).sqrt()).relu()
        return x

    assert_derived(perceptron.op, plain, {"x": (3, 5), "w": (5, 5), "b": (5,)})


def test_who_waits_is_told_what_is_searched() -> None:
    said: list[str] = []
    derive_op(chain(20, norms=False), told=said.append)
    assert said[0].startswith("closed form of stretch 1 of ") and "dz19" in said[0], said
    assert said[-1] == "the stretches together", said
