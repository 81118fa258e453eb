"""What a transformer has beside attention, normalisation and linear maps."""

from derive import *

v, e, t, c = axes("v e t c")


@op
def embedding_with_positions(f, C: tensor[v, e], P: tensor[t, e], ix: index(v)[..., t]):
    """A row of one table for each token and a row of another for each position, added (Radford et al., 2018)."""
    f.x[..., t, e] = C[ix[..., t], e] + P[t, e]
    return f.x


@op
def sequence_cross_entropy_weighted(f, z: tensor[..., c], y: index(c)[...], weight: constant[...]):
    """Cross-entropy averaged over all leading axes with a weight an element: 0 leaves a padded place out."""
    f.m[...] = amax(z[..., c], over=c)
    f.s[...] = sum(exp(z[..., c] - f.m[...]), over=c)
    f.logp[..., c] = z[..., c] - f.m[...] - log(f.s[...])
    f.loss[()] = -sum(weight[...] * f.logp[..., y[...]], over=...) / sum(weight[...], over=...)
    return f.loss
