"""The decomposed loss graph: all 26 gradients of the stepwise backward, and the seven of the closed one.

`pytest -s -k table` prints the table in float32 at batch 32.
"""

import ast
import inspect

import pytest
import torch
from torch import Tensor

import generated
from tests.generated.comparison import Row, assert_close, compared, table

INTERMEDIATES = [
    "logprobs",
    "probs",
    "counts_sum_inv",
    "counts_sum",
    "counts",
    "norm_logits",
    "logit_maxes",
    "logits",
    "h",
    "hpreact",
    "bnraw",
    "bnvar_inv",
    "bnvar",
    "bndiff2",
    "bndiff",
    "bnmeani",
    "hprebn",
    "embcat",
    "emb",
]
PARAMETERS = ["C", "W1", "b1", "bngain", "bnbias", "W2", "b2"]
Tensors = dict[str, Tensor]


def operands(n: int, t: int, e: int, v: int, h: int, dtype: torch.dtype, c: int | None = None) -> Tensors:
    """Parameters as the network starts with them, and a random batch."""
    g = torch.Generator().manual_seed(2147483647)
    c = v if c is None else c
    i = t * e
    made = {
        "C": torch.randn(v, e, generator=g),
        "W1": torch.randn(i, h, generator=g) * (5 / 3) / i**0.5,
        "b1": torch.randn(h, generator=g) * 0.1,
        "bngain": torch.randn(h, generator=g) * 0.1 + 1,
        "bnbias": torch.randn(h, generator=g) * 0.1,
        "W2": torch.randn(h, c, generator=g) * 0.1,
        "b2": torch.randn(c, generator=g) * 0.1,
    }
    return {
        **{name: value.to(dtype) for name, value in made.items()},
        "ix": torch.randint(0, v, (n, t), generator=g),
        "y": torch.randint(0, c, (n,), generator=g),
    }


def reference(C, W1, b1, bngain, bnbias, W2, b2, ix, y):  # type: ignore[no-untyped-def]
    """The forward as it is usually written, every intermediate by name; reduced dimensions are kept."""
    n = len(y)
    emb = C[ix]
    embcat = emb.view(n, -1)
    hprebn = embcat @ W1 + b1
    bnmeani = 1 / n * hprebn.sum(0, keepdim=True)
    bndiff = hprebn - bnmeani
    bndiff2 = bndiff**2
    bnvar = 1 / (n - 1) * bndiff2.sum(0, keepdim=True)
    bnvar_inv = (bnvar + 1e-5) ** -0.5
    bnraw = bndiff * bnvar_inv
    hpreact = bngain * bnraw + bnbias
    h = torch.tanh(hpreact)
    logits = h @ W2 + b2
    logit_maxes = logits.max(1, keepdim=True).values
    norm_logits = logits - logit_maxes
    counts = norm_logits.exp()
    counts_sum = counts.sum(1, keepdim=True)
    counts_sum_inv = counts_sum**-1
    probs = counts * counts_sum_inv
    logprobs = probs.log()
    loss = -logprobs[range(n), y].mean()
    found = locals()
    return loss, {name: found[name] for name in INTERMEDIATES}


def expected(given: Tensors) -> tuple[Tensor, Tensors]:
    """The loss and the gradient of every intermediate and parameter, by autograd."""
    leaves = {name: value.clone().requires_grad_() if name in PARAMETERS else value for name, value in given.items()}
    loss, intermediates = reference(**leaves)
    wanted = intermediates | {name: leaves[name] for name in PARAMETERS}
    return loss.detach(), dict(zip(wanted, torch.autograd.grad(loss, list(wanted.values())), strict=True))


def stepwise(given: Tensors) -> tuple[Tensor, Tensors]:
    loss, saved = generated.names_step_stepwise_forward(**given)
    gradients = generated.names_step_stepwise_backward(torch.ones_like(loss), *saved)
    return loss, {name.removeprefix("d"): value for name, value in gradients._asdict().items()}


def from_the_same_forward(given: Tensors) -> Tensors:
    """The stepwise backward of the very numbers that the reference's forward made: only its own rounding is left."""
    with torch.no_grad():
        loss, intermediates = reference(**given)
    _, own = generated.names_step_stepwise_forward(**given)
    values = given | intermediates
    saved = {
        name: values[name].reshape(value.shape) if isinstance(value, Tensor) else value
        for name, value in own._asdict().items()
    }
    gradients = generated.names_step_stepwise_backward(torch.ones_like(loss), *type(own)(**saved))
    return {name.removeprefix("d"): value for name, value in gradients._asdict().items()}


def one_step_at_a_time(given: Tensors, wanted: Tensors) -> Tensors:
    """Each gradient from autograd's own gradients upstream of it: what a single step of the backward rounds."""
    function = inspect.unwrap(generated.names_step_stepwise_backward)
    body = ast.parse(inspect.getsource(function)).body[0].body  # type: ignore[attr-defined]
    with torch.no_grad():
        loss, intermediates = reference(**given)
    _, own = generated.names_step_stepwise_forward(**given)
    values = given | intermediates
    space = dict(function.__globals__) | {"dloss": torch.ones_like(loss)}
    for name, value in own._asdict().items():
        space[name] = values[name].reshape(value.shape) if isinstance(value, Tensor) else value
    found: Tensors = {}
    for statement in body:
        if isinstance(statement, ast.Return):
            break
        exec(compile(ast.Module([statement], []), "backward", "exec"), space)
        for name in {n.id.removeprefix("d") for n in ast.walk(statement) if isinstance(n, ast.Name)} & set(wanted):
            if isinstance(space.get(f"d{name}"), Tensor) and _writes(statement, f"d{name}"):
                found[name] = space[f"d{name}"].clone()
                space[f"d{name}"] = wanted[name].reshape(found[name].shape).clone()
    return found


def _writes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement assigns to a name, or changes it in place."""
    if isinstance(statement, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == name for t in statement.targets)
    return ast.unparse(statement).startswith(f"{name}.")


def rows(found: Tensors, wanted: Tensors) -> list[Row]:
    return [compared(name, found[name], wanted[name]) for name in (*INTERMEDIATES, *PARAMETERS)]


def test_there_are_26() -> None:
    _, found = stepwise(operands(5, 3, 2, 7, 11, torch.float64))
    assert len(INTERMEDIATES) == 19 and len(PARAMETERS) == 7
    assert set(found) == {*INTERMEDIATES, *PARAMETERS} and len(found) == 26


# n, t, e, v, h, c
SIZES = {
    "as trained": (32, 3, 10, 27, 200, 27),
    "odd and distinct": (7, 3, 5, 13, 11, 9),
    "coincident": (6, 6, 6, 36, 36, 36),
    "batch of 3": (3, 3, 2, 7, 5, 7),
    "one letter of context": (9, 1, 5, 7, 11, 3),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=list(SIZES))
def test_stepwise_in_float64(sizes: tuple[int, ...]) -> None:
    n, t, e, v, h, c = sizes
    given = operands(n, t, e, v, h, torch.float64, c)
    loss, found = stepwise(given)
    wanted_loss, wanted = expected(given)
    assert_close("loss", loss, wanted_loss, 1e-10)
    for name in (*INTERMEDIATES, *PARAMETERS):
        assert_close(name, found[name].squeeze(), wanted[name].squeeze(), 1e-10, cancelling(name, wanted))


SUMS_TO_ZERO = {"logit_maxes": "norm_logits", "bnmeani": "bndiff", "b1": "hprebn"}
"""Gradients that are 0 but for rounding, and the gradient whose sum they are."""


def cancelling(name: str, wanted: Tensors) -> float:
    """The size of what cancels in a gradient."""
    return float(wanted[SUMS_TO_ZERO[name]].abs().max()) if name in SUMS_TO_ZERO else 0.0


@pytest.mark.parametrize("sizes", SIZES.values(), ids=list(SIZES))
def test_closed_in_float64(sizes: tuple[int, ...]) -> None:
    n, t, e, v, h, c = sizes
    given = operands(n, t, e, v, h, torch.float64, c)
    _, wanted = expected(given)
    before = {name: value.clone() for name, value in given.items()}
    loss, saved = generated.names_step_forward(**given)
    gradients = generated.names_step_backward(torch.ones_like(loss), *saved)
    assert gradients._fields == tuple(f"d{name}" for name in PARAMETERS)
    for name in PARAMETERS:
        found = getattr(gradients, f"d{name}")
        assert found.shape == given[name].shape
        assert_close(name, found, wanted[name], 1e-10, cancelling(name, wanted))
    assert all(torch.equal(given[name], before[name]) for name in given)


def test_a_scaled_loss_scales_every_gradient() -> None:
    given = operands(7, 3, 5, 13, 11, torch.float64)
    loss, saved = generated.names_step_stepwise_forward(**given)
    one = generated.names_step_stepwise_backward(torch.ones_like(loss), *saved)
    three = generated.names_step_stepwise_backward(torch.full_like(loss, -3), *saved)
    for name, a, b in zip(one._fields, one, three, strict=True):
        assert float((b + 3 * a).abs().max()) <= 1e-12 * float(a.abs().max()) + 1e-15, name


def test_by_loss_backward() -> None:
    given = operands(7, 3, 5, 13, 11, torch.float64)
    leaves = {name: value.clone().requires_grad_() if name in PARAMETERS else value for name, value in given.items()}
    generated.names_step(**leaves).backward()
    _, wanted = expected(given)
    for name in PARAMETERS:
        grad = leaves[name].grad
        assert grad is not None
        assert_close(name, grad, wanted[name], 1e-10, cancelling(name, wanted))


ROUNDED = {
    "counts_sum": "minus the square of counts_sum_inv, the step's own output; autograd takes counts_sum**-2",
    "counts": "one fused multiply-add; autograd multiplies, rounds, and adds",
    "hpreact": "1 - h*h is rounded before it is multiplied; autograd's kernel fuses them",
    "bnvar": "half the cube of bnvar_inv, the step's own output; autograd takes (bnvar + eps)**-1.5",
    "bndiff2": "divided by n - 1; the reference's forward multiplies by the rounded 1 / (n - 1)",
    "bndiff": "one fused multiply-add; autograd multiplies, rounds, and adds",
}
"""The steps that need not give autograd's very bits, and why. What follows such a step inherits its last digit."""


def test_the_table_in_float32() -> None:
    """Batch 32: every gradient approximately that of autograd, exactly where the order of operations is the same."""
    given = operands(32, 3, 10, 27, 200, torch.float32)
    _, wanted = expected(given)
    ways = {
        "each step alone, from autograd's gradients": one_step_at_a_time(given, wanted),
        "whole backward, from the reference's forward": from_the_same_forward(given),
        "whole backward, from its own forward": stepwise(given)[1],
    }
    for title, found in ways.items():
        compared_rows = rows(found, wanted)
        exact = sum(r.exact for r in compared_rows)
        print(f"\n{title}: {exact} of {len(compared_rows)} exact\n{table(compared_rows)}")
        assert [r.name for r in compared_rows if not r.approximate] == []
        if title.startswith("each step"):
            assert {r.name for r in compared_rows if not r.exact} <= set(ROUNDED)


def test_the_comparison_tells_exact_from_approximate() -> None:
    a = torch.tensor([[1.0], [2.0]])
    assert compared("x", a, a.squeeze()) == Row("x", True, True, 0.0)
    assert compared("x", a + 1e-7, a).exact is False and compared("x", a + 1e-7, a).approximate is True
    assert compared("x", a + 1, a) == Row("x", False, False, 1.0)
    lines = table([Row("bnmeani", True, True, 0.0), Row("h", False, True, 5.1e-9)]).splitlines()
    assert lines == [
        "name    | exact | approximate | maxdiff",
        "bnmeani | True  | True        | 0.0e+00",
        "h       | False | True        | 5.1e-09",
    ]
