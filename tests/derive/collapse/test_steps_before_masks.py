"""What is one number or another stands before a sum that it is not of: sums of what has a kink stay running sums."""

import pytest
import torch

from derive.emit import render
from derive.notation import axes, exp, maximum, op, relu, sum, tanh, tensor, where
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived

n, s, k = axes("n s k")


@op
def transmittance(f, x: tensor[n, s]):
    """What is left of a ray behind each sample (Max, 1995)."""
    f.y[n, s] = exp(-sum(where(k <= s, relu(x[n, k]), 0), over=k))
    return f.y


@op
def saturated(f, x: tensor[n, s]):
    f.c[n, s] = sum(where(k <= s, relu(x[n, k]), 0), over=k)
    f.y[n, s] = tanh(f.c[n, s])
    return f.y


@op
def floored(f, x: tensor[n, s]):
    f.y[n, s] = exp(-sum(where(k <= s, maximum(x[n, k], 0.5), 0), over=k))
    return f.y


PLAIN = {
    "transmittance": lambda x: (-x.relu().cumsum(1)).exp(),
    "saturated": lambda x: x.relu().cumsum(1).tanh(),
    "floored": lambda x: (-torch.maximum(x, torch.tensor(0.5).to(x)).cumsum(1)).exp(),
}


@pytest.mark.parametrize("made", [transmittance, saturated, floored], ids=lambda m: m.op.name)
def test_no_table_of_pairs_is_made(made) -> None:
    text = render(derivation_of(made.op))
    assert text.count("cumsum") == 2 and "triu" not in text and "None]" not in text, text
    assert_derived(made.op, PLAIN[made.op.name], {"x": (3, 5)})
