"""Logits capped by tanh before they are scaled, where the model scales first.

huggingface/trl, pull request 5691 (2026), https://github.com/huggingface/trl/pull/5691, found in review. The cap was
put in front of a factor that held both the model's scale and the temperature. tanh does not let a factor pass: s * cap
* tanh(z / cap) is another function than cap * tanh(s * z / cap), and so is its derivative.

    derive judge museum/trl_5691.py:backward --from museum/trl_5691.py
"""

import torch

from derive import axes, op, scalar, tanh, tensor

VERDICT, ERROR = "wrong", "wrong order"

n, c = axes("n c")


@op
def capped_logits(f, z: tensor[n, c], scale: scalar = 0.25, cap: scalar = 2.0):
    """Logits, scaled and then held between -cap and cap."""
    f.scaled[n, c] = scale * z[n, c]
    f.y[n, c] = cap * tanh(f.scaled[n, c] / cap)
    return f.y


def backward(dy, z, scale, cap):
    t = torch.tanh(z / cap)  # the fault: scale * z / cap
    return scale * dy * (1 - t * t)
