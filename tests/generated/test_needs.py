"""A backward computes the gradients that are asked for, each to the bit as with all others, and keeps nothing for the rest."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import generated
from derive import axes, constant, exp, log, maximum, mean, size, sum, tensor
from derive import op as define
from derive.catalogue import catalogue
from derive.ir.equations import Op
from derive.emit.live import Live
from derive.output.live import build
from derive.verify.battery import situation
from derive.verify.cases import Call
from derive.verify.subjects import parts, tensors_in
from tests.derive.live import as_tuple
from tests.derive.specs import SPECS

n, d, e, t = axes("n d e t")

QUICK = {"conv2d", "attention", "layernorm", "batchnorm", "groupnorm", "bilinear", "names_step", "add", "softmax"}
SEVERAL = [o for o in catalogue() if len(o.differentiable) > 1 or o.name == "softmax"]
OPS = [pytest.param(o, id=o.name, marks=() if o.name in QUICK else pytest.mark.slow) for o in SEVERAL]
OWN = [pytest.param(s.op, id=s.name) for s in SPECS if len(s.op.differentiable) > 1]
SITUATIONS = ("ordinary", "stride-0 cotangent", "sizes 1", "empty", "ties", "transposed inputs", "float32")


def subsets(count: int) -> list[tuple[bool, ...]]:
    """All of them up to 5 gradients; of more each alone, all but each, and some."""
    every = list(itertools.product((True, False), repeat=count))
    if count <= 5:
        return every
    alone = [tuple(k == j for j in range(count)) for k in range(count)]
    return [*alone, *(tuple(not x for x in one) for one in alone), *random.Random(0).sample(every, 16)]


def calls(op: Op) -> Iterator[Call]:
    made = (situation(name).make(op, 0) for name in SITUATIONS)
    yield from (case.call for case in made if case is not None)


def equal(got: Tensor | None, want: Tensor) -> bool:
    return got is not None and got.dtype == want.dtype and torch.equal(got.nan_to_num(7.5), want.nan_to_num(7.5))


def assert_asked(got: Any, want: tuple[Tensor, ...], needs: tuple[bool, ...]) -> None:
    found = as_tuple(got)
    assert len(found) == len(want)
    for g, w, need in zip(found, want, needs, strict=True):
        assert equal(g, w) if need else g is None, needs


def backwards(live: Live, call: Call) -> None:
    """The backward, and the one that writes over old gradients, for every subset of the gradients."""
    *_, saved = live.forward(*call.arguments())
    want = as_tuple(live.backward(*call.cotangents, *saved))
    given = [*call.inputs.values(), *call.cotangents, *tensors_in(saved)]
    before = [g.clone() for g in given]
    over = parts(live)["backward_out"]
    for needs in subsets(len(want)):
        assert_asked(live.backward(*call.cotangents, *saved, needs=needs), want, needs)
        for denied in (True, False):  # whether there is a tensor for what is denied
            own = [torch.full_like(w, 7.0) if need or denied else None for w, need in zip(want, needs, strict=True)]
            whole = live.backward(*call.cotangents, *saved)
            got = over(*call.cotangents, *saved, out=type(whole)(*own) if len(own) > 1 else own[0], needs=needs)
            assert_asked(got, want, needs)
            for g, o, need in zip(as_tuple(got), own, needs, strict=True):
                assert g is o if need else o is None or bool((o == 7).all())
    assert all(equal(g, b) for g, b in zip(given, before, strict=True))


def by_autograd(live: Live, call: Call) -> None:
    """What autograd finds where only some inputs need a gradient."""
    *_, saved = live.forward(*call.arguments())
    want = as_tuple(live.backward(*call.cotangents, *saved))
    for needs in subsets(len(want)):
        asked = dict(zip((o.name for o in call.op.differentiable), needs, strict=True))
        leaves = {name: call.inputs[name].detach().requires_grad_(need) for name, need in asked.items()}
        operands = zip(call.op.operands, call.arguments(), strict=True)
        outputs = as_tuple(live(*(leaves.get(o.name, a) for o, a in operands)))
        flows = [(y, c) for y, c in zip(outputs, call.cotangents, strict=True) if y.requires_grad]
        wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
        assert bool(flows) == bool(wanted)
        if wanted:
            found = torch.autograd.grad([y for y, _ in flows], wanted, [c for _, c in flows])
            assert_asked(found, tuple(w for w, need in zip(want, needs, strict=True) if need), (True,) * len(found))


@pytest.mark.parametrize("op", [*OPS, *OWN])
def test_every_subset_is_as_all_of_them(op: Op) -> None:
    live = build(op, workspace=True)
    for call in calls(op):
        backwards(live, call)
        by_autograd(live, call)


@define
def written_over(f, x: tensor[n, d], w: tensor[d], b: tensor[d], z: tensor[n, d]):
    """Exponentials that gradients share, and write over where they are the last to read them."""
    f.u[n, d] = exp(w[d] * x[n, d] + b[d])
    f.m[n] = mean(f.u[n, d] * z[n, d], over=d)
    f.y[n, d] = f.u[n, d] * f.m[n] + maximum(z[n, d], x[n, d])
    f.s[()] = sum(log(1 + f.u[n, d]) * z[n, d], over=(n, d)) / size(n)
    return f.y, f.s


@define
def two_heads(f, x: tensor[n, d], a: tensor[d, e], b: tensor[d, e], bias: tensor[e]):
    f.p[n, e] = sum(x[n, d] * a[d, e], over=d) + bias[e]
    f.q[n, e] = sum(x[n, d] * b[d, e], over=d) * f.p[n, e]
    f.y[n, e] = f.q[n, e] / (1 + exp(f.p[n, e]))
    return f.y


@pytest.mark.parametrize("op", [written_over.op, two_heads.op], ids=lambda o: o.name)
def test_tensors_that_are_written_over(op: Op) -> None:
    live = build(op, workspace=True)
    assert "_(" in inspect.getsource(live.backward)
    for call in calls(op):
        backwards(live, call)
        by_autograd(live, call)


# --- what is kept, and what is run -----------------------------------------------------------------------------------


def kept(function: Callable[..., Any], *args: Tensor) -> int:
    """How many bytes autograd keeps for the backward, of each memory once."""
    held: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        held[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        function(*args)
    return sum_of(held.values())


def sum_of(numbers: Any) -> int:
    total = 0
    for number in numbers:
        total += number
    return total


class Called(TorchDispatchMode):
    """The functions of ATen that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(function.name())
        return function(*args, **(kwargs or {}))


def test_a_frozen_filter_keeps_no_image() -> None:
    x, k, bias = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2), torch.randn(4)
    image, filters = x.nbytes, k.nbytes
    assert kept(generated.conv2d, x.requires_grad_(), k, bias) == filters + 4  # one number stands for the image
    assert kept(generated.conv2d, x.detach(), k.requires_grad_(), bias) == image + 4
    assert kept(generated.conv2d, x, k, bias) == image + filters
    assert kept(generated.conv2d, x.detach(), k.detach(), bias.requires_grad_()) == 8


def test_a_frozen_weight_keeps_no_input() -> None:
    x, w, b = torch.randn(5, 6), torch.randn(6, 4), torch.randn(4)
    assert kept(generated.linear, x.requires_grad_(), w, b) <= w.nbytes + 4
    assert kept(generated.linear, x.detach(), w.requires_grad_(), b) <= x.nbytes + 4


def test_attention_for_values_alone_keeps_weights_alone() -> None:
    q, k, v = torch.randn(2, 5, 4), torch.randn(2, 6, 4), torch.randn(2, 6, 3)
    assert kept(generated.attention, q, k, v.requires_grad_()) <= 2 * 5 * 6 * 4 + 4


def test_what_is_denied_does_not_run() -> None:
    x, k, bias = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2), torch.randn(4)
    y, saved = generated.conv2d_forward(x, k, bias)
    with Called() as all_of_them:
        generated.conv2d_backward(y, *saved)
    with Called() as bias_alone:
        generated.conv2d_backward(y, *saved, needs=(False, False, True))
    assert sum_of("convolution_backward" in c for c in all_of_them.names) == 2
    assert bias_alone.names == ["aten::sum.dim_IntList"]


def test_autograd_runs_no_more_than_it_needs() -> None:
    x, k, bias = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2, requires_grad=True), torch.randn(4)
    y = generated.conv2d(x, k, bias)
    with Called() as called:
        y.backward(torch.ones_like(y))
    assert sum_of("convolution_backward" in c for c in called.names) == 1
    assert not any("sum" in c for c in called.names)


# --- how it is said ---------------------------------------------------------------------------------------------------


def test_one_gradient_alone_stands_under_no_if() -> None:
    source = inspect.getsource(inspect.unwrap(generated.softmax_backward))
    assert " if need" not in source.replace("if needs is None", "")
    y, saved = generated.softmax_forward(torch.randn(3, 4))
    assert generated.softmax_backward(y, *saved, needs=(False,)) is None
    assert equal(generated.softmax_backward(y, *saved, needs=(True,)), generated.softmax_backward(y, *saved))


def test_lines_of_one_condition_share_an_if() -> None:
    source = inspect.getsource(inspect.unwrap(generated.attention_backward))
    assert source.count("    if need_dq or need_dk:") == 1
    assert [source.count(f"    if need_{g}:") for g in ("dq", "dk", "dv")] == [1, 1, 1]


@define
def named_alike(f, needs: tensor[n], need_dneeds: tensor[n], x: constant[n]):
    f.y[n] = needs[n] * exp(need_dneeds[n]) * x[n]
    return f.y


def test_an_input_keeps_its_name() -> None:
    live = build(named_alike, workspace=True)
    assert list(inspect.signature(live.backward).parameters)[-1] == "needs_"
    call = next(calls(named_alike.op))
    *_, saved = live.forward(*call.arguments())
    assert "needs" in saved._fields
    first, second = live.backward(*call.cotangents, *saved, needs_=(False, True))
    assert first is None
    assert equal(second, live.backward(*call.cotangents, *saved)[1])
    by_autograd(live, call)


@define
def out_of_order(f, x: constant[n], a: tensor[n], y: constant[n], b: tensor[n]):
    f.z[n] = x[n] * a[n] + y[n] * exp(b[n])
    return f.z


def test_inputs_without_gradients_stand_anywhere() -> None:
    live = build(out_of_order, workspace=True)
    for call in calls(out_of_order.op):
        by_autograd(live, call)


@pytest.mark.parametrize("needs", [(True,), (True, False, True, True)])
def test_another_number_of_bools_is_an_error(needs: tuple[bool, ...]) -> None:
    x, w, b = torch.randn(5, 6), torch.randn(6, 4), torch.randn(4)
    y, saved = generated.linear_forward(x, w, b)
    with pytest.raises(ValueError, match="unpack"):
        generated.linear_backward(y, *saved, needs=needs)


def test_a_needed_place_without_a_tensor_is_an_error() -> None:
    live = build(two_heads, workspace=True)
    call = next(calls(two_heads.op))
    *_, saved = live.forward(*call.arguments())
    out = live.backward(*call.cotangents, *saved, needs=(True, False, True, True))
    with pytest.raises(TypeError, match="out has a NoneType where a gradient is needed"):
        parts(live)["backward_out"](*call.cotangents, *saved, out=out, needs=(True, True, False, False))


@pytest.mark.parametrize("name", ["layernorm", "linear", "attention"])
@pytest.mark.parametrize("frozen", range(3))
def test_compiled_as_one_graph(name: str, frozen: int) -> None:
    def loss(*args: Tensor) -> Tensor:
        return getattr(generated, name)(*args).square().sum()

    torch.compiler.reset()
    shapes = {"layernorm": ((4, 5), (5,), (5,)), "linear": ((4, 5), (5, 3), (3,)), "attention": ((4, 5),) * 3}[name]
    tensors = [torch.randn(s, dtype=torch.float64) for s in shapes]
    leaves = [[x.clone().requires_grad_(k != frozen) for k, x in enumerate(tensors)] for _ in range(2)]
    loss(*leaves[0]).backward()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(*leaves[1]).backward()
    for k, (eager, compiled) in enumerate(zip(*leaves, strict=True)):
        assert (compiled.grad is None) == (k == frozen)
        if k != frozen:
            torch.testing.assert_close(eager.grad, compiled.grad)
