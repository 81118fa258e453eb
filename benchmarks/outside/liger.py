"""Liger's ops, then its chunked losses. The specs are ours, from the mathematics: a chunk or a tile is a schedule."""

import torch
import torch.nn.functional as F

from benchmarks.outside.problem import Problem
from derive import *

b, c, d, e, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w = axes("b c d e g h i j k l m n o p q r s t u v w")
two, three = axes("two=2 three=3")

ROWS = {"...": 512, "d": 1024}
LOGITS = {"n": 512, "c": 1024}
HIDDEN = {"n": 256, "h": 128, "c": 1024}


# --- ops ----------------------------------------------------------------------------------------------------


@op
def attention_residuals(f, x: tensor[l, ..., d], query: tensor[d], gamma: tensor[d], eps: scalar = 1e-6):
    """A mix of the outputs of all blocks below, weighed by a softmax over depth (Kimi, 2026)."""
    f.rrms[l, ...] = rsqrt(mean(x[l, ..., d] ** 2, over=d) + eps)
    f.s[l, ...] = sum(query[d] * gamma[d] * x[l, ..., d] * f.rrms[l, ...], over=d)
    f.u[l, ...] = exp(f.s[l, ...])
    f.p[l, ...] = f.u[l, ...] / sum(f.u[l, ...], over=l)
    f.y[..., d] = sum(f.p[l, ...] * x[l, ..., d], over=l)
    return f.y


def attention_residuals_forward(x, query, gamma, eps):
    """A person's."""
    scores = (F.rms_norm(x, gamma.shape, gamma, eps) * query).sum(-1)
    return (scores.softmax(0)[..., None] * x).sum(0)


P1 = Problem(1, "attn_res", attention_residuals, attention_residuals_forward, {"l": 8, "...": 128, "d": 512})


@op
def cross_entropy_with_all(
    f, z: tensor[n, c], y: index(c)[n], smoothing: scalar = 0.1, squares: scalar = 0.01, cap: scalar = 30.0
):
    """Cross-entropy with capped logits, smoothed labels and the square of the partition's logarithm."""
    f.x[n, c] = cap * tanh(z[n, c] / cap)
    f.lse[n] = log(sum(exp(f.x[n, c]), over=c))
    f.hard[n] = f.lse[n] - f.x[n, y[n]]
    f.soft[n] = f.lse[n] - mean(f.x[n, c], over=c)
    f.loss[()] = mean((1 - smoothing) * f.hard[n] + smoothing * f.soft[n] + squares * f.lse[n] ** 2, over=n)
    return f.loss


def cross_entropy_forward(z, y, smoothing, squares, cap):
    """A person's."""
    x = cap * torch.tanh(z / cap)
    return F.cross_entropy(x, y, label_smoothing=smoothing) + squares * (torch.logsumexp(x, 1) ** 2).mean()


P2 = Problem(
    2,
    "cross_entropy",
    cross_entropy_with_all,
    cross_entropy_forward,
    LOGITS,
    """
x_share = (x - lse[:, None]).exp() * ((1 + 2 * squares * lse) / len(y))[:, None]
x_share -= smoothing / x.shape[1] / len(y)
x_share[torch.arange(len(y)), y] -= (1 - smoothing) / len(y)
dz = dloss * x_share * (1 - (x / cap) ** 2)
""",
)


@op
def dynamic_tanh(f, x: tensor[..., d], alpha: tensor[()], gamma: tensor[d], beta: tensor[d]):
    """A hyperbolic tangent in the place of a normalisation (Zhu et al., 2025)."""
    f.a[..., d] = tanh(alpha[()] * x[..., d])
    f.y[..., d] = gamma[d] * f.a[..., d] + beta[d]
    return f.y


P3 = Problem(
    3,
    "dyt",
    dynamic_tanh,
    lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * x) + beta,
    ROWS,
    """
dbeta = dy.flatten(0, -2).sum(0)
dgamma = (dy * a).flatten(0, -2).sum(0)
slope = dy * gamma * (1 - a**2)
dalpha = (slope * x).sum()
dx = alpha * slope
""",
)


@op
def add_rms_norm(f, x: tensor[..., d], residual: tensor[..., d], gamma: tensor[d], eps: scalar = 1e-6):
    """A residual added, and the sum normalised; both go on."""
    f.z[..., d] = x[..., d] + residual[..., d]
    f.rrms[...] = rsqrt(mean(f.z[..., d] ** 2, over=d) + eps)
    f.y[..., d] = f.z[..., d] * f.rrms[...] * gamma[d]
    return f.y, f.z


def add_rms_norm_forward(x, residual, gamma, eps):
    """A person's."""
    z = x + residual
    return F.rms_norm(z, gamma.shape, gamma, eps), z


P4 = Problem(
    4,
    "fused_add_rms_norm",
    add_rms_norm,
    add_rms_norm_forward,
    ROWS,
    """
zhat = z * rrms[..., None]
dgamma = (dy * zhat).flatten(0, -2).sum(0)
scaled = dy * gamma
dx = rrms[..., None] * (scaled - zhat * (scaled * zhat).mean(-1, keepdim=True)) + dz
dresidual = dx
""",
)


@op
def linear_cross_entropy(f, x: tensor[n, h], a: tensor[c, h], y: index(c)[n]):
    """Cross-entropy of a linear layer's output."""
    f.z[n, c] = sum(x[n, h] * a[c, h], over=h)
    f.lse[n] = log(sum(exp(f.z[n, c]), over=c))
    f.loss[()] = mean(f.lse[n] - f.z[n, y[n]], over=n)
    return f.loss


P5 = Problem(
    5,
    "fused_linear_cross_entropy",
    linear_cross_entropy,
    lambda x, a, y: F.cross_entropy(F.linear(x, a), y),
    HIDDEN,
    """
share = (z - lse[:, None]).exp() * (dloss / len(y))
share[torch.arange(len(y)), y] -= dloss / len(y)
dx = share @ a
da = share.T @ x
""",
)


@op
def linear_jsd(
    f, x: tensor[n, h], a: tensor[c, h], teacher: constant[n, c], beta: scalar = 0.5, temperature: scalar = 1.0
):
    """The generalised divergence of Jensen and Shannon of a linear layer's output from a teacher's."""
    f.z[n, c] = sum(x[n, h] * a[c, h], over=h) / temperature
    f.logq[n, c] = f.z[n, c] - log(sum(exp(f.z[n, c]), over=c))
    f.q[n, c] = exp(f.logq[n, c])
    f.p[n, c] = exp(teacher[n, c])
    f.logm[n, c] = log(beta * f.p[n, c] + (1 - beta) * f.q[n, c])
    f.near[n, c] = beta * f.p[n, c] * (teacher[n, c] - f.logm[n, c])
    f.far[n, c] = (1 - beta) * f.q[n, c] * (f.logq[n, c] - f.logm[n, c])
    f.loss[()] = mean(sum(f.near[n, c] + f.far[n, c], over=c), over=n)
    return f.loss


def jsd_of(logq, teacher, beta):
    """A person's divergence of log-probabilities."""
    q, p = logq.exp(), teacher.exp()
    logm = torch.log(beta * p + (1 - beta) * q)
    both = beta * F.kl_div(logm, teacher, reduction="sum", log_target=True)
    return (both + (1 - beta) * F.kl_div(logm, logq, reduction="sum", log_target=True)) / len(q)


P6 = Problem(
    6,
    "fused_linear_jsd",
    linear_jsd,
    lambda x, a, teacher, beta, temperature: jsd_of(F.log_softmax(F.linear(x, a) / temperature, -1), teacher, beta),
    HIDDEN,
)


@op
def linear_scaled_cross_entropy(f, x: tensor[n, h], a: tensor[c, h], y: index(c)[n], temperature: scalar = 0.9):
    """The negative log-likelihood and the entropy of each row, at a temperature."""
    f.z[n, c] = sum(x[n, h] * a[c, h], over=h) / temperature
    f.lse[n] = log(sum(exp(f.z[n, c]), over=c))
    f.nll[n] = f.lse[n] - f.z[n, y[n]]
    f.entropy[n] = sum(exp(f.z[n, c] - f.lse[n]) * (f.lse[n] - f.z[n, c]), over=c)
    return f.nll, f.entropy


def linear_scaled_forward(x, a, y, temperature):
    """A person's."""
    logp = F.log_softmax(F.linear(x, a) / temperature, -1)
    return F.nll_loss(logp, y, reduction="none"), -(logp.exp() * logp).sum(-1)


P7 = Problem(7, "fused_linear_scaled_cross_entropy", linear_scaled_cross_entropy, linear_scaled_forward, HIDDEN)


@op
def experts_mlp(
    f,
    x: tensor[t, d],
    gate: tensor[e, h, d],
    up: tensor[e, h, d],
    down: tensor[e, d, h],
    expert: index(e)[t, k],
    weight: tensor[t, k],
):
    """A gated MLP of a few experts for each token, weighed."""
    f.g[t, k, h] = sum(gate[expert[t, k], h, d] * x[t, d], over=d)
    f.v[t, k, h] = sum(up[expert[t, k], h, d] * x[t, d], over=d)
    f.a[t, k, h] = f.g[t, k, h] * sigmoid(f.g[t, k, h]) * f.v[t, k, h]
    f.o[t, k, d] = sum(down[expert[t, k], d, h] * f.a[t, k, h], over=h)
    f.y[t, d] = sum(weight[t, k] * f.o[t, k, d], over=k)
    return f.y


def experts_forward(x, gate, up, down, expert, weight):
    """A person's: a loop over the experts."""
    y = torch.zeros_like(x)
    for at in range(len(gate)):
        token, slot = (expert == at).nonzero(as_tuple=True)
        inner = F.silu(x[token] @ gate[at].T) * (x[token] @ up[at].T)
        y = y.index_add(0, token, weight[token, slot, None] * (inner @ down[at].T))
    return y


P8 = Problem(8, "fused_moe", experts_mlp, experts_forward, {"t": 64, "d": 64, "e": 8, "h": 128, "k": 2})


@op
def neighbourhood_attention(f, q: tensor[..., i, d], k: tensor[..., i, d], v: tensor[..., i, d], reach: scalar = 3):
    """Attention to the places that are near."""
    f.s[..., i, j] = sum(q[..., i, d] * k[..., j, d], over=d) / sqrt(size(d))
    f.x[..., i, j] = where((i - j <= reach) & (j - i <= reach), f.s[..., i, j], -oo)
    f.u[..., i, j] = exp(f.x[..., i, j] - amax(f.x[..., i, j], over=j))
    f.p[..., i, j] = f.u[..., i, j] / sum(f.u[..., i, j], over=j)
    f.o[..., i, d] = sum(f.p[..., i, j] * v[..., j, d], over=j)
    return f.o


def neighbourhood_forward(q, k, v, reach):
    """A person's."""
    at = torch.arange(q.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(at[:, None] - at).abs() <= reach)


P9 = Problem(
    9,
    "fused_neighborhood_attention",
    neighbourhood_attention,
    neighbourhood_forward,
    {"...": 8, "i": 128, "d": 64},
    """
dv = p.mT @ do
dp = do @ v.mT
rows = (do * o).sum(-1, keepdim=True)
ds = p * (dp - rows) / math.sqrt(q.shape[-1])
dq = ds @ k
dk = ds.mT @ q
""",
)


@op
def gated_gelu(f, x: tensor[...], v: tensor[...]):
    """GELU, by the hyperbolic tangent, of a gate, times the other."""
    f.t[...] = tanh(sqrt(2 / pi) * (x[...] + 0.044715 * x[...] ** 3))
    f.y[...] = x[...] * (1 + f.t[...]) / 2 * v[...]
    return f.y


P10 = Problem(
    10,
    "geglu",
    gated_gelu,
    lambda x, v: F.gelu(x, approximate="tanh") * v,
    {"...": 2**19},
    """
dv = dy * x * (1 + t) / 2
inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
dx = dy * v / 2 * (1 + t + x * (1 - t * t) * inner)
""",
)


@op
def group_norm_places(f, x: tensor[n, c, s], gamma: tensor[c], beta: tensor[c], groups: length(g), eps: scalar = 1e-6):
    """Group normalisation."""
    f.z[n, g, k, s] = x[n, (g, k), s]
    f.mu[n, g] = mean(f.z[n, g, k, s], over=(k, s))
    f.rstd[n, g] = rsqrt(mean((f.z[n, g, k, s] - f.mu[n, g]) ** 2, over=(k, s)) + eps)
    f.xhat[n, (g, k), s] = (f.z[n, g, k, s] - f.mu[n, g]) * f.rstd[n, g]
    f.y[n, c, s] = gamma[c] * f.xhat[n, c, s] + beta[c]
    return f.y


P11 = Problem(
    11,
    "group_norm",
    group_norm_places,
    lambda x, gamma, beta, groups, eps: F.group_norm(x, groups, gamma, beta, eps),
    {"n": 16, "c": 32, "s": 1024, "g": 8},
)


@op
def clipped_policy(
    f,
    z: tensor[n, t, c],
    y: index(c)[n, t],
    old: constant[n, t],
    ref: constant[n, t],
    advantage: constant[n],
    low: scalar = 0.2,
    high: scalar = 0.2,
    beta: scalar = 0.04,
    temperature: scalar = 0.9,
):
    """The loss of each token under group-relative policy optimisation (Shao et al., 2024)."""
    f.x[n, t, c] = z[n, t, c] / temperature
    f.logp[n, t] = f.x[n, t, y[n, t]] - log(sum(exp(f.x[n, t, c]), over=c))
    f.ratio[n, t] = exp(f.logp[n, t] - old[n, t])
    f.clipped[n, t] = minimum(maximum(f.ratio[n, t], 1 - low), 1 + high)
    f.gain[n, t] = minimum(f.ratio[n, t] * advantage[n], f.clipped[n, t] * advantage[n])
    f.off[n, t] = ref[n, t] - f.logp[n, t]
    f.loss[n, t] = beta * (exp(f.off[n, t]) - f.off[n, t] - 1) - f.gain[n, t]
    return f.loss


def policy_loss(logp, old, ref, advantage, low, high, beta):
    """A person's, of log-probabilities."""
    ratio = torch.exp(logp - old)
    gain = torch.minimum(ratio * advantage[:, None], ratio.clamp(1 - low, 1 + high) * advantage[:, None])
    return beta * (torch.exp(ref - logp) - (ref - logp) - 1) - gain


def log_likelihood(logits, y):
    """A person's log-probability of each label."""
    return F.log_softmax(logits, -1).gather(-1, y[..., None])[..., 0]


P12 = Problem(
    12,
    "grpo_loss",
    clipped_policy,
    lambda z, y, old, ref, advantage, low, high, beta, temperature: policy_loss(
        log_likelihood(z / temperature, y), old, ref, advantage, low, high, beta
    ),
    {"n": 8, "t": 64, "c": 1024},
    note="the clipping of GRPO; what else Liger offers differs in the last two equations",
)


@op
def jensen_shannon(f, x: tensor[n, c], teacher: constant[n, c], beta: scalar = 0.5):
    """The generalised divergence of Jensen and Shannon of log-probabilities."""
    f.q[n, c] = exp(x[n, c])
    f.p[n, c] = exp(teacher[n, c])
    f.logm[n, c] = log(beta * f.p[n, c] + (1 - beta) * f.q[n, c])
    f.near[n, c] = beta * f.p[n, c] * (teacher[n, c] - f.logm[n, c])
    f.far[n, c] = (1 - beta) * f.q[n, c] * (x[n, c] - f.logm[n, c])
    f.loss[()] = mean(sum(f.near[n, c] + f.far[n, c], over=c), over=n)
    return f.loss


P13 = Problem(13, "jsd", jensen_shannon, jsd_of, LOGITS, "dx = (1 - beta) * q * (x - logm) * (dloss / len(x))")


@op
def divergence_from(f, x: tensor[n, c], target: constant[n, c].positive):
    """The divergence of Kullback and Leibler of log-probabilities from probabilities, by the row."""
    f.loss[()] = mean(sum(target[n, c] * (log(target[n, c]) - x[n, c]), over=c), over=n)
    return f.loss


P14 = Problem(
    14,
    "kl_div",
    divergence_from,
    lambda x, target: F.kl_div(x, target, reduction="batchmean"),
    LOGITS,
    "dx = target * (-dloss / len(x))",
)


@op
def layer_norm_rows(f, x: tensor[..., d], gamma: tensor[d], beta: tensor[d], eps: scalar = 1e-6):
    """Layer normalisation."""
    f.mu[...] = mean(x[..., d], over=d)
    f.rstd[...] = rsqrt(mean((x[..., d] - f.mu[...]) ** 2, over=d) + eps)
    f.xhat[..., d] = (x[..., d] - f.mu[...]) * f.rstd[...]
    f.y[..., d] = gamma[d] * f.xhat[..., d] + beta[d]
    return f.y


P15 = Problem(
    15,
    "layer_norm",
    layer_norm_rows,
    lambda x, gamma, beta, eps: F.layer_norm(x, gamma.shape, gamma, beta, eps),
    ROWS,
    """
dbeta = dy.flatten(0, -2).sum(0)
dgamma = (dy * xhat).flatten(0, -2).sum(0)
scaled = gamma * dy
m = scaled.mean(-1, keepdim=True)
mx = (scaled * xhat).mean(-1, keepdim=True)
dx = rstd[..., None] * (scaled - m - xhat * mx)
""",
)


@op
def complex_rotation(f, q: tensor[b, t, h, d], k: tensor[b, t, g, d], real: constant[t, p], imag: constant[t, p]):
    """Queries and keys, pairs of features as complex numbers, turned by a number for each place."""
    f.x[b, t, h, p, two] = q[b, t, h, (p, two)]
    f.y[b, t, g, p, two] = k[b, t, g, (p, two)]
    f.x_re[b, t, h, p] = f.x[b, t, h, p, 0] * real[t, p] - f.x[b, t, h, p, 1] * imag[t, p]
    f.x_im[b, t, h, p] = f.x[b, t, h, p, 0] * imag[t, p] + f.x[b, t, h, p, 1] * real[t, p]
    f.y_re[b, t, g, p] = f.y[b, t, g, p, 0] * real[t, p] - f.y[b, t, g, p, 1] * imag[t, p]
    f.y_im[b, t, g, p] = f.y[b, t, g, p, 0] * imag[t, p] + f.y[b, t, g, p, 1] * real[t, p]
    f.q_out[b, t, h, (p, two)] = concat(f.x_re[b, t, h, p], f.x_im[b, t, h, p], along=two)
    f.k_out[b, t, g, (p, two)] = concat(f.y_re[b, t, g, p], f.y_im[b, t, g, p], along=two)
    return f.q_out, f.k_out


def complex_forward(q, k, real, imag):
    """A person's, with complex numbers."""
    by = torch.complex(real, imag)[:, None]
    return tuple(
        torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * by).flatten(-2)
        for x in (q, k)
    )


P16 = Problem(
    16,
    "llama4_rope",
    complex_rotation,
    complex_forward,
    {"b": 2, "t": 256, "h": 8, "g": 2, "d": 64, "p": 32},
    long={"b": 1, "t": 301, "h": 2, "g": 3, "d": 6, "p": 3},
)

P17 = Problem(
    17,
    "mhc",
    missing="iterate: twenty alternate normalisations of rows and columns (Sinkhorn), as often as an argument says",
)


@op
def gated_mlp(f, x: tensor[..., d], gate: tensor[h, d], up: tensor[h, d], down: tensor[d, h]):
    """A gated MLP (Shazeer, 2020)."""
    f.g[..., h] = sum(gate[h, d] * x[..., d], over=d)
    f.v[..., h] = sum(up[h, d] * x[..., d], over=d)
    f.a[..., h] = f.g[..., h] * sigmoid(f.g[..., h]) * f.v[..., h]
    f.y[..., d] = sum(down[d, h] * f.a[..., h], over=h)
    return f.y


def gated_mlp_forward(x, gate, up, down):
    """A person's."""
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


GATED_MLP = """
da = dy @ down
ddown = dy.flatten(0, -2).T @ a.flatten(0, -2)
s = g.sigmoid()
dv = da * g * s
dg = da * v * s * (1 + g * (1 - s))
dgate = dg.flatten(0, -2).T @ x.flatten(0, -2)
dup = dv.flatten(0, -2).T @ x.flatten(0, -2)
dx = dg @ gate + dv @ up
"""
MLP = {"...": 256, "d": 128, "h": 256}
P18 = Problem(18, "mlp", gated_mlp, gated_mlp_forward, MLP, GATED_MLP)
P29 = Problem(
    29, "tiled_mlp", gated_mlp, gated_mlp_forward, MLP, GATED_MLP, note="its tiles are a schedule of the same sums"
)


@op
def modulated_rms_norm(
    f, x: tensor[n, t, d], gamma: tensor[d], scale: tensor[n, d], shift: tensor[n, d], eps: scalar = 1e-6
):
    """Root-mean-square normalisation, scaled and shifted by the example."""
    f.rrms[n, t] = rsqrt(mean(x[n, t, d] ** 2, over=d) + eps)
    f.xhat[n, t, d] = x[n, t, d] * f.rrms[n, t] * gamma[d]
    f.y[n, t, d] = f.xhat[n, t, d] * (1 + scale[n, d]) + shift[n, d]
    return f.y


P19 = Problem(
    19,
    "modulated_rms_norm",
    modulated_rms_norm,
    lambda x, gamma, scale, shift, eps: F.rms_norm(x, gamma.shape, gamma, eps) * (1 + scale[:, None]) + shift[:, None],
    {"n": 8, "t": 64, "d": 1024},
)


@op
def multi_token_attention(f, s: tensor[n, c, i, i], a: tensor[o, c, p, q], b: tensor[o]):
    """Causal weights, mixed with those of near pairs by a convolution with a place of zeros around, causal again."""
    f.x[n, c, i, j] = where(j <= i, s[n, c, i, j], -oo)
    f.u[n, c, i, j] = exp(f.x[n, c, i, j] - amax(f.x[n, c, i, j], over=j))
    f.p[n, c, i, j] = f.u[n, c, i, j] / sum(f.u[n, c, i, j], over=j)
    inside = (i + p >= 1) & (i + p < size(i) + 1) & (j + q >= 1) & (j + q < size(i) + 1)
    part = where(inside, a[o, c, p, q] * f.p[n, c, i + p - 1, j + q - 1], 0)
    f.z[n, o, i, j] = sum(part, over=(c, p, q)) + b[o]
    f.y[n, o, i, j] = where(j <= i, f.z[n, o, i, j], 0)
    return f.y


def multi_token_forward(s, a, b):
    """A person's."""
    causal = torch.ones(s.shape[-2:], dtype=torch.bool).tril()
    mixed = F.conv2d(s.masked_fill(~causal, -torch.inf).softmax(-1), a, b, padding=1)
    return mixed.masked_fill(~causal, 0)


P20 = Problem(
    20,
    "multi_token_attention",
    multi_token_attention,
    multi_token_forward,
    {"n": 2, "c": 8, "i": 64, "i2": 64, "o": 8, "p": 3, "q": 3},
    odd={"n": 2, "c": 3, "i": 7, "o": 5, "p": 3, "q": 3},
    long={"n": 1, "c": 2, "i": 75, "i2": 75, "o": 2, "p": 3, "q": 3},
)


@op
def poly_norm(f, x: tensor[..., d], weight: tensor[three], bias: tensor[()], eps: scalar = 1e-6):
    """A weighed sum of normalised powers (Zhuo et al., 2024)."""
    f.r_three[...] = rsqrt(mean(x[..., d] ** 6, over=d) + eps)
    f.r_two[...] = rsqrt(mean(x[..., d] ** 4, over=d) + eps)
    f.r_one[...] = rsqrt(mean(x[..., d] ** 2, over=d) + eps)
    f.cubes[..., d] = weight[0] * x[..., d] ** 3 * f.r_three[...]
    f.squares[..., d] = weight[1] * x[..., d] ** 2 * f.r_two[...]
    f.y[..., d] = f.cubes[..., d] + f.squares[..., d] + weight[2] * x[..., d] * f.r_one[...] + bias[()]
    return f.y


def poly_norm_forward(x, weight, bias, eps):
    """A person's."""
    powers = [F.rms_norm(x**k, x.shape[-1:], eps=eps) for k in (3, 2, 1)]
    return weight[0] * powers[0] + weight[1] * powers[1] + weight[2] * powers[2] + bias


P21 = Problem(21, "poly_norm", poly_norm, poly_norm_forward, ROWS)


@op
def sectioned_rotation(
    f,
    q: tensor[b, h, t, d],
    k: tensor[b, g, t, d],
    c: constant[three, b, t, d],
    s: constant[three, b, t, d],
    first: scalar = 1,
    second: scalar = 2,
):
    """Queries and keys turned by angles of time, height and width, each for a section of the pairs."""
    f.cc[three, b, t, two, p] = c[three, b, t, (two, p)]
    f.ss[three, b, t, two, p] = s[three, b, t, (two, p)]
    f.cos_[b, t, p] = where(p < first, f.cc[0, b, t, 0, p], where(p < second, f.cc[1, b, t, 0, p], f.cc[2, b, t, 0, p]))
    f.sin_[b, t, p] = where(p < first, f.ss[0, b, t, 0, p], where(p < second, f.ss[1, b, t, 0, p], f.ss[2, b, t, 0, p]))
    f.x[b, h, t, two, p] = q[b, h, t, (two, p)]
    f.y[b, g, t, two, p] = k[b, g, t, (two, p)]
    f.x_low[b, h, t, p] = f.x[b, h, t, 0, p] * f.cos_[b, t, p] - f.x[b, h, t, 1, p] * f.sin_[b, t, p]
    f.x_high[b, h, t, p] = f.x[b, h, t, 1, p] * f.cos_[b, t, p] + f.x[b, h, t, 0, p] * f.sin_[b, t, p]
    f.y_low[b, g, t, p] = f.y[b, g, t, 0, p] * f.cos_[b, t, p] - f.y[b, g, t, 1, p] * f.sin_[b, t, p]
    f.y_high[b, g, t, p] = f.y[b, g, t, 1, p] * f.cos_[b, t, p] + f.y[b, g, t, 0, p] * f.sin_[b, t, p]
    f.q_out[b, h, t, (two, p)] = concat(f.x_low[b, h, t, p], f.x_high[b, h, t, p], along=two)
    f.k_out[b, g, t, (two, p)] = concat(f.y_low[b, g, t, p], f.y_high[b, g, t, p], along=two)
    return f.q_out, f.k_out


def sectioned_forward(q, k, c, s, first, second):
    """A person's."""
    half = torch.arange(q.shape[-1] // 2)
    section = ((half >= first).long() + (half >= second).long()).repeat(2)

    def chosen(x):
        low = x.unflatten(-1, (2, -1))[..., 0, :].repeat(1, 1, 1, 2)
        return low.gather(0, section.expand(1, *low.shape[1:]))[0][:, None]

    def turned(x):
        low, high = x.chunk(2, -1)
        return x * chosen(c) + torch.cat((-high, low), -1) * chosen(s)

    return turned(q), turned(k)


P22 = Problem(
    22,
    "qwen2vl_mrope",
    sectioned_rotation,
    sectioned_forward,
    {"b": 2, "h": 8, "g": 2, "t": 256, "d": 64},
)


@op
def squared_relu(f, x: tensor[...]):
    """The square of the positive part."""
    f.y[...] = relu(x[...]) ** 2
    return f.y


P23 = Problem(
    23, "relu_squared", squared_relu, lambda x: F.relu(x) ** 2, {"...": 2**20}, "dx = 2 * dy * x.clamp(min=0)"
)


@op
def rms_norm_rows(f, x: tensor[..., d], gamma: tensor[d], offset: scalar = 1.0, eps: scalar = 1e-6):
    """Root-mean-square normalisation, with weights about an offset as Gemma has them."""
    f.rrms[...] = rsqrt(mean(x[..., d] ** 2, over=d) + eps)
    f.y[..., d] = x[..., d] * f.rrms[...] * (gamma[d] + offset)
    return f.y


P24 = Problem(
    24,
    "rms_norm",
    rms_norm_rows,
    lambda x, gamma, offset, eps: F.rms_norm(x, gamma.shape, gamma + offset, eps),
    ROWS,
    """
xhat = x * rrms[..., None]
dgamma = (dy * xhat).flatten(0, -2).sum(0)
scaled = dy * (gamma + offset)
dx = rrms[..., None] * (scaled - xhat * (scaled * xhat).mean(-1, keepdim=True))
""",
)


@op
def rotary_pair(f, q: tensor[b, h, t, d], k: tensor[b, g, t, d], c: constant[t, p], s: constant[t, p]):
    """Queries and keys turned by an angle for each place and pair of features, the halves paired."""
    f.x[b, h, t, two, p] = q[b, h, t, (two, p)]
    f.y[b, g, t, two, p] = k[b, g, t, (two, p)]
    f.x_low[b, h, t, p] = f.x[b, h, t, 0, p] * c[t, p] - f.x[b, h, t, 1, p] * s[t, p]
    f.x_high[b, h, t, p] = f.x[b, h, t, 1, p] * c[t, p] + f.x[b, h, t, 0, p] * s[t, p]
    f.y_low[b, g, t, p] = f.y[b, g, t, 0, p] * c[t, p] - f.y[b, g, t, 1, p] * s[t, p]
    f.y_high[b, g, t, p] = f.y[b, g, t, 1, p] * c[t, p] + f.y[b, g, t, 0, p] * s[t, p]
    f.q_out[b, h, t, (two, p)] = concat(f.x_low[b, h, t, p], f.x_high[b, h, t, p], along=two)
    f.k_out[b, g, t, (two, p)] = concat(f.y_low[b, g, t, p], f.y_high[b, g, t, p], along=two)
    return f.q_out, f.k_out


def rotary_forward(q, k, c, s):
    """A person's."""
    c, s = torch.cat((c, c), -1), torch.cat((s, s), -1)

    def turned(x):
        low, high = x.chunk(2, -1)
        return x * c + torch.cat((-high, low), -1) * s

    return turned(q), turned(k)


P25 = Problem(
    25,
    "rope",
    rotary_pair,
    rotary_forward,
    {"b": 2, "h": 8, "g": 2, "t": 256, "d": 64, "p": 32},
    long={"b": 1, "h": 2, "g": 3, "t": 301, "d": 6, "p": 3},
)


@op
def softmax_rows(f, x: tensor[..., d]):
    """Softmax."""
    f.u[..., d] = exp(x[..., d])
    f.y[..., d] = f.u[..., d] / sum(f.u[..., d], over=d)
    return f.y


P26 = Problem(
    26,
    "softmax",
    softmax_rows,
    lambda x: F.softmax(x, -1),
    ROWS,
    """
s = (dy * y).sum(-1, keepdim=True)
dx = y * (dy - s)
""",
)


@op
def sparse_shares(f, x: tensor[n, d]):
    """Sparsemax: the nearest probabilities (Martins & Astudillo, 2016), by how much greater others are."""
    f.above[n, d] = sum(relu(x[n, e] - x[n, d]), over=e)
    f.count[n] = sum(where(f.above[n, d] < 1, 1, 0), over=d)
    f.tau[n] = (sum(where(f.above[n, d] < 1, x[n, d], 0), over=d) - 1) / f.count[n]
    f.y[n, d] = relu(x[n, d] - f.tau[n])
    return f.y


def sparsemax_forward(x):
    """A person's, by sorting."""
    z = x.sort(-1, descending=True)[0]
    sums = z.cumsum(-1) - 1
    count = (z * torch.arange(1, z.shape[-1] + 1) > sums).sum(-1, keepdim=True)
    return F.relu(x - sums.gather(-1, count - 1) / count)


P27 = Problem(
    27,
    "sparsemax",
    sparse_shares,
    sparsemax_forward,
    {"n": 64, "d": 256},
    """
kept = y > 0
dx = torch.where(kept, dy - (dy * kept).sum(1, keepdim=True) / count[:, None], 0)
""",
    note="by all pairs of a row: the word sort is missing",
)


@op
def gated_silu(f, x: tensor[...], v: tensor[...]):
    """SiLU of a gate, times the other."""
    f.s[...] = sigmoid(x[...])
    f.y[...] = x[...] * f.s[...] * v[...]
    return f.y


P28 = Problem(
    28,
    "swiglu",
    gated_silu,
    lambda x, v: F.silu(x) * v,
    {"...": 2**19},
    """
dv = dy * x * s
dx = dy * v * s * (1 + x * (1 - s))
""",
)


@op
def total_variation(f, x: tensor[n, c], target: constant[n, c]):
    """Half the distance of probabilities, by the row."""
    f.loss[()] = mean(sum(abs(x[n, c] - target[n, c]), over=c), over=n) / 2
    return f.loss


P30 = Problem(
    30,
    "tvd",
    total_variation,
    lambda x, target: F.l1_loss(x, target, reduction="sum") / 2 / len(x),
    LOGITS,
    "dx = (x - target).sign() * (dloss / 2 / len(x))",
)

P31 = Problem(
    31,
    "vocab_parallel_cross_entropy",
    missing="all-reduce: a sum and a maximum over the classes that other processes hold; of one process it is 2",
)


# --- chunked losses: a linear layer, then the loss of its logits ----------------------------------------------

TEXT = {"n": 4, "t": 32, "h": 64, "c": 512}


@op
def sequence_likelihood(f, x: tensor[n, t, h], a: tensor[c, h], y: index(c)[n, t]):
    """The log-likelihood of sequences under a linear layer, summed over places."""
    f.z[n, t, c] = sum(x[n, t, h] * a[c, h], over=h)
    f.logp[n] = sum(f.z[n, t, y[n, t]] - log(sum(exp(f.z[n, t, c]), over=c)), over=t)
    return f.logp


@op
def distill_cosine(
    f,
    x: tensor[n, h],
    a: tensor[c, h],
    teacher: constant[n, c],
    y: index(c)[n],
    hard: scalar = 0.5,
    soft: scalar = 0.5,
):
    """Cross-entropy, and how far the logits' direction is from a teacher's."""
    f.z[n, c] = sum(x[n, h] * a[c, h], over=h)
    f.nll[()] = mean(log(sum(exp(f.z[n, c]), over=c)) - f.z[n, y[n]], over=n)
    f.norms[n] = sqrt(sum(f.z[n, c] ** 2, over=c)) * sqrt(sum(teacher[n, c] ** 2, over=c))
    f.far[()] = mean(1 - sum(f.z[n, c] * teacher[n, c], over=c) / f.norms[n], over=n)
    f.loss[()] = hard * f.nll[()] + soft * f.far[()]
    return f.loss


def distill_cosine_forward(x, a, teacher, y, hard, soft):
    """A person's."""
    z = F.linear(x, a)
    return hard * F.cross_entropy(z, y) + soft * (1 - F.cosine_similarity(z, teacher, dim=-1, eps=0)).mean()


P32 = Problem(32, "chunked cosine_similarity", distill_cosine, distill_cosine_forward, HIDDEN)


@op
def contrastive_preference(
    f,
    won: tensor[n, t, h],
    lost: tensor[n, t, h],
    a: tensor[c, h],
    yes: index(c)[n, t],
    no: index(c)[n, t],
    beta: scalar = 0.1,
    alpha: scalar = 1.0,
):
    """Contrastive preference optimisation, with the likelihood of what is preferred (Xu et al., 2024)."""
    f.w = sequence_likelihood(won, a, yes)
    f.l = sequence_likelihood(lost, a, no)
    f.prefer[()] = mean(softplus(-beta * (f.w[n] - f.l[n])), over=n)
    f.loss[()] = f.prefer[()] - alpha * mean(f.w[n], over=n) / size(t)
    return f.loss


def likelihoods(won, lost, a, yes, no):
    """A person's log-likelihoods of both sequences."""
    return (log_likelihood(F.linear(x, a), y).sum(-1) for x, y in ((won, yes), (lost, no)))


def contrastive_forward(won, lost, a, yes, no, beta, alpha):
    """A person's."""
    w, l = likelihoods(won, lost, a, yes, no)
    return -F.logsigmoid(beta * (w - l)).mean() - alpha * w.mean() / won.shape[1]


P33 = Problem(33, "chunked cpo", contrastive_preference, contrastive_forward, TEXT)


@op
def direct_preference(
    f,
    won: tensor[n, t, h],
    lost: tensor[n, t, h],
    a: tensor[c, h],
    yes: index(c)[n, t],
    no: index(c)[n, t],
    ref_won: constant[n],
    ref_lost: constant[n],
    beta: scalar = 0.1,
):
    """Direct preference optimisation (Rafailov et al., 2023)."""
    f.w = sequence_likelihood(won, a, yes)
    f.l = sequence_likelihood(lost, a, no)
    f.gap[n] = beta * (f.w[n] - ref_won[n] - f.l[n] + ref_lost[n])
    f.loss[()] = -mean(log(sigmoid(f.gap[n])), over=n)
    return f.loss


def direct_forward(won, lost, a, yes, no, ref_won, ref_lost, beta):
    """A person's."""
    w, l = likelihoods(won, lost, a, yes, no)
    return -F.logsigmoid(beta * ((w - ref_won) - (l - ref_lost))).mean()


P34 = Problem(
    34,
    "chunked dpo",
    direct_preference,
    direct_forward,
    TEXT,
    note="the loss of sigmoids; the reference's likelihoods are inputs, and have no gradient in Liger either",
)


@op
def chunked_policy(
    f,
    x: tensor[n, t, h],
    a: tensor[c, h],
    y: index(c)[n, t],
    mask: constant[n, t],
    old: constant[n, t],
    ref: constant[n, t],
    advantage: constant[n],
    low: scalar = 0.2,
    high: scalar = 0.2,
    beta: scalar = 0.04,
):
    """Group-relative policy optimisation, averaged over the tokens that count (Yu et al., 2025)."""
    f.z[n, t, c] = sum(x[n, t, h] * a[c, h], over=h)
    f.token = clipped_policy(f.z, y, old, ref, advantage, low, high, beta, 1)
    f.loss[()] = sum(f.token[n, t] * mask[n, t], over=(n, t)) / maximum(sum(mask[n, t], over=(n, t)), 1)
    return f.loss


def chunked_policy_forward(x, a, y, mask, old, ref, advantage, low, high, beta):
    """A person's."""
    token = policy_loss(log_likelihood(F.linear(x, a), y), old, ref, advantage, low, high, beta)
    return (token * mask).sum() / mask.sum().clamp(min=1)


P35 = Problem(35, "chunked grpo", chunked_policy, chunked_policy_forward, TEXT)


@op
def distill_jsd(
    f,
    x: tensor[n, h],
    a: tensor[c, h],
    teacher: constant[n, c],
    y: index(c)[n],
    hard: scalar = 0.5,
    soft: scalar = 0.5,
    beta: scalar = 0.5,
):
    """Cross-entropy, and the divergence of Jensen and Shannon from a teacher's log-probabilities."""
    f.z[n, c] = sum(x[n, h] * a[c, h], over=h)
    f.logq[n, c] = f.z[n, c] - log(sum(exp(f.z[n, c]), over=c))
    f.far = jensen_shannon(f.logq, teacher, beta)
    f.loss[()] = soft * f.far[()] - hard * mean(f.logq[n, y[n]], over=n)
    return f.loss


def distill_jsd_forward(x, a, teacher, y, hard, soft, beta):
    """A person's."""
    logq = F.log_softmax(F.linear(x, a), -1)
    return hard * F.nll_loss(logq, y) + soft * jsd_of(logq, teacher, beta)


P36 = Problem(36, "chunked jsd", distill_jsd, distill_jsd_forward, HIDDEN)


@op
def unpaired_preference(
    f,
    x: tensor[n, t, h],
    a: tensor[c, h],
    y: index(c)[n, t],
    liked: constant[n],
    ref: constant[n],
    kl: constant[()],
    beta: scalar = 0.1,
):
    """Kahneman-Tversky optimisation (Ethayarajh et al., 2024)."""
    f.lp = sequence_likelihood(x, a, y)
    f.gap[n] = beta * (f.lp[n] - ref[n] - kl[()])
    f.loss[()] = mean(where(liked[n] > 0, 1 - sigmoid(f.gap[n]), 1 - sigmoid(-f.gap[n])), over=n)
    return f.loss


def unpaired_forward(x, a, y, liked, ref, kl, beta):
    """A person's."""
    gap = beta * (log_likelihood(F.linear(x, a), y).sum(-1) - ref - kl)
    return (1 - torch.sigmoid(torch.where(liked > 0, gap, -gap))).mean()


P37 = Problem(37, "chunked kto", unpaired_preference, unpaired_forward, TEXT)


@op
def odds_ratio_preference(
    f,
    won: tensor[n, t, h],
    lost: tensor[n, t, h],
    a: tensor[c, h],
    yes: index(c)[n, t],
    no: index(c)[n, t],
    beta: scalar = 0.1,
):
    """Odds-ratio preference optimisation, of mean log-likelihoods (Hong et al., 2024)."""
    f.w = sequence_likelihood(won, a, yes)
    f.l = sequence_likelihood(lost, a, no)
    f.wm[n] = f.w[n] / size(t)
    f.lm[n] = f.l[n] / size(t)
    f.odds[n] = f.wm[n] - f.lm[n] - (log(1 - exp(f.wm[n])) - log(1 - exp(f.lm[n])))
    f.loss[()] = -beta * mean(log(sigmoid(f.odds[n])), over=n) - mean(f.wm[n], over=n)
    return f.loss


def odds_forward(won, lost, a, yes, no, beta):
    """A person's."""
    w, l = (x / won.shape[1] for x in likelihoods(won, lost, a, yes, no))
    odds = w - l - (torch.log1p(-torch.exp(w)) - torch.log1p(-torch.exp(l)))
    return -beta * F.logsigmoid(odds).mean() - w.mean()


P38 = Problem(38, "chunked orpo", odds_ratio_preference, odds_forward, TEXT)


@op
def simple_preference(
    f,
    won: tensor[n, t, h],
    lost: tensor[n, t, h],
    a: tensor[c, h],
    yes: index(c)[n, t],
    no: index(c)[n, t],
    beta: scalar = 0.1,
    gamma: scalar = 0.5,
):
    """Simple preference optimisation, of mean log-likelihoods and a margin (Meng et al., 2024)."""
    f.w = sequence_likelihood(won, a, yes)
    f.l = sequence_likelihood(lost, a, no)
    f.gap[n] = beta * (f.w[n] - f.l[n]) / size(t) - gamma
    f.loss[()] = mean(softplus(-f.gap[n]), over=n)
    return f.loss


def simple_forward(won, lost, a, yes, no, beta, gamma):
    """A person's."""
    w, l = likelihoods(won, lost, a, yes, no)
    return -F.logsigmoid(beta * (w - l) / won.shape[1] - gamma).mean()


P39 = Problem(39, "chunked simpo", simple_preference, simple_forward, TEXT)
