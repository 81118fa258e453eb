"""Rotary position embedding: pairs of features, each turned by an angle that grows with the position."""

from derive import *

t, d, h, p = axes("t d h p=2")


@op
def rotary(f, x: tensor[..., t, d], cos: constant[t, h], sin: constant[t, h]):
    """Rotary embedding that pairs the first half of the features with the second (Su et al., 2021)."""
    f.z[..., t, p, h] = x[..., t, (p, h)]
    f.a[..., t, h] = f.z[..., t, 0, h] * cos[t, h] - f.z[..., t, 1, h] * sin[t, h]
    f.b[..., t, h] = f.z[..., t, 1, h] * cos[t, h] + f.z[..., t, 0, h] * sin[t, h]
    f.y[..., t, d] = concat(f.a[..., t, h], f.b[..., t, h], along=d)
    return f.y


@op
def rotary_interleaved(f, x: tensor[..., t, d], cos: constant[t, h], sin: constant[t, h]):
    """Rotary embedding that pairs each even feature with the one after it (Su et al., 2021)."""
    f.z[..., t, h, p] = x[..., t, (h, p)]
    f.a[..., t, h] = f.z[..., t, h, 0] * cos[t, h] - f.z[..., t, h, 1] * sin[t, h]
    f.b[..., t, h] = f.z[..., t, h, 1] * cos[t, h] + f.z[..., t, h, 0] * sin[t, h]
    f.y[..., t, (h, p)] = concat(f.a[..., t, h], f.b[..., t, h], along=p)
    return f.y
