"""What is read at places where the forward reads it under a name goes by that name."""

import torch

from derive import amax, axes, exp, index, op, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_alike, module

n, e, k = axes("n e k")


@op
def chosen_shares(f, z: tensor[n, e], ix: index(e)[n, k]):
    """A softmax's shares of those that are chosen, which add up to 1 (Mixtral: Jiang et al., 2024)."""
    f.u[n, e] = exp(z[n, e] - amax(z[n, e], over=e))
    f.p[n, e] = f.u[n, e] / sum(f.u[n, e], over=e)
    f.t[n, k] = f.p[n, ix[n, k]]
    f.w[n, k] = f.t[n, k] / sum(f.t[n, k], over=k)
    return f.w


def test_what_all_were_divided_by_gets_no_gradient() -> None:
    """It divides the shares of the chosen and their sum alike."""
    lines = [str(s) for s in derivation_of(chosen_shares.op).backward.statements]
    assert len([line for line in lines if "sum(" in line]) == 1, lines
    assert lines[-1] == "dz[n, e] = dp[n, e] * p[n, e]", lines
    assert "gather" in {step.law for step in derivation_of(chosen_shares.op).closed.steps}


def test_it_is_right() -> None:
    z = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    ix = torch.tensor([[0, 3], [1, 2], [3, 1], [2, 0], [0, 1]])
    assert_alike(module(chosen_shares.op).chosen_shares(z, ix), z.gather(1, ix).softmax(1), [z])
    twice = torch.tensor([[0, 0], [1, 2], [3, 3], [2, 0], [1, 1]])
    assert_alike(module(chosen_shares.op).chosen_shares(z, twice), z.gather(1, twice).softmax(1), [z])
