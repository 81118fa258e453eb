"""The two-layer names network, its loss graph decomposed as far as it goes (Karpathy, makemore part 4, 2022)."""

from derive import *

n, t, e, v, i, h, c = axes("n t e v i h c")


@op(stepwise=True)
def names_step(
    f,
    C: tensor[v, e],
    W1: tensor[i, h],
    b1: tensor[h],
    bngain: tensor[h],
    bnbias: tensor[h],
    W2: tensor[h, c],
    b2: tensor[c],
    ix: index(v)[n, t],
    y: index(c)[n],
    eps: scalar = 1e-5,
):
    """Embed, linear, batchnorm, tanh, linear, cross-entropy: one equation an intermediate."""
    f.emb[n, t, e] = C[ix[n, t], e]
    f.embcat[n, (t, e)] = f.emb[n, t, e]
    f.hprebn[n, h] = sum(f.embcat[n, i] * W1[i, h], over=i) + b1[h]
    f.bnmeani[h] = mean(f.hprebn[n, h], over=n)
    f.bndiff[n, h] = f.hprebn[n, h] - f.bnmeani[h]
    f.bndiff2[n, h] = f.bndiff[n, h] ** 2
    f.bnvar[h] = sum(f.bndiff2[n, h], over=n) / (size(n) - 1)
    f.bnvar_inv[h] = rsqrt(f.bnvar[h] + eps)
    f.bnraw[n, h] = f.bndiff[n, h] * f.bnvar_inv[h]
    f.hpreact[n, h] = bngain[h] * f.bnraw[n, h] + bnbias[h]
    f.h[n, h] = tanh(f.hpreact[n, h])
    f.logits[n, c] = sum(f.h[n, h] * W2[h, c], over=h) + b2[c]
    f.logit_maxes[n] = amax(f.logits[n, c], over=c)
    f.norm_logits[n, c] = f.logits[n, c] - f.logit_maxes[n]
    f.counts[n, c] = exp(f.norm_logits[n, c])
    f.counts_sum[n] = sum(f.counts[n, c], over=c)
    f.counts_sum_inv[n] = 1 / f.counts_sum[n]
    f.probs[n, c] = f.counts[n, c] * f.counts_sum_inv[n]
    f.logprobs[n, c] = log(f.probs[n, c])
    f.loss[()] = -mean(f.logprobs[n, y[n]], over=n)
    return f.loss
