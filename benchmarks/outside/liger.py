"""Liger-Kernel: its ops by the file that each stands in, and its chunked losses, as specs of ours from the mathematics.

Numbers 1 to 31 are its files of ops in the order of their names; 32 and 33 are further ops of the file `mhc`; those
from 41 on are the chunked losses, of a linear layer and what follows it, 49 and 50 with another of their settings.
"""

import math

import torch
import torch.nn.functional as F

from benchmarks.outside.problem import Problem
from derive import *
from derive.ops.activations import gelu_tanh, log_softmax, softmax, swiglu
from derive.ops.losses import kl_div
from derive.ops.normalisation import groupnorm, layernorm, rmsnorm
from derive.ops.rotary import rotary, rotary_interleaved

b, c, d, e, h, i, j, k, l, m, n, o, s, t, u = axes("b c d e h i j k l m n o s t u")
pair, three, trio = axes("pair=2 three=3 trio=3")

ROWS = {"...": 1024, "d": 512}
TOKENS = {"n": 128, "d": 128, "c": 1024}


# --- of rows ----------------------------------------------------------------------------------------------


@op
def attention_over_depth(f, x: tensor[m, n, d], query: tensor[d], gamma: tensor[d]):
    f.rrms[m, n] = rsqrt(mean(x[m, n, d] ** 2, over=d) + 1e-6)
    f.s[m, n] = sum(x[m, n, d] * f.rrms[m, n] * gamma[d] * query[d], over=d)
    f.top[n] = amax(f.s[m, n], over=m)
    f.a[m, n] = exp(f.s[m, n] - f.top[n])
    f.p[m, n] = f.a[m, n] / sum(f.a[m, n], over=m)
    f.y[n, d] = sum(f.p[m, n] * x[m, n, d], over=m)
    return f.y


def _attention_over_depth(x, query, gamma):
    shares = (F.rms_norm(x, gamma.shape, gamma, 1e-6) * query).sum(-1).softmax(0)
    return (shares[..., None] * x).sum(0)


L1 = Problem(
    1,
    "attn_res",
    attention_over_depth,
    _attention_over_depth,
    {"m": 8, "n": 256, "d": 512},
    """
ds = p * ((dy * x).sum(-1) - (dy * y).sum(-1))
scaled = ds * rrms
dproduct = torch.einsum("mn,mnd->d", scaled, x)
dquery = dproduct * gamma
dgamma = dproduct * query
dx = p[..., None] * dy + scaled[..., None] * (gamma * query) - (scaled * rrms * s / x.shape[-1])[..., None] * x
""",
)


@op
def cross_entropy(f, z: tensor[n, c], y: index(c)[n]):
    f.cap[n, c] = 30 * tanh(z[n, c] / 30)
    f.top[n] = amax(f.cap[n, c], over=c)
    f.lse[n] = f.top[n] + log(sum(exp(f.cap[n, c] - f.top[n]), over=c))
    f.e[n] = f.lse[n] - 0.9 * f.cap[n, y[n]] - 0.1 * mean(f.cap[n, c], over=c) + 0.0001 * f.lse[n] ** 2
    f.count[()] = sum(where(ne(y[n], -100), 1, 0), over=n)
    f.loss[()] = sum(where(ne(y[n], -100), f.e[n], 0), over=n) / f.count[()]
    return f.loss


def _cross_entropy(z, y):
    z = 30.0 * torch.tanh(z / 30.0)
    used = y != -100
    squares = (z.logsumexp(-1).square() * used).sum() / used.sum()
    return F.cross_entropy(z, y, ignore_index=-100, label_smoothing=0.1) + 0.0001 * squares


L2 = Problem(
    2,
    "cross_entropy",
    cross_entropy,
    _cross_entropy,
    {"n": 512, "c": 1024},
    """
share = dloss * (y != -100) / count
dcap = (share * (1 + 0.0002 * lse))[:, None] * torch.exp(cap - lse[:, None]) - 0.1 / z.shape[1] * share[:, None]
dcap.scatter_add_(1, y[:, None], -0.9 * share[:, None])
dz = dcap * (1 - (cap / 30) ** 2)
""",
    note="softcap, label smoothing, the square of the log-sum-exp, labels left out",
)


@op
def dynamic_tanh(f, x: tensor[..., d], alpha: tensor[()], gamma: tensor[d], beta: tensor[d]):
    f.t[..., d] = tanh(alpha[()] * x[..., d])
    f.y[..., d] = f.t[..., d] * gamma[d] + beta[d]
    return f.y


L3 = Problem(
    3,
    "dyt",
    dynamic_tanh,
    lambda x, alpha, gamma, beta: torch.tanh(alpha * x) * gamma + beta,
    ROWS,
    """
dgamma = (dy * t).flatten(0, -2).sum(0)
dbeta = dy.flatten(0, -2).sum(0)
da = dy * gamma * (1 - t * t)
dx = da * alpha
dalpha = (da * x).sum()
""",
)


@op
def add_rms_norm(f, x: tensor[..., d], residual: tensor[..., d], gamma: tensor[d]):
    f.s[..., d] = x[..., d] + residual[..., d]
    f.rrms[...] = rsqrt(mean(f.s[..., d] ** 2, over=d) + 1e-6)
    f.y[..., d] = f.s[..., d] * f.rrms[...] * gamma[d]
    return f.y, f.s


def _add_rms_norm(x, residual, gamma):
    total = x + residual
    return F.rms_norm(total, gamma.shape, gamma, 1e-6), total


L4 = Problem(
    4,
    "fused_add_rms_norm",
    add_rms_norm,
    _add_rms_norm,
    ROWS,
    """
xhat = s * rrms[..., None]
dgamma = (dy * xhat).flatten(0, -2).sum(0)
scaled = dy * gamma
dx = ds + rrms[..., None] * (scaled - xhat * (scaled * xhat).mean(-1, True))
dresidual = dx
""",
)


# --- of a linear layer and a loss -------------------------------------------------------------------------


@op
def linear_cross_entropy(f, x: tensor[n, d], weight: tensor[c, d], bias: tensor[c], y: index(c)[n]):
    f.z[n, c] = sum(x[n, d] * weight[c, d], over=d) + bias[c]
    f.top[n] = amax(f.z[n, c], over=c)
    f.logp[n, c] = f.z[n, c] - f.top[n] - log(sum(exp(f.z[n, c] - f.top[n]), over=c))
    f.count[()] = sum(where(ne(y[n], -100), 1, 0), over=n)
    f.loss[()] = -sum(where(ne(y[n], -100), f.logp[n, y[n]], 0), over=n) / f.count[()]
    return f.loss


_LINEAR = """
dx = dz @ weight
dweight = dz.T @ x
dbias = dz.sum(0)
"""

L5 = Problem(
    5,
    "fused_linear_cross_entropy",
    linear_cross_entropy,
    lambda x, weight, bias, y: F.cross_entropy(F.linear(x, weight, bias), y, ignore_index=-100),
    TOKENS,
    """
share = (dloss * (y != -100) / count)[:, None]
dz = share * torch.exp(logp)
dz.scatter_add_(1, y[:, None], -share)
"""
    + _LINEAR,
)


@op
def divergence_from_the_middle(f, a: tensor[..., c], b: tensor[..., c]):
    """Jensen and Shannon's divergence of two logarithms of shares, by row (Lin, 1991)."""
    f.mix[..., c] = logaddexp(a[..., c] - log(2), b[..., c] - log(2))
    ours = exp(a[..., c]) * (a[..., c] - f.mix[..., c])
    f.e[...] = sum(ours + exp(b[..., c]) * (b[..., c] - f.mix[..., c]), over=c) / 2
    return f.e


def _divergence_from_the_middle(a, b):
    mix = torch.logaddexp(a, b) - math.log(2)
    ours = F.kl_div(mix, a, reduction="none", log_target=True)
    return (ours + F.kl_div(mix, b, reduction="none", log_target=True)).sum(-1) / 2


@op
def linear_jsd(f, x: tensor[n, d], weight: tensor[c, d], teacher: constant[n, c], y: index(c)[n]):
    f.z[n, c] = sum(x[n, d] * weight[c, d], over=d) / 2
    f.q[n, c] = teacher[n, c] / 2
    f.a = log_softmax(f.z)
    f.b = log_softmax(f.q)
    f.e = divergence_from_the_middle(f.a, f.b)
    f.count[()] = sum(where(ne(y[n], -100), 1, 0), over=n)
    f.loss[()] = sum(where(ne(y[n], -100), f.e[n], 0), over=n) / f.count[()]
    return f.loss


def _linear_jsd(x, weight, teacher, y):
    used = y != -100
    ours, theirs = F.log_softmax(F.linear(x, weight) / 2.0, -1), F.log_softmax(teacher / 2.0, -1)
    return (_divergence_from_the_middle(ours, theirs) * used).sum() / used.sum()


L6 = Problem(
    6,
    "fused_linear_jsd",
    linear_jsd,
    _linear_jsd,
    TOKENS,
    """
share = dloss * (y != -100) / count / 4
p = torch.exp(a)
slopes = p * (a - e_mix)
dz = share[:, None] * (slopes - p * slopes.sum(1, True))
dx = dz @ weight
dweight = dz.T @ x
""",
    note="at a temperature of 2; the teacher's logits are constants",
)


@op
def selected_log_shares(f, x: tensor[n, d], weight: tensor[c, d], bias: tensor[c], y: index(c)[n]):
    f.z[n, c] = (sum(x[n, d] * weight[c, d], over=d) + bias[c]) / 0.7
    f.logp = log_softmax(f.z)
    f.y_logp[n] = f.logp[n, y[n]]
    return f.y_logp


def _selected_log_shares(x, weight, bias, y):
    return F.log_softmax(F.linear(x, weight, bias) / 0.7, -1).gather(-1, y[:, None]).squeeze(-1)


L7 = Problem(
    7,
    "fused_linear_scaled_cross_entropy",
    selected_log_shares,
    _selected_log_shares,
    TOKENS,
    """
share = dy_logp[:, None] / 0.7
dz = -share * torch.exp(logp)
dz.scatter_add_(1, y[:, None], share)
"""
    + _LINEAR,
    note="the logarithms of the labels' shares at a temperature",
)


# --- of tokens and heads ----------------------------------------------------------------------------------


@op
def mixture_of_experts(
    f,
    x: tensor[t, h],
    gate: tensor[e, i, h],
    up: tensor[e, i, h],
    down: tensor[e, h, i],
    chosen: index(e)[t, k],
    share: tensor[t, k],
):
    f.a[t, k, i] = sum(x[t, h] * gate[chosen[t, k], i, h], over=h)
    f.b[t, k, i] = sum(x[t, h] * up[chosen[t, k], i, h], over=h)
    f.m[t, k, i] = f.a[t, k, i] * sigmoid(f.a[t, k, i]) * f.b[t, k, i]
    f.r[t, k, h] = sum(f.m[t, k, i] * down[chosen[t, k], h, i], over=i)
    f.y[t, h] = sum(share[t, k] * f.r[t, k, h], over=k)
    return f.y


def _mixture_of_experts(x, gate, up, down, chosen, share):
    a = torch.einsum("th,tkih->tki", x, gate[chosen])
    b = torch.einsum("th,tkih->tki", x, up[chosen])
    rows = torch.einsum("tki,tkhi->tkh", F.silu(a) * b, down[chosen])
    return torch.einsum("tk,tkh->th", share, rows)


L8 = Problem(
    8,
    "fused_moe",
    mixture_of_experts,
    _mixture_of_experts,
    {"t": 32, "h": 64, "e": 8, "i": 64, "k": 2},
    """
dshare = (dy[:, None] * r).sum(-1)
dr = share[..., None] * dy[:, None]
dm = torch.einsum("tkh,tkhi->tki", dr, down[chosen])
sigma = torch.sigmoid(a)
db = dm * a * sigma
da = dm * b * sigma * (1 + a * (1 - sigma))
dx = torch.einsum("tki,tkih->th", da, gate[chosen]) + torch.einsum("tki,tkih->th", db, up[chosen])
dgate = torch.zeros_like(gate).index_put_((chosen,), da[..., None] * x[:, None, None], accumulate=True)
dup = torch.zeros_like(up).index_put_((chosen,), db[..., None] * x[:, None, None], accumulate=True)
ddown = torch.zeros_like(down).index_put_((chosen,), dr[..., None] * m[:, :, None], accumulate=True)
""",
    note="experts are chosen before; each token gathers its experts' matrices",
)


@op
def neighbourhood_attention(f, q: tensor[b, h, i, d], keys: tensor[b, h, j, d], v: tensor[b, h, j, d]):
    near = (i - j <= 6) & (j - i <= 6) & eq((i - j) % 2, 0)
    f.s[b, h, i, j] = where(near, sum(q[b, h, i, d] * keys[b, h, j, d], over=d) / sqrt(size(d)), -oo)
    f.p = softmax(f.s)
    f.o[b, h, i, d] = sum(f.p[b, h, i, j] * v[b, h, j, d], over=j)
    return f.o


def _neighbourhood_attention(q, keys, v):
    i, j = (torch.arange(x.shape[2]) for x in (q, keys))
    apart = i[:, None] - j
    near = (apart.abs() <= 6) & (apart % 2 == 0)
    scores = (q @ keys.mT / math.sqrt(q.shape[-1])).masked_fill(~near, -math.inf)
    return scores.softmax(-1) @ v


_ATTENTION = """
dv = p.mT @ do
dp = do @ v.mT
ds = p * (dp - (do * o).sum(-1, True)) / math.sqrt(q.shape[-1])
dq = ds @ keys
dkeys = ds.mT @ q
"""

L9 = Problem(
    9,
    "fused_neighborhood_attention",
    neighbourhood_attention,
    _neighbourhood_attention,
    {"b": 1, "h": 4, "i": 128, "d": 32, "j": 128},
    _ATTENTION,
    note="7 neighbours, every second one",
    odd={"b": 2, "h": 3, "i": 17, "d": 5, "j": 17},
    long={"b": 1, "h": 1, "i": 131, "d": 3, "j": 131},
)


@op
def geglu(f, gate: tensor[...], up: tensor[...]):
    f.g = gelu_tanh(gate)
    f.y[...] = f.g[...] * up[...]
    return f.y


L10 = Problem(
    10,
    "geglu",
    geglu,
    lambda gate, up: F.gelu(gate, approximate="tanh") * up,
    {"...": 524288},
    """
dup = dy * g
slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * gate * gate)
dgate = dy * up * ((1 + g_t) / 2 + gate * (1 - g_t * g_t) * slope / 2)
""",
)

_GROUPNORM = """
dgamma = (dy * xhat).sum((0, 2))
dbeta = dy.sum((0, 2))
scaled = (dy * gamma[:, None]).view(zhat.shape)
means = scaled.mean((2, 3), True) + zhat * (scaled * zhat).mean((2, 3), True)
dx = (rstd[..., None, None] * (scaled - means)).view(x.shape)
"""

L11 = Problem(
    11,
    "group_norm",
    groupnorm,
    lambda x, gamma, beta, groups, eps: F.group_norm(x, groups, gamma, beta, eps),
    {"n": 16, "c": 32, "s": 1024, "g": 8},
    _GROUPNORM,
)


@op
def grouped_policy_loss(
    f,
    z: tensor[n, t, c],
    y: index(c)[n, t],
    old: constant[n, t],
    given: constant[n, t],
    advantage: constant[n],
    mask: constant[n, t],
):
    f.logp = log_softmax(z)
    f.l[n, t] = f.logp[n, t, y[n, t]]
    f.r[n, t] = exp(f.l[n, t] - old[n, t])
    f.k[n, t] = where(f.r[n, t] < 0.8, 0.8, where(f.r[n, t] > 1.2, 1.2, f.r[n, t]))
    f.a[n, t] = f.r[n, t] * advantage[n]
    f.b[n, t] = f.k[n, t] * advantage[n]
    f.q[n, t] = exp(given[n, t] - f.l[n, t])
    f.e[n, t] = -minimum(f.a[n, t], f.b[n, t]) + 0.04 * (f.q[n, t] - (given[n, t] - f.l[n, t]) - 1)
    f.count[n] = sum(mask[n, t] ** 2, over=t)
    f.loss[()] = mean(sum(f.e[n, t] * mask[n, t] ** 2, over=t) / f.count[n], over=n)
    return f.loss


def _policy_loss(l, old, given, advantage, mask):
    """Of the tokens' log-probabilities: the lesser of a ratio and the clipped one, and the k3 estimate."""
    ratio = torch.exp(l - old)
    gains = torch.min(ratio * advantage[:, None], torch.clamp(ratio, 0.8, 1.2) * advantage[:, None])
    losses = -gains + 0.04 * (torch.exp(given - l) - (given - l) - 1)
    return ((losses * mask**2).sum(-1) / (mask**2).sum(-1)).mean()


def _grouped_policy_loss(z, y, old, given, advantage, mask):
    l = F.log_softmax(z, -1).gather(-1, y[..., None]).squeeze(-1)
    return _policy_loss(l, old, given, advantage, mask)


_POLICY = """
share = dloss * mask**2 / {name}count[:, None] / {name}r.shape[0]
free = ({name}a < {name}b) | ({name}k == {name}r)
dl = share * (-{name}a * free + 0.04 * (1 - {name}q))
"""
"""To the gradient of tokens' log-probabilities."""

L12 = Problem(
    12,
    "grpo_loss",
    grouped_policy_loss,
    _grouped_policy_loss,
    {"n": 4, "t": 64, "c": 1024},
    _POLICY.format(name="")
    + """
dz = -dl[..., None] * torch.exp(logp)
dz.scatter_add_(2, y[..., None], dl[..., None])
""",
    note="the mask counts squared here, so that any weights will do",
)


@op
def jsd(f, logp: tensor[n, c], target: constant[n, c]):
    f.e = divergence_from_the_middle(logp, target)
    f.loss[()] = mean(f.e[n], over=n)
    return f.loss


L13 = Problem(
    13,
    "jsd",
    jsd,
    lambda logp, target: _divergence_from_the_middle(logp, target).mean(),
    {"n": 512, "c": 512},
    """
dlogp = dloss / (2 * logp.shape[0]) * torch.exp(logp) * (logp - e_mix)
""",
)

L14 = Problem(
    14,
    "kl_div",
    kl_div,
    lambda logp, t: F.kl_div(logp, t, reduction="batchmean"),
    {"n": 512, "c": 512},
    "dlogp = -dloss / logp.shape[0] * t",
)

_LAYERNORM = """
dgamma = (dy * xhat).flatten(0, -2).sum(0)
dbeta = dy.flatten(0, -2).sum(0)
scaled = dy * gamma
means = scaled.mean(-1, True) + xhat * (scaled * xhat).mean(-1, True)
dx = rstd[..., None] * (scaled - means)
"""

L15 = Problem(
    15,
    "layer_norm",
    layernorm,
    lambda x, gamma, beta, eps: F.layer_norm(x, gamma.shape, gamma, beta, eps),
    ROWS,
    _LAYERNORM,
)


def _by_complex_numbers(x, cos, sin):
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.complex(cos, sin)
    return torch.view_as_real(turned).flatten(-2)


L16 = Problem(
    16,
    "llama4_rope",
    rotary_interleaved,
    _by_complex_numbers,
    {"...": 64, "t": 128, "d": 64, "h": 32},
    """
even, odd = dy[..., 0::2], dy[..., 1::2]  # view
dx = torch.stack((even * cos + odd * sin, odd * cos - even * sin), -1).flatten(-2)
""",
    note="of queries, and in the same way of keys",
)


@op
def hyper_connection_coefficients(
    f,
    x: tensor[n, i, c],
    first: tensor[i, c, j],
    second: tensor[i, c, u],
    last: tensor[i, c, s, t],
    shift: tensor[j],
    shift2: tensor[u],
    shift3: tensor[s, t],
    scale: tensor[()],
    scale2: tensor[()],
    scale3: tensor[()],
):
    f.rrms[n] = rsqrt(mean(x[n, i, c] ** 2, over=(i, c)) + 1e-6)
    f.a[n, j] = sum(x[n, i, c] * first[i, c, j], over=(i, c)) * f.rrms[n]
    f.b[n, u] = sum(x[n, i, c] * second[i, c, u], over=(i, c)) * f.rrms[n]
    f.e[n, s, t] = sum(x[n, i, c] * last[i, c, s, t], over=(i, c)) * f.rrms[n]
    f.pre[n, j] = sigmoid(f.a[n, j] * scale[()] + shift[j]) + 0.0001
    f.post[n, u] = 2 * sigmoid(f.b[n, u] * scale2[()] + shift2[u])
    f.z[n, s, t] = f.e[n, s, t] * scale3[()] + shift3[s, t]
    f.p = softmax(f.z)
    f.w[n, s, t] = f.p[n, s, t] + 1e-6
    f.w1[n, s, t] = f.w[n, s, t] / (sum(f.w[n, s, t], over=s) + 1e-6)
    f.w2[n, s, t] = f.w1[n, s, t] / (sum(f.w1[n, s, t], over=t) + 1e-6)
    f.w3[n, s, t] = f.w2[n, s, t] / (sum(f.w2[n, s, t], over=s) + 1e-6)
    return f.pre, f.post, f.w3


def _hyper_connection_coefficients(x, first, second, third, shift, shift2, shift3, scale, scale2, scale3):
    x = x * torch.rsqrt(x.pow(2).mean((-2, -1), keepdim=True) + 1e-6)
    pre = torch.sigmoid(torch.einsum("nic,icj->nj", x, first) * scale + shift) + 0.0001
    post = 2 * torch.sigmoid(torch.einsum("nic,icu->nu", x, second) * scale2 + shift2)
    mixed = torch.softmax(torch.einsum("nic,icst->nst", x, third) * scale3 + shift3, -1) + 1e-6
    for axis in (-2, -1, -2):
        mixed = mixed / (mixed.sum(axis, keepdim=True) + 1e-6)
    return pre, post, mixed


L17 = Problem(
    17,
    "mhc",
    hyper_connection_coefficients,
    _hyper_connection_coefficients,
    {"n": 256, "i": 4, "c": 64, "j": 4, "u": 4, "s": 4, "t": 4},
    """
dw2 = (dw3 - (dw3 * w3).sum(1, True)) / (w2.sum(1, True) + 1e-6)
dw1 = (dw2 - (dw2 * w2).sum(2, True)) / (w1.sum(2, True) + 1e-6)
dp = (dw1 - (dw1 * w1).sum(1, True)) / (w.sum(1, True) + 1e-6)
dz = p * (dp - (dp * p).sum(2, True))
sigma = pre - 0.0001
da = dpre * sigma * (1 - sigma)
db = dpost * post * (1 - post / 2)
dshift = da.sum(0)
dshift2 = db.sum(0)
dshift3 = dz.sum(0)
dscale = (da * a).sum()
dscale2 = (db * b).sum()
dscale3 = (dz * e).sum()
ga = da * scale * rrms[:, None]
gb = db * scale2 * rrms[:, None]
ge = dz * scale3 * rrms[:, None, None]
dfirst = torch.einsum("nj,nic->icj", ga, x)
dsecond = torch.einsum("nu,nic->icu", gb, x)
dlast = torch.einsum("nst,nic->icst", ge, x)
parts = torch.einsum("nj,icj->nic", ga, first) + torch.einsum("nu,icu->nic", gb, second)
parts = parts + torch.einsum("nst,icst->nic", ge, last)
dx = parts - x * (rrms * rrms * (parts * x).mean((1, 2)))[:, None, None]
""",
    note="the coefficients, four normalisations of Sinkhorn and Knopp's written out: no word iterates as often as an "
    "argument says; what they weigh is 32 and 33",
)


@op
def swiglu_mlp(f, x: tensor[n, d], gate: tensor[h, d], up: tensor[h, d], down: tensor[d, h]):
    f.a[n, h] = sum(x[n, d] * gate[h, d], over=d)
    f.b[n, h] = sum(x[n, d] * up[h, d], over=d)
    f.m[n, h] = f.a[n, h] * sigmoid(f.a[n, h]) * f.b[n, h]
    f.y[n, d] = sum(f.m[n, h] * down[d, h], over=h)
    return f.y


def _swiglu_mlp(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


_MLP = """
ddown = dy.T @ m
dm = dy @ down
sigma = torch.sigmoid(a)
db = dm * a * sigma
da = dm * b * sigma * (1 + a * (1 - sigma))
dgate = da.T @ x
dup = db.T @ x
dx = da @ gate + db @ up
"""
_MLP_LENGTHS = {"n": 128, "d": 128, "h": 512}

L18 = Problem(18, "mlp", swiglu_mlp, _swiglu_mlp, _MLP_LENGTHS, _MLP)


@op
def modulated_rms_norm(f, x: tensor[b, t, d], gamma: tensor[d], scale: tensor[b, d], shift: tensor[b, d]):
    f.rrms[b, t] = rsqrt(mean(x[b, t, d] ** 2, over=d) + 1e-6)
    f.xhat[b, t, d] = x[b, t, d] * f.rrms[b, t]
    f.y[b, t, d] = (1 + scale[b, d]) * f.xhat[b, t, d] * gamma[d] + shift[b, d]
    return f.y


L19 = Problem(
    19,
    "modulated_rms_norm",
    modulated_rms_norm,
    lambda x, gamma, scale, shift: (1 + scale[:, None]) * F.rms_norm(x, gamma.shape, gamma, 1e-6) + shift[:, None],
    {"b": 8, "t": 128, "d": 512},
    """
dshift = dy.sum(1)
products = (dy * xhat).sum(1)
dscale = products * gamma
dgamma = (products * (1 + scale)).sum(0)
scaled = dy * ((1 + scale) * gamma)[:, None]
dx = rrms[..., None] * (scaled - xhat * (scaled * xhat).mean(-1, True))
""",
)


@op
def multi_token_attention(f, s: tensor[b, c, l, l], weight: tensor[o, c, three, trio], bias: tensor[o]):
    f.m[b, c, i, j] = where(j <= i, s[b, c, i, j], -oo)
    f.p = softmax(f.m)
    inside = (i + three >= 1) & (i + three <= size(l)) & (j + trio >= 1) & (j + trio <= size(l))
    taps = where(inside, weight[o, c, three, trio] * f.p[b, c, i + three - 1, j + trio - 1], 0)
    f.z[b, o, i, j] = sum(taps, over=(c, three, trio)) + bias[o]
    f.y[b, o, i, j] = where(j <= i, f.z[b, o, i, j], 0)
    return f.y


def _multi_token_attention(s, weight, bias):
    mask = torch.ones(s.shape[-2:], dtype=torch.bool).tril()
    p = s.masked_fill(~mask, -math.inf).softmax(-1)
    return F.conv2d(p, weight, bias, padding=1).masked_fill(~mask, 0.0)


L20 = Problem(
    20,
    "multi_token_attention",
    multi_token_attention,
    _multi_token_attention,
    {"b": 2, "c": 8, "l": 64, "l2": 64, "o": 8},
    """
dz = dy.tril()
dbias = dz.sum((0, 2, 3))
dweight = torch.nn.grad.conv2d_weight(p, weight.shape, dz, padding=1)
dp = torch.nn.grad.conv2d_input(p.shape, weight, dz, padding=1)
ds = p * (dp - (dp * p).sum(-1, True))
""",
)


@op
def poly_norm(f, x: tensor[..., d], w0: tensor[()], w1: tensor[()], w2: tensor[()], bias: tensor[()]):
    f.r3[...] = rsqrt(mean(x[..., d] ** 6, over=d) + 1e-6)
    f.r2[...] = rsqrt(mean(x[..., d] ** 4, over=d) + 1e-6)
    f.r1[...] = rsqrt(mean(x[..., d] ** 2, over=d) + 1e-6)
    cube = w0[()] * x[..., d] ** 3 * f.r3[...]
    f.y[..., d] = cube + w1[()] * x[..., d] ** 2 * f.r2[...] + w2[()] * x[..., d] * f.r1[...] + bias[()]
    return f.y


def _poly_norm(x, w0, w1, w2, bias):
    def norm(u):
        return u * torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + 1e-6)

    return w0 * norm(x**3) + w1 * norm(x**2) + w2 * norm(x) + bias


L21 = Problem(
    21,
    "poly_norm",
    poly_norm,
    _poly_norm,
    ROWS,
    """
square = x * x
n3 = square * x * r3[..., None]
n2 = square * r2[..., None]
n1 = x * r1[..., None]
dbias = dy.sum()
s3 = (dy * n3).sum(-1, True)
s2 = (dy * n2).sum(-1, True)
s1 = (dy * n1).sum(-1, True)
dw0 = s3.sum()
dw1 = s2.sum()
dw2 = s1.sum()
d3 = w0 * 3 * square * r3[..., None] * (dy - n3 * s3 / x.shape[-1])
d2 = w1 * 2 * x * r2[..., None] * (dy - n2 * s2 / x.shape[-1])
dx = d3 + d2 + w2 * r1[..., None] * (dy - n1 * s1 / x.shape[-1])
""",
)


@op
def multimodal_rotary(f, x: tensor[..., t, d], cos: constant[three, t, h], sin: constant[three, t, h]):
    f.z[..., t, pair, h] = x[..., t, (pair, h)]
    f.k[t, h] = where(h < 2, cos[0, t, h], where(h < 5, cos[1, t, h], cos[2, t, h]))
    f.s[t, h] = where(h < 2, sin[0, t, h], where(h < 5, sin[1, t, h], sin[2, t, h]))
    f.a[..., t, h] = f.z[..., t, 0, h] * f.k[t, h] - f.z[..., t, 1, h] * f.s[t, h]
    f.b[..., t, h] = f.z[..., t, 1, h] * f.k[t, h] + f.z[..., t, 0, h] * f.s[t, h]
    f.y[..., t, d] = concat(f.a[..., t, h], f.b[..., t, h], along=d)
    return f.y


def _multimodal_rotary(x, cos, sin):
    cos, sin = (torch.cat((of[0, :, :2], of[1, :, 2:5], of[2, :, 5:]), -1) for of in (cos, sin))
    one, other = x.chunk(2, -1)
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1)


L22 = Problem(
    22,
    "qwen2vl_mrope",
    multimodal_rotary,
    _multimodal_rotary,
    {"...": 64, "t": 128, "d": 64, "h": 32},
    """
one, other = dy.chunk(2, -1)  # view
dx = torch.cat((one * k + other * s, other * k - one * s), -1)
""",
    note="of queries, and in the same way of keys; sections of 2, 3 and the rest",
)


@op
def relu_squared(f, x: tensor[...]):
    f.y[...] = relu(x[...]) ** 2
    return f.y


L23 = Problem(
    23,
    "relu_squared",
    relu_squared,
    lambda x: F.relu(x).square(),
    {"...": 1048576},
    "dx = 2 * dy * F.relu(x)",
)

L24 = Problem(
    24,
    "rms_norm",
    rmsnorm,
    lambda x, gamma, eps: F.rms_norm(x, gamma.shape, gamma, eps),
    ROWS,
    """
dgamma = (dy * xhat).flatten(0, -2).sum(0)
scaled = dy * gamma
dx = rrms[..., None] * (scaled - xhat * (scaled * xhat).mean(-1, True))
""",
)


def _rotary(x, cos, sin):
    one, other = x.chunk(2, -1)
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1)


L25 = Problem(
    25,
    "rope",
    rotary,
    _rotary,
    {"...": 64, "t": 128, "d": 64, "h": 32},
    """
one, other = dy.chunk(2, -1)  # view
dx = torch.cat((one * cos + other * sin, other * cos - one * sin), -1)
""",
    note="of queries, and in the same way of keys",
)

L26 = Problem(
    26,
    "softmax",
    softmax,
    lambda x: F.softmax(x, -1),
    ROWS,
    "dx = p * (dp - (dp * p).sum(-1, True))",
)


@op
def sparsemax(f, z: tensor[n, i]):
    f.rank[n, i] = sum(where(z[n, j] >= z[n, i], 1, 0), over=j)
    f.above[n, i] = sum(where(z[n, j] >= z[n, i], z[n, j], 0), over=j)
    kept = 1 + f.rank[n, i] * z[n, i] > f.above[n, i]
    f.count[n] = sum(where(kept, 1, 0), over=i)
    f.tau[n] = (sum(where(kept, z[n, i], 0), over=i) - 1) / f.count[n]
    f.y[n, i] = relu(z[n, i] - f.tau[n])
    return f.y


def _sparsemax(z):
    ordered = z.sort(-1, descending=True).values
    above = ordered.cumsum(-1) - 1
    ranks = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    count = (ranks * ordered > above).sum(-1, keepdim=True)
    return F.relu(z - above.gather(-1, count - 1) / count)


L27 = Problem(
    27,
    "sparsemax",
    sparsemax,
    _sparsemax,
    {"n": 128, "i": 128},
    """
kept = y > 0
share = (dy * kept).sum(-1, True) / kept.sum(-1, True)
dz = (dy - share) * kept
""",
    note="no word sorts: ranks are counted, which compares all pairs of a row",
)

L28 = Problem(
    28,
    "swiglu",
    swiglu,
    lambda gate, up: F.silu(gate) * up,
    {"...": 524288},
    """
sigma = torch.sigmoid(gate)
dup = dy * gate * sigma
dgate = dy * up * sigma * (1 + gate * (1 - sigma))
""",
)

L29 = Problem(
    29,
    "tiled_mlp",
    swiglu_mlp,
    lambda x, gate, up, down: torch.cat([_swiglu_mlp(part, gate, up, down) for part in x.chunk(4)]),
    _MLP_LENGTHS,
    _MLP,
    note="the op of 18; tiles are no matter of its mathematics",
)


@op
def total_variation(f, p: tensor[n, c], q: tensor[n, c]):
    f.a[n, c] = p[n, c] - q[n, c]
    f.loss[()] = sum(abs(f.a[n, c]), over=(n, c)) / 2 / size(n)
    return f.loss


L30 = Problem(
    30,
    "tvd",
    total_variation,
    lambda p, q: (p - q).abs().sum() / 2 / p.shape[0],
    {"n": 512, "c": 512},
    """
dp = dloss / (2 * p.shape[0]) * a.sign()
dq = -dp
""",
)


@op
def token_cross_entropy(f, z: tensor[n, c], y: index(c)[n]):
    f.logp = log_softmax(z)
    f.e[n] = -0.9 * f.logp[n, y[n]] - 0.1 * mean(f.logp[n, c], over=c)
    f.loss[n] = where(ne(y[n], -100), f.e[n], 0)
    return f.loss


L31 = Problem(
    31,
    "vocab_parallel_cross_entropy",
    token_cross_entropy,
    lambda z, y: F.cross_entropy(z, y, ignore_index=-100, label_smoothing=0.1, reduction="none"),
    {"n": 512, "c": 1024},
    """
share = (dloss * (y != -100))[:, None]
dz = share * (torch.exp(logp) - 0.1 / z.shape[1])
dz.scatter_add_(1, y[:, None], -0.9 * share)
""",
    note="of one process; sums over several are no word of the notation",
)


@op
def hyper_connection_read(f, x: tensor[n, i, c], weight: tensor[n, i]):
    f.y[n, c] = sum(weight[n, i] * x[n, i, c], over=i)
    return f.y


L32 = Problem(
    32,
    "mhc, what is read",
    hyper_connection_read,
    lambda x, weight: (x * weight[..., None]).sum(-2),
    {"n": 1024, "i": 4, "c": 256},
    """
dweight = (x @ dy[..., None])[..., 0]
dx = weight[..., None] * dy[:, None]
""",
)


@op
def hyper_connection_written(f, x: tensor[n, i, c], made: tensor[n, c], post: tensor[n, o], mixed: tensor[n, o, i]):
    f.y[n, o, c] = sum(mixed[n, o, i] * x[n, i, c], over=i) + post[n, o] * made[n, c]
    return f.y


L33 = Problem(
    33,
    "mhc, what is written",
    hyper_connection_written,
    lambda x, made, post, mixed: mixed @ x + post[..., None] * made[:, None],
    {"n": 1024, "i": 4, "c": 256, "o": 4},
    """
dx = mixed.mT @ dy
dmixed = dy @ x.mT
dpost = (dy @ made[..., None])[..., 0]
dmade = (post[:, None] @ dy)[:, 0]
""",
)


# --- chunked losses: a linear layer, and what follows it --------------------------------------------------


@op
def token_log_shares(f, x: tensor[b, t, d], weight: tensor[c, d], bias: tensor[c], y: index(c)[b, t]):
    """The logarithms of the shares of labels, 0 where there is none, of each place of a sequence."""
    f.z[b, t, c] = sum(x[b, t, d] * weight[c, d], over=d) + bias[c]
    f.logp = log_softmax(f.z)
    f.l[b, t] = where(ne(y[b, t], -100), f.logp[b, t, y[b, t]], 0)
    return f.l


@op
def sequence_log_shares(f, x: tensor[b, t, d], weight: tensor[c, d], bias: tensor[c], y: index(c)[b, t]):
    """Their sums by sequence, of which the first half of the batch is chosen, and the chosen ones' mean by token."""
    f.l = token_log_shares(x, weight, bias, y)
    f.sums[b] = sum(f.l[b, t], over=t)
    f.halves[pair, n] = f.sums[((pair, n),)]
    f.used[b] = sum(where(ne(y[b, t], -100), 1, 0), over=t)
    f.counts[pair, n] = f.used[((pair, n),)]
    f.nll[()] = -sum(f.halves[0, n], over=n) / sum(f.counts[0, n], over=n)
    return f.halves, f.nll


def _token_log_shares(x, weight, bias, y):
    logp = F.log_softmax(F.linear(x, weight, bias), -1)
    used = y != -100
    return torch.where(used, logp.gather(-1, y.where(used, 0)[..., None]).squeeze(-1), 0.0)


def _sequence_log_shares(x, weight, bias, y):
    l = _token_log_shares(x, weight, bias, y)
    chosen, rejected = l.sum(-1).chunk(2)
    return chosen, rejected, -chosen.sum() / (y.chunk(2)[0] != -100).sum()


_BY_TOKEN = """
dl = dl * (y != -100)
dz = -dl[..., None] * torch.exp({name}logp)
dz.scatter_add_(2, y[..., None], dl[..., None])
dx = dz @ weight
dweight = dz.flatten(0, 1).T @ x.flatten(0, 1)
dbias = dz.sum((0, 1))
"""
"""From the gradient of tokens' log-probabilities."""

_OF_TOKENS = _BY_TOKEN.format(name="h_l_")
"""The same where the sums by sequence are called `h`."""

_PAIRS = """
dnll = dloss / h_counts[0].sum()
dl = torch.cat((dchosen - dnll, drejected))[:, None]
"""

SEQUENCES = {"b": 4, "t": 64, "d": 64, "c": 512}
FEW = {"b": 6, "t": 5, "d": 7, "c": 9}
WIDE = {"b": 2, "t": 3, "d": 5, "c": 515}


@op
def cosine_distillation(
    f, x: tensor[n, d], weight: tensor[c, d], bias: tensor[c], teacher: constant[n, c], y: index(c)[n]
):
    f.z[n, c] = sum(x[n, d] * weight[c, d], over=d) + bias[c]
    f.logp = log_softmax(f.z)
    f.count[()] = sum(where(ne(y[n], -100), 1, 0), over=n)
    f.hard[()] = -sum(where(ne(y[n], -100), f.logp[n, y[n]], 0), over=n) / f.count[()]
    f.rz[n] = rsqrt(sum(f.z[n, c] ** 2, over=c))
    f.rt[n] = rsqrt(sum(teacher[n, c] ** 2, over=c))
    f.cos[n] = sum(f.z[n, c] * teacher[n, c], over=c) * f.rz[n] * f.rt[n]
    f.loss[()] = f.hard[()] / 2 + sum(1 - f.cos[n], over=n) / f.count[()] / 2
    return f.loss


def _cosine_distillation(x, weight, bias, teacher, y):
    z = F.linear(x, weight, bias)
    far = (1 - F.cosine_similarity(F.normalize(z, dim=-1), F.normalize(teacher, dim=-1), dim=-1)).sum()
    return F.cross_entropy(z, y, ignore_index=-100) / 2 + far / (y != -100).sum() / 2


L41 = Problem(
    41,
    "chunked cosine similarity",
    cosine_distillation,
    _cosine_distillation,
    TOKENS,
    """
half = dloss / 2 / count
share = (half * (y != -100))[:, None]
dz = share * torch.exp(logp)
dz.scatter_add_(1, y[:, None], -share)
dz -= half * rz[:, None] * (rt[:, None] * teacher - (cos * rz)[:, None] * z)
"""
    + _LINEAR,
)


@op
def contrastive_preference(f, x: tensor[b, t, d], weight: tensor[c, d], bias: tensor[c], y: index(c)[b, t]):
    f.h, f.nll = sequence_log_shares(x, weight, bias, y)
    f.m[n] = 0.1 * (f.h[0, n] - f.h[1, n])
    f.e[n] = 0.9 * softplus(-f.m[n]) + 0.1 * softplus(f.m[n])
    f.loss[()] = f.nll[()] + mean(f.e[n], over=n)
    return f.loss


def _contrastive_preference(x, weight, bias, y):
    chosen, rejected, nll = _sequence_log_shares(x, weight, bias, y)
    margin = 0.1 * (chosen - rejected)
    return nll + (-0.9 * F.logsigmoid(margin) - 0.1 * F.logsigmoid(-margin)).mean()


L42 = Problem(
    42,
    "chunked CPO",
    contrastive_preference,
    _contrastive_preference,
    SEQUENCES,
    """
dchosen = 0.1 * dloss / m.shape[0] * (torch.sigmoid(m) - 0.9)
drejected = -dchosen
"""
    + _PAIRS
    + _OF_TOKENS,
    odd=FEW,
    long=WIDE,
)


@op
def direct_preference(
    f,
    x: tensor[b, t, d],
    weight: tensor[c, d],
    bias: tensor[c],
    y: index(c)[b, t],
    chosen: constant[n],
    rejected: constant[n],
):
    f.h, f.nll = sequence_log_shares(x, weight, bias, y)
    f.m[n] = 0.1 * (f.h[0, n] - chosen[n] - (f.h[1, n] - rejected[n]))
    f.loss[()] = f.nll[()] + mean(softplus(-f.m[n]), over=n)
    return f.loss


def _direct_preference(x, weight, bias, y, chosen, rejected):
    ours, theirs, nll = _sequence_log_shares(x, weight, bias, y)
    return nll - F.logsigmoid(0.1 * (ours - chosen - (theirs - rejected))).mean()


L43 = Problem(
    43,
    "chunked DPO",
    direct_preference,
    _direct_preference,
    {**SEQUENCES, "n": 2},
    """
dchosen = -0.1 * dloss / m.shape[0] * torch.sigmoid(-m)
drejected = -dchosen
"""
    + _PAIRS
    + _OF_TOKENS,
    odd={**FEW, "n": 3},
    long={**WIDE, "n": 1},
    note="the reference model's log-probabilities are constants",
)


@op
def linear_policy_loss(
    f,
    x: tensor[n, t, d],
    weight: tensor[c, d],
    bias: tensor[c],
    y: index(c)[n, t],
    old: constant[n, t],
    given: constant[n, t],
    advantage: constant[n],
    mask: constant[n, t],
):
    f.z[n, t, c] = sum(x[n, t, d] * weight[c, d], over=d) + bias[c]
    f.loss = grouped_policy_loss(f.z, y, old, given, advantage, mask)
    return f.loss


L44 = Problem(
    44,
    "chunked GRPO",
    linear_policy_loss,
    lambda x, weight, bias, *others: _grouped_policy_loss(F.linear(x, weight, bias), *others),
    {"n": 4, "t": 64, "d": 64, "c": 512},
    _POLICY.format(name="loss_") + _BY_TOKEN.format(name="loss_"),
    note="the mask counts squared here, so that any weights will do",
)


@op
def shannon_distillation(
    f, x: tensor[n, d], weight: tensor[c, d], bias: tensor[c], teacher: constant[n, c], y: index(c)[n]
):
    f.z[n, c] = sum(x[n, d] * weight[c, d], over=d) + bias[c]
    f.a = log_softmax(f.z)
    f.b = log_softmax(teacher)
    f.e = divergence_from_the_middle(f.a, f.b)
    f.count[()] = sum(where(ne(y[n], -100), 1, 0), over=n)
    hard = -sum(where(ne(y[n], -100), f.a[n, y[n]], 0), over=n)
    f.loss[()] = (hard + sum(where(ne(y[n], -100), f.e[n], 0), over=n)) / f.count[()] / 2
    return f.loss


def _shannon_distillation(x, weight, bias, teacher, y):
    z, used = F.linear(x, weight, bias), y != -100
    soft = _divergence_from_the_middle(F.log_softmax(z, -1), F.log_softmax(teacher, -1)) * used
    return F.cross_entropy(z, y, ignore_index=-100) / 2 + soft.sum() / used.sum() / 2


L45 = Problem(
    45,
    "chunked JSD",
    shannon_distillation,
    _shannon_distillation,
    TOKENS,
    """
share = (dloss * (y != -100) / count / 2)[:, None]
p = torch.exp(a)
slopes = p * (a - e_mix) / 2
dz = share * (slopes - p * slopes.sum(1, True) + p)
dz.scatter_add_(1, y[:, None], -share)
"""
    + _LINEAR,
)


@op
def prospect_preference(
    f,
    x: tensor[b, t, d],
    weight: tensor[c, d],
    bias: tensor[c],
    y: index(c)[b, t],
    given: constant[b],
    wanted: constant[b],
    kl: scalar = 0.3,
):
    f.l = token_log_shares(x, weight, bias, y)
    f.r[b] = sum(f.l[b, t], over=t) - given[b]
    f.s[b] = where(wanted[b] > 0, 1, -1)
    f.e[b] = sigmoid(0.1 * (f.r[b] - kl) * f.s[b])
    f.loss[()] = mean(1 - f.e[b], over=b)
    return f.loss


def _prospect_preference(x, weight, bias, y, given, wanted, kl):
    ratios = _token_log_shares(x, weight, bias, y).sum(-1) - given
    return (1 - torch.sigmoid(0.1 * (ratios - kl) * torch.where(wanted > 0, 1, -1))).mean()


L46 = Problem(
    46,
    "chunked KTO",
    prospect_preference,
    _prospect_preference,
    SEQUENCES,
    "dl = (-0.1 * dloss / e.shape[0] * e * (1 - e) * s)[:, None]" + _BY_TOKEN.format(name="l_"),
    note="the reference model's log-probabilities are constants",
)


@op
def odds_preference(f, x: tensor[b, t, d], weight: tensor[c, d], bias: tensor[c], y: index(c)[b, t]):
    f.h, f.nll = sequence_log_shares(x, weight, bias, y)
    f.q[pair, n] = f.h[pair, n] / f.h_counts[pair, n]
    f.g[pair, n] = f.q[pair, n] - log(1 - exp(f.q[pair, n]))
    f.m[n] = f.g[0, n] - f.g[1, n]
    f.loss[()] = f.nll[()] + 0.1 * mean(softplus(-f.m[n]), over=n)
    return f.loss


def _odds_preference(x, weight, bias, y):
    chosen, rejected, nll = _sequence_log_shares(x, weight, bias, y)
    counts = (y != -100).sum(-1)
    chosen, rejected = chosen / counts.chunk(2)[0], rejected / counts.chunk(2)[1]
    odds = chosen - rejected - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
    return nll - 0.1 * F.logsigmoid(odds).mean()


L47 = Problem(
    47,
    "chunked ORPO",
    odds_preference,
    _odds_preference,
    SEQUENCES,
    """
dm = -0.1 * dloss / m.shape[0] * torch.sigmoid(-m)
dchosen = dm / (1 - torch.exp(q[0])) / h_counts[0]
drejected = -dm / (1 - torch.exp(q[1])) / h_counts[1]
"""
    + _PAIRS
    + _OF_TOKENS,
    odd=FEW,
    long=WIDE,
)


@op
def simple_preference(f, x: tensor[b, t, d], weight: tensor[c, d], bias: tensor[c], y: index(c)[b, t]):
    f.h, f.nll = sequence_log_shares(x, weight, bias, y)
    f.q[pair, n] = f.h[pair, n] / f.h_counts[pair, n]
    f.m[n] = 0.1 * (f.q[0, n] - f.q[1, n]) - 0.5
    f.loss[()] = f.nll[()] + mean(softplus(-f.m[n]), over=n)
    return f.loss


def _simple_preference(x, weight, bias, y):
    chosen, rejected, nll = _sequence_log_shares(x, weight, bias, y)
    counts = (y != -100).sum(-1)
    return nll - F.logsigmoid(0.1 * (chosen / counts.chunk(2)[0] - rejected / counts.chunk(2)[1]) - 0.5).mean()


L48 = Problem(
    48,
    "chunked SimPO",
    simple_preference,
    _simple_preference,
    SEQUENCES,
    """
dm = -0.1 * dloss / m.shape[0] * torch.sigmoid(-m)
dchosen = dm / h_counts[0]
drejected = -dm / h_counts[1]
"""
    + _PAIRS
    + _OF_TOKENS,
    odd=FEW,
    long=WIDE,
)


@op
def sequence_policy_loss(
    f,
    x: tensor[n, t, d],
    weight: tensor[c, d],
    bias: tensor[c],
    y: index(c)[n, t],
    old: constant[n, t],
    advantage: constant[n],
):
    f.l = token_log_shares(x, weight, bias, y)
    f.r[n] = exp(mean(f.l[n, t] - old[n, t], over=t))
    f.k[n] = where(f.r[n] < 0.8, 0.8, where(f.r[n] > 1.2, 1.2, f.r[n]))
    f.a[n] = f.r[n] * advantage[n]
    f.b[n] = f.k[n] * advantage[n]
    f.loss[()] = -mean(minimum(f.a[n], f.b[n]), over=n)
    return f.loss


def _sequence_policy_loss(x, weight, bias, y, old, advantage):
    ratios = torch.exp((_token_log_shares(x, weight, bias, y) - old).mean(-1))
    return -torch.min(ratios * advantage, torch.clamp(ratios, 0.8, 1.2) * advantage).mean()


L49 = Problem(
    49,
    "chunked GRPO, ratios of sequences",
    sequence_policy_loss,
    _sequence_policy_loss,
    {"n": 4, "t": 64, "d": 64, "c": 512},
    """
free = (a < b) | (k == r)
dl = (-dloss / a.shape[0] * a * free / y.shape[1])[:, None]
"""
    + _BY_TOKEN.format(name="l_"),
)


@op
def hinge_preference(
    f,
    x: tensor[b, t, d],
    weight: tensor[c, d],
    bias: tensor[c],
    y: index(c)[b, t],
    chosen: constant[n],
    rejected: constant[n],
):
    f.h, f.nll = sequence_log_shares(x, weight, bias, y)
    f.m[n] = 1 - 0.1 * (f.h[0, n] - chosen[n] - (f.h[1, n] - rejected[n]))
    f.loss[()] = f.nll[()] + mean(relu(f.m[n]), over=n)
    return f.loss


def _hinge_preference(x, weight, bias, y, chosen, rejected):
    ours, theirs, nll = _sequence_log_shares(x, weight, bias, y)
    return nll + F.relu(1 - 0.1 * (ours - chosen - (theirs - rejected))).mean()


L50 = Problem(
    50,
    "chunked DPO, hinge",
    hinge_preference,
    _hinge_preference,
    {**SEQUENCES, "n": 2},
    """
dchosen = -0.1 * dloss / m.shape[0] * (m > 0)
drejected = -dchosen
"""
    + _PAIRS
    + _OF_TOKENS,
    odd={**FEW, "n": 3},
    long={**WIDE, "n": 1},
    note="the reference model's log-probabilities are constants",
)
