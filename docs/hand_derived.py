"""Backward passes that people derived by hand and published, statement by statement in the words of the notation.

`derive table --against docs/hand_derived.py` counts each by the rule it counts ours by. An op here is named for the
op whose backward it is, two underscores, and where it is from; its first line names the source. Its inputs are what
that source reads: gradients of outputs, and tensors it keeps from its forward. Fused kernels are written out as whole
tensors, what they compute again included. Each is checked against the chain rule by tests/test_report.py.
"""

# ruff: noqa: F403, F405
from derive import *

n, c, d, e, i, j, g, k, s, o, t, h, p = axes("n c d e i j g k s o t h p")


# --- normalisation ------------------------------------------------------------------------------------------


@op
def layernorm__llm_c(
    f, dy: constant[..., d], x: constant[..., d], mu: constant[...], rstd: constant[...], gamma: constant[d]
):
    """llm.c, train_gpt2.c, layernorm_backward"""
    f.norm[..., d] = (x[..., d] - mu[...]) * rstd[...]
    f.dnorm[..., d] = gamma[d] * dy[..., d]
    f.dnorm_mean[...] = mean(f.dnorm[..., d], over=d)
    f.dnorm_norm_mean[...] = mean(f.dnorm[..., d] * f.norm[..., d], over=d)
    f.dbeta[d] = sum(dy[..., d], over=...)
    f.dgamma[d] = sum(f.norm[..., d] * dy[..., d], over=...)
    f.dx[..., d] = (f.dnorm[..., d] - f.dnorm_mean[...] - f.norm[..., d] * f.dnorm_norm_mean[...]) * rstd[...]
    return f.dx, f.dgamma, f.dbeta


@op
def layernorm__pytorch(
    f, dy: constant[..., d], x: constant[..., d], mu: constant[...], rstd: constant[...], gamma: constant[d]
):
    """PyTorch, aten/src/ATen/native/cpu/layer_norm_kernel.cpp, LayerNormBackwardKernelImplInternal"""
    f.ds[...] = sum(dy[..., d] * x[..., d] * gamma[d], over=d)
    f.db[...] = sum(dy[..., d] * gamma[d], over=d)
    f.b[...] = (f.db[...] * mu[...] - f.ds[...]) * rstd[...] ** 3 / size(d)
    f.c[...] = -f.b[...] * mu[...] - f.db[...] * rstd[...] / size(d)
    f.dx[..., d] = rstd[...] * dy[..., d] * gamma[d] + f.b[...] * x[..., d] + f.c[...]
    f.dgamma[d] = sum(dy[..., d] * (x[..., d] - mu[...]) * rstd[...], over=...)
    f.dbeta[d] = sum(dy[..., d], over=...)
    return f.dx, f.dgamma, f.dbeta


@op
def rmsnorm__liger(f, dy: constant[..., d], x: constant[..., d], rrms: constant[...], gamma: constant[d]):
    """Liger-Kernel, src/liger_kernel/ops/rms_norm.py, _rms_norm_backward_kernel"""
    f.m[..., d] = dy[..., d] * gamma[d]
    f.m_x[...] = sum(f.m[..., d] * x[..., d], over=d)
    f.dx[..., d] = rrms[...] * f.m[..., d] - rrms[...] * (rrms[...] ** 2 / size(d) * f.m_x[...]) * x[..., d]
    f.dgamma[d] = sum(dy[..., d] * (x[..., d] * rrms[...]), over=...)
    return f.dx, f.dgamma


@op
def batchnorm__makemore(
    f, dy: constant[n, d], xhat: constant[n, d], rstd: constant[d], gamma: constant[d], correction: scalar = 1
):
    """Karpathy, nn-zero-to-hero, makemore part 4, exercise 3, its sums shared with those of dgamma and dbeta"""
    f.dgamma[d] = sum(xhat[n, d] * dy[n, d], over=n)
    f.dbeta[d] = sum(dy[n, d], over=n)
    f.dx[n, d] = (gamma[d] * rstd[d] / size(n)) * (
        size(n) * dy[n, d] - f.dbeta[d] - size(n) / (size(n) - correction) * xhat[n, d] * f.dgamma[d]
    )
    return f.dx, f.dgamma, f.dbeta


@op
def groupnorm__pytorch(
    f,
    dy: constant[n, c, s],
    x: constant[n, c, s],
    mu: constant[n, g],
    rstd: constant[n, g],
    gamma: constant[c],
    groups: length(g),
):
    """PyTorch, aten/src/ATen/native/cpu/group_norm_kernel.cpp, GroupNormBackwardKernelImplInternal"""
    f.dyg[n, g, k, s] = dy[n, (g, k), s]
    f.xg[n, g, k, s] = x[n, (g, k), s]
    f.gg[g, k] = gamma[(g, k),]
    f.ds[n, g, k] = sum(f.dyg[n, g, k, s] * f.xg[n, g, k, s], over=s)
    f.db[n, g, k] = sum(f.dyg[n, g, k, s], over=s)
    f.ds_g[n, g] = sum(f.ds[n, g, k] * f.gg[g, k], over=k)
    f.db_g[n, g] = sum(f.db[n, g, k] * f.gg[g, k], over=k)
    f.c2[n, g] = (f.db_g[n, g] * mu[n, g] - f.ds_g[n, g]) * rstd[n, g] ** 3 / (size(k) * size(s))
    f.c3[n, g] = -f.c2[n, g] * mu[n, g] - f.db_g[n, g] * rstd[n, g] / (size(k) * size(s))
    f.c1[n, g, k] = rstd[n, g] * f.gg[g, k]
    f.dx[n, (g, k), s] = f.c1[n, g, k] * f.dyg[n, g, k, s] + f.c2[n, g] * f.xg[n, g, k, s] + f.c3[n, g]
    f.dgg[g, k] = sum((f.ds[n, g, k] - f.db[n, g, k] * mu[n, g]) * rstd[n, g], over=n)
    f.dgamma[(g, k),] = f.dgg[g, k]
    f.dbg[g, k] = sum(f.db[n, g, k], over=n)
    f.dbeta[(g, k),] = f.dbg[g, k]
    return f.dx, f.dgamma, f.dbeta


# --- activations --------------------------------------------------------------------------------------------


@op
def relu__pytorch(f, dy: constant[...], y: constant[...]):
    """PyTorch, tools/autograd/derivatives.yaml, relu: threshold_backward(grad, result, 0)"""
    f.dx[...] = where(y[...] > 0, dy[...], 0)
    return f.dx


@op
def leaky_relu__pytorch(f, dy: constant[...], x: constant[...], slope: scalar = 0.01):
    """PyTorch, aten/src/ATen/native/cpu/Activation.cpp, leaky_relu_backward_kernel"""
    f.dx[...] = where(x[...] > 0, dy[...], dy[...] * slope)
    return f.dx


@op
def elu__pytorch(f, dy: constant[...], x: constant[...], alpha: scalar = 1.0):
    """PyTorch, aten/src/ATen/native/cpu/Activation.cpp, elu_backward_kernel"""
    f.dx[...] = where(x[...] <= 0, dy[...] * alpha * exp(x[...]), dy[...])
    return f.dx


@op
def sigmoid__pytorch(f, dy: constant[...], y: constant[...]):
    """PyTorch, aten/src/ATen/native/cpu/BinaryOpsKernel.cpp, sigmoid_backward_kernel"""
    f.dx[...] = dy[...] * (1 - y[...]) * y[...]
    return f.dx


@op
def tanh__pytorch(f, dy: constant[...], y: constant[...]):
    """PyTorch, aten/src/ATen/native/cpu/BinaryOpsKernel.cpp, tanh_backward_kernel"""
    f.dx[...] = dy[...] * (1 - y[...] ** 2)
    return f.dx


@op
def softplus__pytorch(f, dy: constant[...], x: constant[...]):
    """PyTorch, aten/src/ATen/native/cpu/Activation.cpp, softplus_backward_kernel"""
    f.dx[...] = dy[...] * sigmoid(x[...])
    return f.dx


@op
def silu__pytorch(f, dy: constant[...], x: constant[...]):
    """PyTorch, aten/src/ATen/native/cpu/Activation.cpp, silu_backward_kernel"""
    f.sig[...] = sigmoid(x[...])
    f.dx[...] = dy[...] * f.sig[...] * (1 + x[...] * (1 - f.sig[...]))
    return f.dx


@op
def gelu__pytorch(f, dy: constant[...], x: constant[...]):
    """PyTorch, aten/src/ATen/native/cpu/Activation.cpp, GeluBackwardKernelImpl (none)"""
    f.cdf[...] = (1 + erf(x[...] / sqrt(2))) / 2
    f.pdf[...] = exp(-(x[...] ** 2) / 2) / sqrt(2 * pi)
    f.dx[...] = dy[...] * (f.cdf[...] + x[...] * f.pdf[...])
    return f.dx


@op
def gelu_tanh__llm_c(f, dy: constant[...], x: constant[...]):
    """llm.c, train_gpt2.c, gelu_backward, its 1/cosh**2 written as 1 - tanh**2"""
    f.tanh_out[...] = tanh(sqrt(2 / pi) * (x[...] + 0.044715 * x[...] ** 3))
    f.sech_out[...] = 1 - f.tanh_out[...] ** 2
    f.local_grad[...] = (1 + f.tanh_out[...]) / 2 + x[...] / 2 * f.sech_out[...] * sqrt(2 / pi) * (
        1 + 3 * 0.044715 * x[...] ** 2
    )
    f.dx[...] = f.local_grad[...] * dy[...]
    return f.dx


@op
def swiglu__liger(f, dy: constant[...], gate: constant[...], up: constant[...]):
    """Liger-Kernel, src/liger_kernel/ops/swiglu.py, _swiglu_backward_kernel"""
    f.sig[...] = sigmoid(gate[...])
    f.silu_gate[...] = gate[...] * f.sig[...]
    f.dup[...] = dy[...] * f.silu_gate[...]
    f.dgate[...] = dy[...] * (f.silu_gate[...] * (1 - f.sig[...]) + f.sig[...]) * up[...]
    return f.dgate, f.dup


@op
def softmax__pytorch(f, dp: constant[..., d], p: constant[..., d]):
    """PyTorch, aten/src/ATen/native/cpu/SoftMaxKernel.cpp, vec_host_softmax_backward_lastdim (softmax)"""
    f.total[...] = sum(dp[..., d] * p[..., d], over=d)
    f.dx[..., d] = (dp[..., d] - f.total[...]) * p[..., d]
    return f.dx


@op
def log_softmax__pytorch(f, dy: constant[..., d], y: constant[..., d]):
    """PyTorch, aten/src/ATen/native/cpu/SoftMaxKernel.cpp, vec_host_softmax_backward_lastdim (log_softmax)"""
    f.total[...] = sum(dy[..., d], over=d)
    f.dx[..., d] = dy[..., d] - exp(y[..., d]) * f.total[...]
    return f.dx


@op
def logsumexp__pytorch(f, dy: constant[...], x: constant[..., d], y: constant[...]):
    """PyTorch, torch/csrc/autograd/FunctionsManual.cpp, logsumexp_backward"""
    f.dx[..., d] = dy[...] * exp(x[..., d] - y[...])
    return f.dx


# --- losses -------------------------------------------------------------------------------------------------


@op
def softmax_cross_entropy__llm_c(f, dloss: constant[()], p: constant[n, c], y: index(c)[n]):
    """llm.c, train_gpt2.c, crossentropy_softmax_backward"""
    f.dlosses[()] = dloss[()] / size(n)
    f.dz[n, c] = (p[n, c] - where(eq(c, y[n]), 1, 0)) * f.dlosses[()]
    return f.dz


@op
def sequence_cross_entropy__pytorch(f, dloss: constant[()], logp: constant[..., c], y: index(c)[...]):
    """PyTorch, tools/autograd/derivatives.yaml, nll_loss and _log_softmax, the zeros of the first as a comparison"""
    f.dlogp[..., c] = where(eq(c, y[...]), -dloss[()] / size(...), 0)
    f.total[...] = sum(f.dlogp[..., c], over=c)
    f.dz[..., c] = f.dlogp[..., c] - exp(logp[..., c]) * f.total[...]
    return f.dz


@op
def nll__pytorch(f, dloss: constant[()], y: index(c)[n], classes: length(c)):
    """PyTorch, aten/src/ATen/native/LossNLL.cpp, nll_loss_backward_out_frame (its zeros as a comparison)"""
    f.dlogp[n, c] = where(eq(c, y[n]), -dloss[()] / size(n), 0)
    return f.dlogp


@op
def mse__pytorch(f, dloss: constant[()], x: constant[...], t: constant[...]):
    """PyTorch, aten/src/ATen/native/cpu/PointwiseOpsKernel.cpp, mse_backward_cpu_kernel, for both inputs"""
    f.dx[...] = 2 / size(...) * dloss[()] * (x[...] - t[...])
    f.dt[...] = -f.dx[...]
    return f.dx, f.dt


@op
def l1__pytorch(f, dloss: constant[()], x_minus_t: constant[...]):
    """PyTorch, tools/autograd/derivatives.yaml, mean and abs, for both inputs"""
    f.dx[...] = dloss[()] / size(...) * sign(x_minus_t[...])
    f.dt[...] = -f.dx[...]
    return f.dx, f.dt


@op
def bce_with_logits__pytorch(f, dloss: constant[()], x: constant[...], t: constant[...]):
    """PyTorch, FunctionsManual.cpp, binary_cross_entropy_with_logits_backward and _target_backward"""
    f.share[()] = dloss[()] / size(...)
    f.dx[...] = (sigmoid(x[...]) - t[...]) * f.share[()]
    f.dt[...] = -x[...] * f.share[()]
    return f.dx, f.dt


@op
def kl_div__pytorch(f, dloss: constant[()], t: constant[n, c]):
    """PyTorch, tools/autograd/derivatives.yaml, mul and sub of the target"""
    f.dlogp[n, c] = -t[n, c] * (dloss[()] / size(n))
    return f.dlogp


# --- layers and attention -----------------------------------------------------------------------------------


@op
def linear__llm_c(f, dy: constant[..., o], x: constant[..., i], w: constant[i, o]):
    """llm.c, train_gpt2.c, matmul_backward"""
    f.dx[..., i] = sum(dy[..., o] * w[i, o], over=o)
    f.dw[i, o] = sum(x[..., i] * dy[..., o], over=...)
    f.db[o] = sum(dy[..., o], over=...)
    return f.dx, f.dw, f.db


@op
def dropout__pytorch(f, dy: constant[...], mask: constant[...], rate: scalar = 0.5):
    """PyTorch, aten/src/ATen/native/Dropout.cpp, native_dropout_backward"""
    f.dx[...] = dy[...] * mask[...] * (1 / (1 - rate))
    return f.dx


@op
def causal_attention__llm_c(
    f,
    do: constant[..., i, e],
    p: constant[..., i, j],
    q: constant[..., i, d],
    k: constant[..., j, d],
    v: constant[..., j, e],
):
    """llm.c, llmc/attention.cuh, attention_backward with softmax_autoregressive_backward_inplace_kernel"""
    f.datt[..., i, j] = sum(do[..., i, e] * v[..., j, e], over=e)
    f.dv[..., j, e] = sum(p[..., i, j] * do[..., i, e], over=i)
    f.local_sum[..., i] = sum(p[..., i, j] * f.datt[..., i, j], over=j)
    f.dpreatt[..., i, j] = p[..., i, j] * (f.datt[..., i, j] - f.local_sum[..., i]) / sqrt(size(d))
    f.dq[..., i, d] = sum(f.dpreatt[..., i, j] * k[..., j, d], over=j)
    f.dk[..., j, d] = sum(f.dpreatt[..., i, j] * q[..., i, d], over=i)
    return f.dq, f.dk, f.dv


@op
def attention__flash(
    f,
    do: constant[..., i, e],
    o: constant[..., i, e],
    lse: constant[..., i],
    q: constant[..., i, d],
    k: constant[..., j, d],
    v: constant[..., j, e],
):
    """FlashAttention-2 (Dao, 2023), algorithm 2, its tiles put together; p is computed again"""
    f.delta_i[..., i] = sum(do[..., i, e] * o[..., i, e], over=e)
    f.s[..., i, j] = sum(q[..., i, d] * k[..., j, d], over=d) / sqrt(size(d))
    f.p[..., i, j] = exp(f.s[..., i, j] - lse[..., i])
    f.dv[..., j, e] = sum(f.p[..., i, j] * do[..., i, e], over=i)
    f.dp[..., i, j] = sum(do[..., i, e] * v[..., j, e], over=e)
    f.ds[..., i, j] = f.p[..., i, j] * (f.dp[..., i, j] - f.delta_i[..., i])
    f.dq[..., i, d] = sum(f.ds[..., i, j] * k[..., j, d], over=j) / sqrt(size(d))
    f.dk[..., j, d] = sum(f.ds[..., i, j] * q[..., i, d], over=i) / sqrt(size(d))
    return f.dq, f.dk, f.dv
