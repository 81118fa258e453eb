"""Second derivatives and tangents: rows of `derive verify`, candidates of `derive judge`, a sample of the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from derive.catalogue import find
from derive.verify.battery import BATTERY
from derive.verify.compare import disagreements
from derive.verify.orders import gradient_map, of_forward_mode, of_twice, tangent_map
from derive.verify.verify import verify
from tests.corpus import corpus
from tests.orders import outcome

CANDIDATES = '''
import torch


def double(ddx, x, dp):
    p = torch.softmax(x, -1)
    t, dx = (ddx * p).sum(-1, keepdim=True), p * (dp - (dp * p).sum(-1, keepdim=True))
    return dx * (ddx - t) - p * (ddx * dx).sum(-1, keepdim=True), p * (ddx - t)


def jvp(tx, x):
    p = torch.softmax(x, -1)
    return p * (tx - (p * tx).sum(-1, keepdim=True))


def diagonal(tx, x):
    return torch.softmax(x, -1) * tx


class Constant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.p = torch.softmax(x, -1).detach()
        return ctx.p.clone()

    @staticmethod
    def backward(ctx, dp):
        return ctx.p * (dp - (dp * ctx.p).sum(-1, keepdim=True))
'''
SAMPLE = ("softmax", "softplus", "hard_swish_by_cases", "state_decay")


def test_the_maps_are_autograd_of_the_equations() -> None:
    """Of an op written in plain PyTorch, which shares nothing with them, as of ours."""

    def layernorm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
        return torch.nn.functional.layer_norm(x.contiguous(), gamma.shape, gamma.contiguous(), beta.contiguous(), eps)

    op = find("layernorm")
    held = ((gradient_map(op), of_twice(op, layernorm)), (tangent_map(op), of_forward_mode(op, layernorm)))
    for own, subject in held:
        case = BATTERY[0].make(own)
        assert case is not None and disagreements(case, subject) == ()


def test_verify_has_second_derivatives_and_tangents_as_rows() -> None:
    found = verify(find("layernorm"), order=2)
    assert found.right
    assert [r.gradient for r in found.rows] == ["dx", "dgamma", "dbeta", "ddy", "grad_x", "grad_gamma", "ty"]
    assert all(r.autograd < 1e-10 and r.stepwise < 1e-12 for r in found.rows)


def test_the_command_says_them(derive) -> None:
    done = derive("verify", "tanh", "--order", "2")
    names = [line.split()[0] for line in done.stdout.splitlines()[:-1]]
    assert done.returncode == 0 and names == ["dx", "ddy", "grad_x", "ty"]
    assert derive("verify", "tanh", "--order", "2", "--backend", "cpu").returncode == 2


@pytest.mark.parametrize(
    ("candidate", "option", "said"),
    [
        ("double", "--order=2", "softmax_gradients: right\n"),
        ("jvp", "--jvp", "softmax_jvp: right\n"),
        ("diagonal", "--jvp", "softmax_jvp: wrong"),
        ("Constant", "--order=2", "dx is wrong\n  ddp is right\n"),
        ("Constant", "--order=1", "softmax: right\n"),
    ],
)
def test_judge_takes_a_double_backward_or_a_jvp(
    derive, tmp_path: Path, candidate: str, option: str, said: str
) -> None:
    (tmp_path / "mine.py").write_text(CANDIDATES)
    done = derive("judge", f"{tmp_path / 'mine.py'}:{candidate}", "--op", "softmax", option)
    assert said in done.stdout and done.returncode == ("wrong" in said), done.stderr


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_the_corpus(name: str) -> None:
    found = outcome(name, next(s.op for s in corpus() if s.name == name))
    assert not found.wrong and not found.untried and found.cases > 20, found
