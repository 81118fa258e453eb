"""Rotary position embedding (Su et al., 2021): pairs of features turned by an angle a position."""

from derive import *

t, d, h, p = axes("t d h p")


@op
def rotary(f, x: tensor[..., t, d], cos: constant[t, h], sin: constant[t, h]):
    """Rotary embedding that pairs the first half of the features with the second (Su et al., 2021)."""
    f.z[..., t, p, h] = x[..., t, (p, h)]
    f.turned[..., t, p, h] = where(eq(p, 0), -f.z[..., t, 1 - p, h], f.z[..., t, 1 - p, h])
    f.y[..., t, (p, h)] = f.z[..., t, p, h] * cos[t, h] + f.turned[..., t, p, h] * sin[t, h]
    return f.y


@op
def rotary_interleaved(f, x: tensor[..., t, d], cos: constant[t, h], sin: constant[t, h]):
    """Rotary embedding that pairs each even feature with the one after it (Su et al., 2021)."""
    f.z[..., t, h, p] = x[..., t, (h, p)]
    f.turned[..., t, h, p] = where(eq(p, 0), -f.z[..., t, h, 1 - p], f.z[..., t, h, 1 - p])
    f.y[..., t, (h, p)] = f.z[..., t, h, p] * cos[t, h] + f.turned[..., t, h, p] * sin[t, h]
    return f.y
