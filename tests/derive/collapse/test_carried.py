"""An adjoint that all its readers multiply by one factor is named with that factor."""

import torch

from derive import axes, exp, index, op, relu, sum, tensor
from derive.collapse.carried import carried
from derive.ir.terms.elements import At, Tensor
from derive.notation import delta
from derive.pipeline import derivation_of
from derive.schedule.definitions import Definition
from tests.derive.live import module

n, m, d, e, v = axes("n m d e v")


@op
def shares_of_segments(f, z: tensor[e, d], x: tensor[v, d], g: index(v)[e]):
    """A softmax over the edges into a node: the sum is read at the nodes of edges."""
    f.u[e, d] = exp(z[e, d])
    f.s[v, d] = sum(delta(v, g[e]) * f.u[e, d], over=e)
    f.p[e, d] = f.u[e, d] / f.s[g[e], d]
    f.y[v, d] = sum(delta(v, g[e]) * f.p[e, d], over=e) * x[v, d]
    return f.p, f.y


def test_shares_of_segments_divide_by_nothing() -> None:
    derivation = derivation_of(shares_of_segments.op)
    assert "s" not in derivation.kept, derivation.kept
    assert " / " not in str(derivation.backward), str(derivation.backward)
    assert [s.subject.name for s in derivation.closed.steps if s.law == "carried"] == ["sum_dp_total_p", "dz"]


@op
def graph_attention(f, x: tensor[v, d], w: tensor[d, m], a: tensor[m], src: index(v)[e], dst: index(v)[e]):
    """Behind a layer: what the softmax spares is little beside the products of matrices."""
    f.h[v, m] = sum(x[v, d] * w[d, m], over=d)
    f.z[e] = relu(sum((f.h[src[e], m] - f.h[dst[e], m]) * a[m], over=m))
    f.u[e] = exp(f.z[e])
    f.s[v] = sum(delta(v, dst[e]) * f.u[e], over=e)
    f.p[e] = f.u[e] / f.s[dst[e]]
    f.y[v, m] = sum(delta(v, dst[e]) * f.p[e] * f.h[src[e], m], over=e)
    return f.y


def test_a_softmax_behind_a_layer_is_closed_as_one_by_itself() -> None:
    derivation = derivation_of(graph_attention.op)
    assert not {"u", "s"} & set(derivation.kept), derivation.kept
    assert " / " not in str(derivation.backward), str(derivation.backward)


def test_they_are_right_where_segments_are_empty_and_edges_repeat() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(7, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    x = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    g = torch.tensor([0, 3, 3, 1, 3, 0, 4])
    u = z.exp()
    p = u / torch.zeros_like(x).index_add(0, g, u)[g]
    y = torch.zeros_like(x).index_add(0, g, p) * x
    cotangents = [torch.randn(t.shape, generator=generator, dtype=torch.float64) for t in (p, y)]
    right = torch.autograd.grad((p, y), (z, x), cotangents)
    found = torch.autograd.grad(module(shares_of_segments.op).shares_of_segments(z, x, g), (z, x), cotangents)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-14)


def test_a_reader_without_the_factor_keeps_it() -> None:
    """No way divides by a factor, or by what scales another reader."""
    da, r, w = (At(Tensor(name), n) for name in ("da", "r", "w"))
    made = Definition("da", (n,), w)
    with_it, without = Definition("dx", (n,), 2 * da * r), Definition("dy", (n,), da + da * r)
    assert [way.of["dx"].value for way in carried([made, with_it], "da", set())] == [2 * At(Tensor("da_r"), n)]
    assert not list(carried([made, with_it, without], "da", set()))
    turned = Definition("dz", (m, n), At(Tensor("db"), n, m) * At(Tensor("s"), n))
    of_two = Definition("db", (n, m), At(Tensor("w"), n, m))
    (way,) = carried([of_two, turned], "db", set())
    assert way.of["db"] is not None and way.of["db"].name == "db_s"  # its axes are in another order
    assert not list(carried([made, Definition("dx", (n,), r * da**2)], "da", set()))
