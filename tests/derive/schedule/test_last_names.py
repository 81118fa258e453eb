"""What a spec only calls otherwise is made under that name."""

import torch

from derive import amax, axes, exp, index, log, mean, op, sum, tensor
from derive.emit import render
from derive.pipeline import derive_op
from tests.derive.live import assert_alike, module

n, c = axes("n c")


@op
def easy_and_hard(f, z: tensor[n, c], y: index(c)[n]):
    """Focal loss (Lin et al., 2017): what the model is sure of counts for less."""
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.logp[n, c] = z[n, c] - f.lse[n]
    f.own[n] = f.logp[n, y[n]]
    f.loss[()] = mean(-((1 - exp(f.own[n])) ** 2) * f.own[n], over=n)
    return f.loss


def test_no_statement_only_renames() -> None:
    code = render(derive_op(easy_and_hard.op))
    assert "own = z.gather(" in code and "own = logp" not in code
    z, y = torch.randn(5, 4, dtype=torch.float64, requires_grad=True), torch.tensor([0, 3, 3, 1, 2])
    own = z.log_softmax(1).gather(1, y[:, None])[:, 0]
    assert_alike(module(easy_and_hard.op).easy_and_hard(z, y), (-((1 - own.exp()) ** 2) * own).mean(), [z])
