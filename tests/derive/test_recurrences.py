"""Recurrences, held against plain loops with autograd: values and gradients at lengths from 0 on, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from derive.catalogue import load_text
from derive.emit.live import live_of
from derive.ir.equations import Op
from derive.orders import gradient_op, tangent_op

SPECS = '''
from derive import *

n, t, i, d, e, k, s = axes("n t i d e k s")
p = axes("p=2")


@op
def simple_rnn(f, x: tensor[n, t, i], w: tensor[i, d], u: tensor[e, d], h0: tensor[n, d]):
    f.z[n, t, d] = sum(x[n, t, i] * w[i, d], over=i)
    f.h[n, -1, d] = h0[n, d]
    f.h[n, t, d] = tanh(f.z[n, t, d] + sum(f.h[n, t - 1, e] * u[e, d], over=e))
    return f.h


@op
def discounted(f, r: tensor[n, t], v: tensor[n], gamma: scalar = 0.99):
    f.g[n, size(t)] = v[n]
    f.g[n, t] = r[n, t] + gamma * f.g[n, t + 1]
    return f.g


@op
def entangled(f, a: tensor[..., t, d], b: tensor[d], q0: tensor[..., d]):
    """Two states that read one another, of which the second is read at its own place; what comes before is a number."""
    f.p[..., -1, d] = 1
    f.q[..., -1, d] = q0[..., d]
    f.q[..., t, d] = sin(f.p[..., t - 1, d] + a[..., t, d]) * f.q[..., t - 1, d]
    f.p[..., t, d] = f.q[..., t, d] * b[d] + 0.5 * f.p[..., t - 1, d]
    f.y[..., d] = f.p[..., size(t) - 1, d] + f.q[..., size(t) - 1, d] ** 2
    return f.q, f.y


@op
def both_ways(f, x: tensor[n, t, d], w: tensor[d], h0: tensor[n, d]):
    """One forwards, one backwards over what that made, and a reader of the first one place earlier."""
    f.h[n, -1, d] = h0[n, d]
    f.h[n, t, d] = sigmoid(x[n, t, d] + w[d] * f.h[n, t - 1, d])
    f.g[n, size(t), d] = 0
    f.g[n, t, d] = f.h[n, t, d] * f.g[n, t + 1, d] + x[n, t, d]
    f.y[n, t, d] = f.g[n, t, d] * f.h[n, t - 1, d]
    return f.y


@op
def largest_so_far(f, x: tensor[n, t]):
    f.m[n, -1] = -1
    f.m[n, t] = maximum(f.m[n, t - 1], x[n, t])
    return f.m


@op
def matrix_state(f, q: tensor[n, t, k], v: tensor[n, t, d], w: tensor[n, t, k], decay: tensor[n, t]):
    """Linear attention whose memory decays: a state of two axes of its own."""
    f.m[n, -1, k, d] = 0
    f.m[n, t, k, d] = sigmoid(decay[n, t]) * f.m[n, t - 1, k, d] + w[n, t, k] * v[n, t, d]
    f.y[n, t, d] = sum(q[n, t, k] * f.m[n, t, k, d], over=k)
    return f.y


@op
def gathered(f, x: tensor[n, t, d], table: tensor[k, d], ix: index(k)[n, t], h0: tensor[n, d]):
    f.h[n, -1, d] = h0[n, d]
    f.u[n, t, d] = f.h[n, t - 1, d] * table[ix[n, t], d]
    f.h[n, t, d] = f.u[n, t, d] + where(t >= 2, x[n, t, d], 0) - mean(f.u[n, t, e], over=e)
    return f.h


@op
def normed(f, x: tensor[t, n, d], w: tensor[d, e], h0: tensor[n, d]):
    """The axis in front, a reduction that keeps its dimension, and a product of the state by a square matrix."""
    f.h[-1, n, d] = h0[n, d]
    f.v[t, n, e] = sum(f.h[t - 1, n, d] * w[d, e], over=d)
    f.r[t, n] = rsqrt(mean(f.v[t, n, e] ** 2, over=e) + 0.1)
    f.h[t, n, d] = x[t, n, d] + f.v[t, n, d] * f.r[t, n]
    return f.h


@op
def second_order(f, x: tensor[n, t], a: scalar = 0.3):
    """Two places back is a second state."""
    f.y[n, -1] = 0
    f.prev[n, -1] = 0
    f.prev[n, t] = f.y[n, t - 1]
    f.y[n, t] = x[n, t] + a * f.y[n, t - 1] - 0.5 * f.prev[n, t - 1]
    return f.y


@op
def filtered(f, logits: tensor[n, t, d], a: tensor[e, d], first: tensor[n, d]):
    """The forward algorithm of a hidden Markov model: log-sum-exp inside the step; it returns the last place."""
    f.s[n, -1, d] = first[n, d]
    f.s[n, t, d] = logits[n, t, d] + log(sum(exp(f.s[n, t - 1, e] + a[e, d]), over=e))
    f.y[n] = log(sum(exp(f.s[n, size(t) - 1, d]), over=d))
    return f.y


@op
def two_layers(f, x: tensor[n, t, i], w: tensor[i, d], u: tensor[e, d], v: tensor[d, k], q: tensor[s, k],
               h0: tensor[n, d], g0: tensor[n, k]):
    """An op with a recurrence called twice, and names that the first recurrence would have given."""
    f.h = simple_rnn(x, w, u, h0)
    f.h_prev = simple_rnn(f.h, v, q, g0)
    f.y[n, t, k] = f.h_prev[n, t, k] ** 2
    return f.y, f.h


@op
def last_alone(f, x: tensor[n, t], v: tensor[n]):
    """Backwards, the place that it ends at is the first."""
    f.g[n, size(t)] = v[n] ** 2
    f.g[n, t] = x[n, t] * f.g[n, t + 1]
    f.y[n] = f.g[n, 0]
    return f.y
'''
OPS = {op.name: op for op in load_text(SPECS, "recurrences")}
LENGTHS = (0, 1, 2, 7, 33)


def _rnn(x: Tensor, w: Tensor, u: Tensor, h0: Tensor) -> Any:
    h, out = h0, []
    for x_t in x.unbind(1):
        h = torch.tanh(x_t @ w + h @ u)
        out.append(h)
    return torch.stack(out, 1) if out else (x @ w)


def _discounted(r: Tensor, v: Tensor, gamma: float = 0.99) -> Any:
    g, out = v, []
    for r_t in reversed(r.unbind(1)):
        g = r_t + gamma * g
        out.append(g)
    return torch.stack(out[::-1], 1) if out else r * 1


def _entangled(a: Tensor, b: Tensor, q0: Tensor) -> Any:
    p, q, out = torch.ones_like(q0), q0, []
    for a_t in a.unbind(-2):
        q = torch.sin(p + a_t) * q
        p = q * b + 0.5 * p
        out.append(q)
    return torch.stack(out, -2) if out else a * 1, p + q**2


def _both_ways(x: Tensor, w: Tensor, h0: Tensor) -> Any:
    h, hs, g, out = h0, [h0], torch.zeros_like(h0), []
    for x_t in x.unbind(1):
        h = torch.sigmoid(x_t + w * h)
        hs.append(h)
    for k in reversed(range(x.shape[1])):
        g = hs[k + 1] * g + x[:, k]
        out.append(g * hs[k])
    return torch.stack(out[::-1], 1) if out else x * 1


def _largest(x: Tensor) -> Any:
    m, out = -torch.ones_like(x.sum(1)), []
    for x_t in x.unbind(1):
        m = torch.maximum(m, x_t)
        out.append(m)
    return torch.stack(out, 1) if out else x * 1


def _matrix_state(q: Tensor, v: Tensor, w: Tensor, decay: Tensor) -> Any:
    m, out = q.new_zeros(len(q), q.shape[2], v.shape[2]), []
    for k in range(q.shape[1]):
        m = torch.sigmoid(decay[:, k, None, None]) * m + w[:, k, :, None] * v[:, k, None, :]
        out.append((q[:, k, :, None] * m).sum(1))
    return torch.stack(out, 1) if out else v * 1


def _gathered(x: Tensor, table: Tensor, ix: Tensor, h0: Tensor) -> Any:
    h, out = h0, []
    for k in range(x.shape[1]):
        u = h * table[ix[:, k]]
        h = u + (x[:, k] if k >= 2 else 0) - u.mean(1, keepdim=True)
        out.append(h)
    return torch.stack(out, 1) if out else x * 1


def _normed(x: Tensor, w: Tensor, h0: Tensor) -> Any:
    h, out = h0, []
    for x_t in x:
        v = h @ w
        h = x_t + v * torch.rsqrt((v**2).mean(1, keepdim=True) + 0.1)
        out.append(h)
    return torch.stack(out) if out else x * 1


def _second_order(x: Tensor, a: float = 0.3) -> Any:
    y, prev, out = torch.zeros_like(x.sum(1)), torch.zeros_like(x.sum(1)), []
    for x_t in x.unbind(1):
        y, prev = x_t + a * y - 0.5 * prev, y
        out.append(y)
    return torch.stack(out, 1) if out else x * 1


def _filtered(logits: Tensor, a: Tensor, first: Tensor) -> Any:
    s = first
    for x_t in logits.unbind(1):
        s = x_t + torch.logsumexp(s[:, :, None] + a, 1)
    return torch.logsumexp(s, 1)


def _two_layers(x: Tensor, w: Tensor, u: Tensor, v: Tensor, q: Tensor, h0: Tensor, g0: Tensor) -> Any:
    h = _rnn(x, w, u, h0)
    return _rnn(h, v, q, g0) ** 2, h


def _last_alone(x: Tensor, v: Tensor) -> Any:
    g = v**2
    for x_t in reversed(x.unbind(1)):
        g = x_t * g
    return g


PLAIN: dict[str, tuple[Callable[..., Any], dict[str, int]]] = {
    "simple_rnn": (_rnn, {"n": 3, "i": 2, "d": 4, "e": 4}),
    "discounted": (_discounted, {"n": 3}),
    "entangled": (_entangled, {"...": 3, "d": 4}),
    "both_ways": (_both_ways, {"n": 3, "d": 2}),
    "largest_so_far": (_largest, {"n": 3}),
    "matrix_state": (_matrix_state, {"n": 2, "k": 3, "d": 4}),
    "gathered": (_gathered, {"n": 3, "d": 4, "e": 4, "k": 5}),
    "normed": (_normed, {"n": 3, "d": 4, "e": 4}),
    "second_order": (_second_order, {"n": 3}),
    "filtered": (_filtered, {"n": 3, "d": 4, "e": 4}),
    "two_layers": (_two_layers, {"n": 3, "i": 2, "d": 4, "e": 4, "k": 3, "s": 3}),
    "last_alone": (_last_alone, {"n": 3}),
}


def _inputs(op: Op, length: int, strided: bool = False, tied: bool = False) -> list[Tensor]:
    """One tensor an input, of that many places; `strided` ones do not lie in a row, `tied` ones repeat their values."""
    torch.manual_seed(length)
    sizes, out = {**PLAIN[op.name][1], "t": length}, []
    for o in (o for o in op.operands if o.is_tensor):
        shape = [sizes[a.base] for a in o.axes]
        if o.ranges_over is not None:
            out.append(torch.randint(0, sizes[o.ranges_over.base], shape))
            continue
        made = torch.randn(*shape, 2, dtype=torch.float64)[..., 0] if strided else torch.randn(*shape).double()
        out.append((made.round() if tied else made).requires_grad_())
    return out


def _held(name: str, inputs: list[Tensor]) -> None:
    """Values and gradients of the op against the plain loop's."""
    plain, ours = PLAIN[name][0], live_of(OPS[name])
    want, got = plain(*inputs), ours(*inputs)
    want, got = (v if isinstance(v, tuple) else (v,) for v in (want, got))
    torch.manual_seed(1)
    cotangents = [torch.randn_like(w) for w in want]
    real = [x for x in inputs if x.requires_grad]
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-9, atol=1e-12)
    want = [w + sum(x.sum() * 0 for x in real) for w in want]  # of no place autograd knows no gradient, which is 0
    first = torch.autograd.grad(want, real, cotangents, allow_unused=True)
    second = torch.autograd.grad(got, real, cotangents)
    for x, w, g in zip(real, first, second, strict=True):
        torch.testing.assert_close(g, torch.zeros_like(x) if w is None else w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("length", LENGTHS)
def test_values_and_gradients_are_those_of_a_loop(name: str, length: int) -> None:
    _held(name, _inputs(OPS[name], length))


@pytest.mark.parametrize("name", PLAIN)
def test_so_are_those_of_strided_inputs_and_of_ties(name: str) -> None:
    _held(name, _inputs(OPS[name], 7, strided=True))
    _held(name, _inputs(OPS[name], 7, tied=True))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["simple_rnn", "entangled"])
def test_it_compiles_as_one_graph(name: str, dynamic: bool) -> None:
    inputs = _inputs(OPS[name], 33)
    ours = live_of(OPS[name])
    torch._dynamo.reset()
    compiled = torch.compile(ours.function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    first, second = (
        torch.autograd.grad(sum(y.sin().sum() for y in _all(f(*inputs))), inputs) for f in (compiled, ours)
    )
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b)


def _all(value: Any) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_what_reads_no_state_is_outside_of_the_loop() -> None:
    """The product of the inputs stands before the loop, one product for the gradient of each weight behind it."""
    backward = live_of(OPS["simple_rnn"]).source
    backward = backward[backward.index("def simple_rnn_backward") : backward.index("class _SimpleRnn")]
    inside = [line for line in backward.splitlines() if line.startswith("        ") and "_t" in line]
    assert [line.split(" = ")[0].strip() for line in inside if "@" in line] == ["dh_prev_t"]
    assert backward.count("@") == 4


@pytest.mark.parametrize("name", ["simple_rnn", "matrix_state"])
def test_a_gradient_that_is_denied_is_not_computed(name: str) -> None:
    op, ours = OPS[name], live_of(OPS[name])
    inputs = [x.detach() for x in _inputs(op, 5)]
    y, *_, saved = ours.forward(*inputs)
    whole = ours.backward(torch.ones_like(y), *saved)
    for k in range(len(inputs)):
        needs = tuple(j == k for j in range(len(inputs)))
        found = ours.backward(torch.ones_like(y), *saved, needs=needs)
        assert [g is None for g in found] == [not n for n in needs]
        torch.testing.assert_close(found[k], whole[k])


@pytest.mark.parametrize("name", ["simple_rnn", "discounted", "entangled", "matrix_state"])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_second_derivatives_and_tangents_are_those_of_a_loop(name: str, length: int) -> None:
    op, plain = OPS[name], PLAIN[name][0]
    inputs = _inputs(op, length)
    outputs = [y + sum(x.sum() * 0 for x in inputs) for y in _all(plain(*inputs))]
    cotangents = [torch.randn_like(y).requires_grad_() for y in outputs]
    want = torch.autograd.grad(outputs, inputs, cotangents, create_graph=True)
    got = _all(live_of(gradient_op(op))(*inputs, *cotangents))
    weights = [torch.randn_like(g) for g in want]
    every = [*inputs, *cotangents]
    second = torch.autograd.grad(want, every, weights, allow_unused=True)
    for x, g, w in zip(every, torch.autograd.grad(got, every, weights), second, strict=True):
        torch.testing.assert_close(g, torch.zeros_like(x) if w is None else w, rtol=1e-9, atol=1e-12)
    moved = [torch.randn_like(x) for x in inputs]
    _, along = torch.autograd.functional.jvp(lambda *x: plain(*x), tuple(inputs), tuple(moved))
    for t, w in zip(_all(live_of(tangent_op(op))(*inputs, *moved)), _all(along), strict=True):
        torch.testing.assert_close(t, w, rtol=1e-9, atol=1e-12)
