"""Second derivatives and tangents are derived by the same road, and are as short as by hand."""

import torch

from derive.catalogue import find
from derive.ir.terms.axes import Size
from derive.orders import gradient_op, tangent_op
from derive.output.live import build
from derive.pipeline import derivation_of
from tests.corpus import corpus


def closed(name: str) -> dict[str, str]:
    """The closed form of the gradients of the gradients, by what each is the gradient of."""
    d = derivation_of(gradient_op(find(name)))
    of = {a.target.name: a.of for a in d.steps.adjoints}
    return {of[e.name]: str(e.value) for e in d.closed.definitions}


def test_softmax_is_as_by_hand() -> None:
    inner = "ddx[..., d] - sum(ddx[..., d']*p[..., d'], over=d')"
    found = derivation_of(gradient_op(find("softmax")))
    assert found.kept == ("p", "dx")  # p is a function of the inputs, and dx the op's own output
    assert [str(s) for s in found.backward.statements][-1].startswith("ddp[..., d] = p[..., d] * ddx_minus")
    assert closed("softmax")["dp"].replace(" ", "") in {
        f"({inner})*p[...,d]".replace(" ", ""),
        "ddx[...,d]*p[...,d]-p[...,d]*sum(ddx[...,d']*p[...,d'],over=d')",
    }


def test_tangents_are_those_of_forward_mode() -> None:
    x, tx, w, tw, b, tb = (torch.randn(*s, dtype=torch.float64) for s in ((3, 7), (3, 7), (7,), (7,), (7,), (7,)))
    norm = torch.nn.functional.layer_norm
    wanted = torch.func.jvp(lambda x, w, b: norm(x, (7,), w, b), (x, w, b), (tx, tw, tb))[1]
    found = build(tangent_op(find("layernorm"))).forward(x, w, b, tx, tw, tb)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_a_tangent_reads_no_cotangent() -> None:
    assert [o.name for o in tangent_op(find("softmax_cross_entropy")).operands] == ["z", "y", "tz"]


def test_a_third_order_goes_the_same_way() -> None:
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    ones = [torch.randn(5, dtype=torch.float64) for _ in range(3)]
    second = build(gradient_op(gradient_op(find("gelu"))))
    (first,) = torch.autograd.grad(torch.nn.functional.gelu(x), x, ones[0], create_graph=True)
    (wanted,) = torch.autograd.grad(first, x, ones[1])
    torch.testing.assert_close(second(x, ones[0], ones[1])[0], wanted, rtol=1e-10, atol=1e-12)


def test_the_gradient_of_one_input_says_the_lengths_that_it_has() -> None:
    """That of `w` has no axis of the gradient of `x` left, over which another length was said."""
    op = next(s.op for s in corpus() if s.name == "filter_as_long_as_the_signal")
    assert [e.name for e in gradient_op(op, "w").equations if e.given][-1] == "dw"
    assert derivation_of(gradient_op(op, "w")).backward.returns


def test_the_gradient_of_one_input_asks_no_length_of_an_axis_that_it_lacks() -> None:
    op = next(s.op for s in corpus() if s.name == "by_distance")
    own = gradient_op(op, "h_")
    known = {r.axis.base for r in own.sizes}
    assert all(s.axis.base in known for r in own.requirements for s in (r.left - r.right).atoms(Size))
