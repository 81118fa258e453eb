"""`derive generate --workspace`: forwards and backwards that write into given tensors compute what the others do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch

from derive import axes, exp, index, tensor
from derive import op as define
from derive.backends.torch.outs import into
from derive.catalogue import catalogue
from derive.ir.equations import Op
from derive.output.live import build
from derive.verify.subjects import tensors_in
from tests.derive.code_of import line_of
from tests.catalogue.references import REFERENCES, sample

QUICK = {"layernorm", "batchnorm", "softmax_cross_entropy", "names_step", "swiglu", "add", "transpose", "embedding"}
OPS = [pytest.param(o, id=o.name, marks=() if o.name in QUICK else pytest.mark.slow) for o in catalogue()]

MAY_LOOK = {"merge_heads", "sum_rows", "take_elements"}
"""Whose output is a copy or only looks at the input, as that or its index lies in memory or has axes: never written over."""


def both(op: Op, variant: str, dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The gradients of the backward, and those that its twin writes over tensors full of something else."""
    live = build(op, workspace=True, proven=False)
    tensors, numbers = sample(op, 0, dtype, variant)
    *outputs, saved = live.forward(*tensors, **numbers)
    dys = [torch.randn_like(o) for o in outputs]
    want = live.backward(*dys, *saved)
    several = isinstance(want, tuple)
    out = type(want)(*(torch.full_like(w, 7.0) for w in want)) if several else torch.full_like(want, 7.0)
    got = live.function.__globals__[f"{op.name}_backward_out"](*dys, *saved, out=out)
    assert got is out
    return list(want if several else (want,)), list(out if several else (out,))


@pytest.mark.parametrize("op", OPS)
def test_the_same_numbers_are_written(op: Op) -> None:
    variants = [v for v in ("odd", "empty", "rank0") if v not in REFERENCES[op.name].without]
    carries_pack = any(a.is_pack for o in op.operands for a in o.axes)
    for variant in variants if carries_pack else variants[:1]:
        for want, got in zip(*both(op, variant, torch.float64), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-13, equal_nan=True)


def ahead(op: Op, variant: str, dtype: torch.dtype) -> tuple[tuple, tuple, tuple]:
    """What a forward returned, then overwritten by another sample's, and what that sample gives by itself."""
    live = build(op, workspace=True, proven=False)
    tensors, numbers = sample(op, 0, dtype, variant)
    first = live.forward(*tensors, **numbers)
    given = {t.untyped_storage().data_ptr() for t in tensors}
    held = [t for t in tensors_in(first) if t.untyped_storage().data_ptr() not in given]
    held = [t for t in held if 0 not in t.stride() or t.numel() < 2]  # what repeats one element has no memory to fill
    for t in held:
        t.fill_(7)
    tensors, numbers = sample(op, 1, dtype, variant)
    want = live.forward(*tensors, **numbers)
    again = live.function.__globals__[f"{op.name}_forward_out"](*tensors, **numbers, out=first)
    return tuple(held), want, again


@pytest.mark.parametrize("op", OPS)
def test_a_forward_writes_over_an_earlier_one(op: Op) -> None:
    variants = [v for v in ("odd", "empty", "rank0") if v not in REFERENCES[op.name].without]
    carries_pack = any(a.is_pack for o in op.operands for a in o.axes)
    for variant in variants if carries_pack else variants[:1]:
        held, want, got = ahead(op, variant, torch.float64)
        assert type(got[-1]) is type(want[-1]) and len(tensors_in(got)) == len(tensors_in(want))
        for g, w in zip(tensors_in(got), tensors_in(want), strict=True):
            torch.testing.assert_close(g, w, rtol=1e-13, atol=1e-13, equal_nan=True)
        if op.name not in MAY_LOOK:
            assert {t.data_ptr() for t in held} <= {t.data_ptr() for t in tensors_in(got)}


def test_a_forward_in_half_precision_writes_over_an_earlier_one() -> None:
    op = next(o for o in catalogue() if o.name == "layernorm")
    held, want, got = ahead(op, "odd", torch.bfloat16)
    assert got[0].data_ptr() == held[0].data_ptr() and got[0].dtype == torch.bfloat16
    assert all(torch.equal(g, w) for g, w in zip(tensors_in(got), tensors_in(want), strict=True))


@pytest.mark.parametrize("op", OPS)
def test_no_earlier_input_is_written_to(op: Op) -> None:
    tensors, numbers = sample(op, 0, torch.float64, "odd")
    kept = [t.clone() for t in tensors]
    live = build(op, workspace=True, proven=False)
    first = live.forward(*tensors, **numbers)
    other, numbers = sample(op, 1, torch.float64, "odd")
    live.function.__globals__[f"{op.name}_forward_out"](*other, **numbers, out=first)
    assert all(torch.equal(t, k) for t, k in zip(tensors, kept, strict=True))


def test_an_expanded_gradient_is_refused_by_name() -> None:
    op = next(o for o in catalogue() if o.name == "sum")
    live = build(op, workspace=True, proven=False)
    backward_out = live.function.__globals__["sum_backward_out"]
    _, saved = live.forward(torch.ones(3, 4))
    gradient = live.backward(torch.ones(3), *saved)
    with pytest.raises(ValueError, match=r"^sum_backward_out: out is an expanded tensor, whose elements share memory; "):
        backward_out(torch.ones(3), *saved, out=gradient)
    own = torch.empty_like(gradient)  # as the message says
    assert backward_out(torch.full((3,), 2.0), *saved, out=own) is own
    assert torch.equal(own, torch.full((3, 4), 2.0))


def refusals(dtype: torch.dtype) -> Iterator[tuple[str, Callable[[], object], str]]:
    """Calls of layernorm's functions with an `out` that does not fit, and what is said of it."""
    live = build(next(o for o in catalogue() if o.name == "layernorm"), workspace=True)
    forward, backward = (live.function.__globals__[f"layernorm_{n}_out"] for n in ("forward", "backward"))
    x, gamma, beta = torch.randn(6, 5, dtype=dtype), torch.randn(5, dtype=dtype), torch.randn(5, dtype=dtype)
    y, saved = live.forward(x, gamma, beta)
    dx, dgamma, dbeta = gradients = live.backward(y, *saved)
    made, both = type(gradients), torch.empty(10, dtype=dtype)
    for out, said in (
        (made(dx, dgamma, dgamma), "out.dgamma shares memory with out.dbeta; give one that has its own, such as "),
        (made(dx, both[:5], both[3:8]), "out.dgamma shares memory with out.dbeta"),
        (made(y, dgamma, dbeta), "out.dx shares memory with dy"),
        (made(dx, saved.gamma, dbeta), "out.dgamma shares memory with gamma"),
        (made(dx[:3], dgamma, dbeta), r"out.dx has shape \[3, 5\], expected \[6, 5\]; give a tensor of that shape"),
        (made(dx, dgamma[None], dbeta), r"out.dgamma has shape \[1, 5\], expected \[5\]"),
        (made(dx, dgamma.double(), dbeta), "out.dgamma has dtype torch.float64, expected torch."),
        ((dx, dgamma, dbeta), "out is a tuple of 3, in which out.dx is not found, expected LayernormGradients; give "),
        (dx, "out is a Tensor, in which out.dx is not found"),
    ):
        yield "backward", lambda out=out: backward(y, *saved, out=out), said  # type: ignore[misc]
    for out, said in (
        ((x, saved), r"out\[0\] shares memory with x"),
        ((y, saved._replace(xhat=saved.xhat[:0])), r"out\[-1\].xhat has shape \[0, 5\]"),
        (y, r"out is a Tensor, in which out\[0\] is not found"),
        ((y,), r"out is a tuple of 1, in which out\[-1\].rstd is not found"),
    ):
        yield "forward", lambda out=out: forward(x, gamma, beta, out=out), said  # type: ignore[misc]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_memory_in_which_results_have_no_place_is_refused(dtype: torch.dtype) -> None:
    for name, call, said in refusals(dtype):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((TypeError, ValueError), match=f"^layernorm_{name}_out: {said}"):
                call()


def test_lengths_that_follow_from_others_are_compared() -> None:
    live = build(next(o for o in catalogue() if o.name == "conv2d"), workspace=True)
    x, k, b = torch.randn(2, 3, 6, 7), torch.randn(4, 3, 2, 3), torch.randn(4)
    y, saved = live.forward(x, k, b)
    with pytest.raises(ValueError, match=r"^conv2d_forward_out: out\[0\] has shape .*, expected \[2, 4, 5, 5\]"):
        live.function.__globals__["conv2d_forward_out"](x, k, b, out=(torch.empty(2, 4, 6, 7), saved))


def test_columns_of_one_tensor_share_no_element() -> None:
    live = build(next(o for o in catalogue() if o.name == "layernorm"), workspace=True)
    x, gamma, beta = torch.randn(6, 5), torch.randn(5), torch.randn(5)
    y, saved = live.forward(x, gamma, beta)
    want, columns = live.backward(y, *saved), torch.empty(5, 2)
    out = type(want)(torch.empty(6, 5), columns[:, 0], columns[:, 1])
    live.function.__globals__["layernorm_backward_out"](y, *saved, out=out)
    assert all(map(torch.equal, out, want))


n, t, h, e = axes("n t h e")


@define
def joined_heads(f, x: tensor[n, t, h, e]):
    """One output looks at the other, with two axes as one."""
    f.z[n, t, h, e] = exp(x[n, t, h, e])
    f.y[n, t, (h, e)] = f.z[n, t, h, e]
    return f.y, f.z


@define
def given_back(f, x: tensor[n], y: tensor[n]):
    f.z[n] = x[n] + y[n]
    return f.z


def test_what_looks_at_another_result_is_written_over_with_it() -> None:
    for op in (joined_heads.op, given_back.op):
        live = build(op, workspace=True, proven=False)
        shapes = {"joined_heads": ((2, 3, 4, 5),), "given_back": ((5,), (5,))}[op.name]
        first, others = ([torch.randn(s) for s in shapes] for _ in range(2))
        over, (*want, saved) = live.forward(*first), live.forward(*others)
        *got, kept = live.function.__globals__[f"{op.name}_forward_out"](*others, out=over)
        dys = [torch.randn_like(w) for w in want]
        gradients = live.backward(*dys, *saved)
        again = live.function.__globals__[f"{op.name}_backward_out"](*dys, *kept, out=live.backward(*dys, *saved))
        assert all(map(torch.equal, got, want)) and all(map(torch.equal, tensors_in((again,)), tensors_in((gradients,))))


@define
def one_page(f, x: tensor[n, t, e], page: index(n)[()]):
    f.y[e, t] = x[page[()], t, e]
    f.z[t, e] = f.y[e, t] ** 3
    return f.z, f.y


def test_a_view_of_one_place_that_an_index_chooses_is_not_written_over() -> None:
    live = build(one_page, workspace=True)
    x = torch.randn(3, 4, 5)
    kept, first = x.clone(), live.forward(x, torch.tensor(1))
    again = live.function.__globals__["one_page_forward_out"](x, torch.tensor(2), out=first)
    torch.testing.assert_close(x, kept, rtol=0, atol=0)
    torch.testing.assert_close(again[0], x[2] ** 3)
    torch.testing.assert_close(again[1], x[2].T)


def test_half_precision_is_computed_in_float32() -> None:
    op = next(o for o in catalogue() if o.name == "layernorm")
    for want, got in zip(*both(op, "odd", torch.bfloat16), strict=True):
        assert got.dtype == torch.bfloat16 and torch.equal(got, want)


@pytest.mark.parametrize(
    "code, written",
    [
        ("a * b", "torch.mul(a, b, out=out)"),
        ("2 * a", "torch.mul(a, 2, out=out)"),
        ("1 - a", "out.copy_(1 - a)"),
        ("-a", "torch.neg(a, out=out)"),
        ("a.T @ b", "torch.matmul(a.T, b, out=out)"),
        ("(a * b).sum(0)", "torch.sum(a * b, 0, out=out)"),
        ("(a * b).sum()", "out.copy_((a * b).sum())"),
        ("(a - b).mul_(b).add_(1)", "torch.sub(a, b, out=out).mul_(b).add_(1)"),
        ("torch.addcmul(a, a, b, value=-1).mul_(b)", "torch.addcmul(a, a, b, value=-1, out=out).mul_(b)"),
        ("a.new_zeros(n, 3).index_add_(0, i, b)", "out.zero_().index_add_(0, i, b)"),
        ("torch.einsum('ij -> j', a).div_(2).add_(b)", "torch.div(torch.einsum('ij -> j', a), 2, out=out).add_(b)"),
        ("torch.einsum('ij -> j', a).exp_()", "out.copy_(torch.einsum('ij -> j', a).exp_())"),
        ("a.clone()", "out.copy_(a)"),
        ("a.mT", "out.copy_(a.mT)"),
    ],
)
def test_a_statement_with_out(code: str, written: str) -> None:
    (line,) = into([line_of(f"x = {code}")], {"x": "out"}, {"a", "b", "i"})
    assert line.code == f"x = {written}"


def test_what_is_written_over_its_own_memory_is_made_there() -> None:
    lines = [line_of("s = (a @ b).div_(2)"), line_of("p = torch.softmax(s, -1, out=s)")]
    got = [line.code for line in into(lines, {"p": "out.p"}, {"a", "b", "s"})]
    assert got == ["s = torch.matmul(a, b, out=out.p).div_(2)", lines[1].code]


def test_what_a_chain_starts_from_is_written_there() -> None:
    lines = [line_of("t = a * b"), line_of("s = t.sum(0)"), line_of("x = t.sub_(s).mul_(b)")]
    got = [line.code for line in into(lines, {"x": "out.x", "s": "out.s"}, {"a", "b"})]
    assert got == ["t = torch.mul(a, b, out=out.x)", "s = torch.sum(t, 0, out=out.s)", "x = t.sub_(s).mul_(b)"]
