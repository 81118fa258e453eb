"""The tape: its gradients are PyTorch's on random graphs; what it remembers, forgets, refuses and draws."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.digits.data import Digits, bundled
from training.digits.layers import perceptron
from training.digits.loop import Descent, Recipe, descend
from training.digits.twin import ByAutograd
from training.tape import Tensor, no_grad, zero_grad
from training.tape.__main__ import neuron
from training.tape.drawing import behind, draw
from training.tape.perceptron import ByTape

Draw = Callable[[st.SearchStrategy[Any]], Any]
Both = tuple[Tensor, torch.Tensor]

# What keeps values small and away from where they are not smooth, in words that both understand.
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "exp": lambda x: (x.tanh() * 2).exp(),
    "log": lambda x: (x * x + 0.5).log(),
    "tanh": lambda x: x.tanh(),
    "relu": lambda x: x.relu(),
    "sigmoid": lambda x: x.sigmoid(),
    "square": lambda x: x.tanh() ** 2,
    "root": lambda x: (x * x + 1) ** -0.5,
    "number": lambda x: 3 - (2 * x.tanh() + 1) / 4,
    "over": lambda x: 1 / (x.sigmoid() + 1),
    "base": lambda x: 2 ** x.tanh(),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x.tanh() * y,
    "div": lambda x, y: x / (y * y + 1),
    "pow": lambda x, y: x.sigmoid() ** y.tanh(),
}
KINDS = [*UNARY, *BINARY, "sum", "mean", "max", "softmax", "reshape", "swap", "take", "@"]


def shapes() -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, 3), max_size=4).map(tuple)


def leaf(drawn: Draw, shape: tuple[int, ...]) -> Both:
    generator = torch.Generator().manual_seed(drawn(st.integers(0, 2**31)))
    # Steps of a sixteenth: ties happen.
    data = (torch.randn(shape, generator=generator, dtype=torch.float64) * 16).round() / 16
    return Tensor(data, requires_grad=True), data.clone().requires_grad_()


def dims(drawn: Draw, x: torch.Tensor) -> list[int]:
    return drawn(st.lists(st.integers(0, x.dim() - 1), unique=True, min_size=1)) if x.dim() else []


def grown(drawn: Draw, known: list[Both]) -> tuple[Both, list[Both]]:
    """One more tensor made of known ones, by both; and the leaves that were needed for it."""
    ours, theirs = drawn(st.sampled_from(known))
    kind = drawn(
        st.sampled_from([*UNARY, *BINARY, *("sum", "mean", "max"), *("softmax", "reshape", "swap", "take", "@")])
    )
    if kind in UNARY:
        return (UNARY[kind](ours), UNARY[kind](theirs)), []
    if kind in BINARY:
        # Another one that broadcasts with it: some axes 1 long, some of the first ones missing, or one more.
        shape = [drawn(st.sampled_from([1, n])) for n in theirs.shape][drawn(st.integers(0, theirs.dim())) :]
        shape = [2, *shape] if len(shape) == theirs.dim() < 4 and drawn(st.booleans()) else shape
        other = leaf(drawn, tuple(shape))
        pair = ((ours, other[0]), (theirs, other[1]))
        if drawn(st.booleans()):
            pair = (pair[0][::-1], pair[1][::-1])
        return (BINARY[kind](*pair[0]), BINARY[kind](*pair[1])), [other]
    if kind in ("sum", "mean", "max"):
        over, keepdim = dims(drawn, theirs), drawn(st.booleans())
        if not over:
            return (ours, theirs), []
        native = getattr(theirs, "amax" if kind == "max" else kind)
        return (getattr(ours, kind)(over, keepdim), native(over, keepdim)), []
    if kind == "@":
        return product(drawn, ours, theirs)
    if kind == "take" and theirs.dim():
        rows = torch.tensor(drawn(st.lists(st.integers(0, theirs.shape[0] - 1), min_size=1, max_size=4)))
        key = drawn(st.sampled_from([rows, (..., slice(None, None, 2)), 0, (None, -1), (..., [0, 0])]))
        return (ours[key], theirs[key]), []
    if kind == "reshape":
        shape = drawn(st.sampled_from([(-1,), (*theirs.shape, 1), (1, -1), (*theirs.shape[1:], *theirs.shape[:1])]))
        return (ours.reshape(*shape), theirs.reshape(shape)), []
    if theirs.dim():
        one, other = (drawn(st.integers(-theirs.dim(), theirs.dim() - 1)) for _ in range(2))
        if kind == "softmax":
            return (ours.softmax(one), theirs.softmax(one)), []
        return (ours.transpose(one, other), theirs.transpose(one, other)), []
    return (ours, theirs), []


def product(drawn: Draw, ours: Tensor, theirs: torch.Tensor) -> tuple[Both, list[Both]]:
    if not theirs.dim():
        return (ours, theirs), []
    k = theirs.shape[-1]
    leading = [drawn(st.sampled_from([1, n])) for n in theirs.shape[:-2]]
    shape = drawn(st.sampled_from([(k,), (k, 2), (*leading, k, 3)]))
    other = leaf(drawn, shape)
    return (ours.tanh() @ other[0], theirs.tanh() @ other[1]), [other]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_gradients_are_pytorchs_on_random_graphs(data: st.DataObject) -> None:
    leaves = [leaf(data.draw, data.draw(shapes())) for _ in range(data.draw(st.integers(1, 3)))]
    known = list(leaves)
    for _ in range(data.draw(st.integers(1, 8))):
        made, more = grown(data.draw, known)
        known.append(made)
        leaves += more
    (ours, theirs), generator = known[-1], torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    assert ours.shape == tuple(theirs.shape)
    torch.testing.assert_close(ours.data, theirs.detach(), rtol=1e-10, atol=1e-12)
    gradient = torch.randn(theirs.shape, generator=generator, dtype=torch.float64)
    ours.backward(gradient)
    theirs.backward(gradient)
    for mine, native in leaves:
        assert (mine.grad is None) == (native.grad is None)
        if mine.grad is not None:
            torch.testing.assert_close(mine.grad, native.grad, rtol=1e-9, atol=1e-11)


def test_gradients_accumulate_until_they_are_zeroed() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [4.0, 8.0]
    zero_grad([x])
    assert x.grad is None
    (x + x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_two_leaves_never_share_a_gradient() -> None:
    x, y = (Tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    (x + y).backward(torch.ones(2))
    assert x.grad is not None and y.grad is not None
    x.grad.mul_(5)
    assert y.grad.tolist() == [1.0, 1.0]


def test_what_needs_no_gradient_is_not_remembered() -> None:
    x, c = Tensor(3.0, requires_grad=True), Tensor(2.0)
    with no_grad():
        assert (x * c).node is None
    assert (c * c).node is None
    (x * c).backward()
    assert c.grad is None


def test_a_graph_deeper_than_pythons_stack() -> None:
    x = y = Tensor(1.0, requires_grad=True)
    for _ in range(5000):
        y = y + x
    y.backward()
    assert x.grad is not None and x.grad.item() == 5001


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda x: x + Tensor(torch.ones(4)), ValueError, "+: shapes [2, 3] and [4] do not broadcast"),
        (lambda x: x @ Tensor(2.0), ValueError, "@: shapes [2, 3] and []; neither may be a single number, use *"),
        (lambda x: x.reshape(4, 2), ValueError, "reshape: shape [2, 3] does not fit into [4, 2]"),
        (lambda x: x.broadcast_to(3, 3), ValueError, "broadcast_to: shapes [2, 3] and [3, 3] do not broadcast"),
        (lambda x: x.sum(2), IndexError, "axis 2 of a tensor of shape [2, 3]; it has 2 axes"),
        (lambda x: x * "2", TypeError, "*: str is neither a number nor a Tensor; write Tensor(...) around it"),
        (lambda x: x.backward(), ValueError, "backward: a tensor of shape [2, 3] needs a gradient of that shape"),
        (
            lambda x: x.backward(torch.ones(3)),
            ValueError,
            "backward: the gradient has shape [3], expected [2, 3]",
        ),
        (lambda x: Tensor(1.0).backward(), RuntimeError, "backward: nothing behind this tensor requires a gradient"),
        (
            lambda x: Tensor(torch.ones(2, dtype=torch.int64)),
            TypeError,
            "a tensor of torch.int64 has no gradient; convert it with .float()",
        ),
    ],
)
def test_what_is_refused(wrong: Callable[[Tensor], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        wrong(Tensor(torch.ones(2, 3), requires_grad=True))
    assert str(caught.value) == message


def test_the_perceptron_beside_autograd() -> None:
    recipe, train = Recipe(100, optimizer=Descent.adam), bundled(0).train
    train = Digits(train.x.double(), train.y)
    networks = [perceptron((64, 16, 16, 16, 10), torch.Generator().manual_seed(1), torch.float64) for _ in range(2)]
    ours, twin = ByTape(networks[0], recipe), ByAutograd(networks[1], recipe)
    for mine, theirs in zip(descend(ours, train, recipe, 0), descend(twin, train, recipe, 0), strict=True):
        assert abs(mine.loss - theirs.loss) < 1e-10
        for gradient, expected in zip(mine.gradients, theirs.gradients, strict=True):
            torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-11)


def test_the_drawing_shows_data_and_gradients(tmp_path: Path) -> None:
    o = neuron()
    o.backward()
    for name in ("one.svg", "other.svg"):
        draw(o, tmp_path / name)
    svg = (tmp_path / "one.svg").read_text()
    assert svg == (tmp_path / "other.svg").read_text()
    texts = ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    for tensor in behind(o):
        assert tensor.grad is not None
        for text in (f"data {tensor.item():.4f}", f"grad {tensor.grad.item():.4f}", tensor.label):
            assert text in texts or not text
    assert {"+", "*", "tanh", "data 0.7071", "grad -1.5000", "x1*w1"} <= set(texts)


def test_a_graph_too_large_to_draw(tmp_path: Path) -> None:
    y = Tensor(1.0, requires_grad=True)
    for _ in range(100):
        y = y.tanh()
    with pytest.raises(ValueError) as caught:
        draw(y, tmp_path / "graph.svg")
    assert str(caught.value) == "the graph has 101 tensors, more than the 60 that a picture can show"
    assert not list(tmp_path.iterdir())
