"""Of exponents of 30 and of 300 in float32, gradients are off by no more than twice what PyTorch's own op is."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from derive.catalogue import find
from derive.output.live import build
from derive.verify.subjects import of_differentiable, of_live
from derive.verify.verify import EXPONENTS, FEW, rounding, verify, with_exponents
from derive.verify.view import complaint_texts, exponents

OWN: dict[str, Callable[..., Tensor]] = {
    "softmax": partial(torch.softmax, dim=-1),
    "log_softmax": partial(torch.log_softmax, dim=-1),
    "logsumexp": partial(torch.logsumexp, dim=-1),
    "softmax_cross_entropy": functional.cross_entropy,
    "cross_entropy_probabilities": functional.cross_entropy,
    "attention": functional.scaled_dot_product_attention,
    "causal_attention": partial(functional.scaled_dot_product_attention, is_causal=True),
}


@pytest.mark.parametrize("save", ["cost", "least", "kernel"])
@pytest.mark.parametrize("name", OWN)
def test_no_worse_than_twice_the_own_op(name: str, save: str) -> None:
    op = find(name)
    ours, own = of_live(build(op, save)), of_differentiable(OWN[name])
    for size in EXPONENTS:
        for gradient, errors in rounding(op, ours, own, with_exponents(size), seed=0).items():
            assert 0 < errors.ours <= 2 * errors.theirs + FEW, (size, gradient, errors)


def test_the_exponents_are_that_large() -> None:
    for size in EXPONENTS:
        case = with_exponents(size).make(find("softmax"))
        assert case is not None and size / 2 < float(case.call.inputs["x"].std()) < 2 * size


def test_shown_beside_the_equations_and_judged_beside_the_own_op() -> None:
    beside = verify(find("softmax"), native=OWN["softmax"])
    assert beside.right, complaint_texts(beside)
    heads = [line.partition(":")[0] for line in exponents(beside)]
    assert heads == [f"float32, exponents of {k}, ours (native)" for k in EXPONENTS]
    assert not list(exponents(verify(find("layernorm"))))


def test_more_than_twice_is_wrong() -> None:
    """An op that computes in float64 is off by its last rounding alone, which no float32 of ours is."""

    def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q.double(), k.double(), v.double()).to(q.dtype)

    found = verify(find("attention"), native=exact)
    assert not found.right
    assert any("off with exponents of 30, the native op" in text for text in complaint_texts(found))
