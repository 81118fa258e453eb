"""The ops of the two-layer network: against autograd of forwards written here, and what their code may hold."""

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import generated
from derive.catalogue import find
from derive.pipeline import derive_op
from tests.generated.comparison import assert_close

EXACT = 1e-10
Sizes = tuple[int, ...]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integers(high: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


# --- forwards written out, and operands for them ------------------------------------------------------------


def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("...i,io->...o", x, w) + b


def embedding(C: Tensor, ix: Tensor) -> Tensor:
    return C[ix]


def flatten(x: Tensor) -> Tensor:
    n, t, e = x.shape
    return x.reshape(n, t * e)


def batchnorm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5, correction: float = 1) -> Tensor:
    deviation = x - x.sum(0) / len(x)
    variance = (deviation * deviation).sum(0) / (len(x) - correction)
    return gamma * deviation / torch.sqrt(variance + eps) + beta


def softmax_cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    return -F.log_softmax(z, dim=1)[torch.arange(len(y)), y].mean()


@dataclass(frozen=True)
class Case:
    """An op, the forward it must agree with, and operands for given sizes."""

    name: str
    reference: Callable[..., Tensor]
    operands: Callable[..., tuple[Tensor, ...]]
    sizes: dict[str, Sizes]
    differentiable: int

    @property
    def function(self) -> Callable[..., Tensor]:
        return getattr(generated, self.name)

    def part(self, suffix: str) -> Callable:
        return getattr(generated, f"{self.name}_{suffix}")


def batchnorm_operands(n: int, d: int) -> tuple[Tensor, ...]:
    return normal(n, d) * 3 + 1, normal(d, seed=1), normal(d, seed=2)


CASES = [
    Case("linear", linear, lambda n, i, o: (normal(n, i), normal(i, o, seed=1), normal(o, seed=2)),
         {"odd": (7, 5, 3), "coincident": (5, 5, 5), "batch of 2": (2, 5, 3), "batch of 1": (1, 5, 3),
          "ones": (1, 1, 1), "empty batch": (0, 5, 3)}, 3),
    Case("embedding", embedding, lambda v, e, n, t: (normal(v, e), integers(v, n, t)),
         {"odd": (7, 5, 3, 11), "coincident": (5, 5, 5, 5), "repeated rows": (3, 5, 17, 7), "one row": (1, 3, 5, 7),
          "batch of 2": (7, 5, 2, 3), "empty batch": (7, 5, 0, 3)}, 1),
    Case("flatten", flatten, lambda n, t, e: (normal(n, t, e),),
         {"odd": (7, 3, 5), "coincident": (5, 5, 5), "batch of 2": (2, 3, 5), "ones": (1, 1, 1),
          "empty batch": (0, 3, 5)}, 1),
    Case("batchnorm", batchnorm, batchnorm_operands,
         {"odd": (7, 5), "coincident": (5, 5), "batch of 2": (2, 5), "wide": (3, 17), "one feature": (7, 1)}, 3),
    Case("tanh", torch.tanh, lambda *shape: (normal(*shape) * 3,),
         {"odd": (7, 5, 3), "coincident": (5, 5), "batch of 2": (2, 5), "one axis": (7,), "no axes": (),
          "empty": (0, 3)}, 1),
    Case("softmax_cross_entropy", softmax_cross_entropy, lambda n, c: (normal(n, c) * 2, integers(c, n)),
         {"odd": (7, 5), "coincident": (5, 5), "batch of 2": (2, 5), "batch of 1": (1, 5), "one class": (5, 1)}, 1),
]  # fmt: skip


def cotangents(like: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The same shape with every kind of strides that an upstream gradient comes in."""
    value = normal(*like.shape, seed=9)
    yield "contiguous", value
    if like.dim() > 1:
        yield "transposed", value.transpose(0, -1).contiguous().transpose(0, -1)
        yield "sliced", torch.stack([value, value], -1)[..., 0]
    yield "stride 0", normal(1, seed=9)[0].expand(like.shape)


def each_case_and_size() -> object:
    rows = [pytest.param(c, s, id=f"{c.name}-{name}") for c in CASES for name, s in c.sizes.items()]
    return pytest.mark.parametrize(("case", "sizes"), rows)


def expected_gradients(case: Case, operands: tuple[Tensor, ...], cotangent: Tensor) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() if k < case.differentiable else t for k, t in enumerate(operands)]
    found = torch.autograd.grad(case.reference(*leaves), leaves[: case.differentiable], cotangent)
    return list(found)


def cancelling(case: Case, operands: tuple[Tensor, ...], cotangent: Tensor, k: int) -> float:
    """The largest of the terms that cancel in a gradient: what rounding is relative to where the sum is nearly 0."""
    if case.name != "batchnorm" or k == 2:
        return 0.0
    x, gamma, _ = operands
    through = gamma if k == 0 else x - x.mean(0)
    return float((through * cotangent / torch.sqrt(x.var(0) + 1e-5)).abs().max())


def as_list(value: object) -> list[Tensor]:
    return list(value) if isinstance(value, tuple) else [value]  # type: ignore[list-item]


@each_case_and_size()
def test_forward(case: Case, sizes: Sizes) -> None:
    operands = case.operands(*sizes)
    assert_close("output", case.function(*operands), case.reference(*operands), EXACT)


@each_case_and_size()
def test_backward(case: Case, sizes: Sizes) -> None:
    """The pure backward, for cotangents of all strides; nothing it was given is changed."""
    operands = case.operands(*sizes)
    output, saved = case.part("forward")(*operands)
    for kind, cotangent in cotangents(output):
        before = [t.clone() for t in (*operands, cotangent, *saved) if isinstance(t, Tensor)]
        found = as_list(case.part("backward")(cotangent, *saved))
        expected = expected_gradients(case, operands, cotangent)
        for k, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            terms = cancelling(case, operands, cotangent, k)
            assert_close(f"gradient {k} of {case.name}, {kind} cotangent", mine, theirs, EXACT, terms)
        after = [t for t in (*operands, cotangent, *saved) if isinstance(t, Tensor)]
        assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True)), f"{kind}: an input was changed"


@each_case_and_size()
def test_differentiable_function(case: Case, sizes: Sizes) -> None:
    """`loss.backward()` through the function, twice over the same graph: gradients add up."""
    operands = case.operands(*sizes)
    leaves = [t.clone().requires_grad_() if k < case.differentiable else t for k, t in enumerate(operands)]
    output = case.function(*leaves)
    cotangent = normal(*output.shape, seed=9)
    output.backward(cotangent, retain_graph=True)
    once = expected_gradients(case, operands, normal(*output.shape, seed=9))
    terms = [cancelling(case, operands, cotangent, k) for k in range(case.differentiable)]
    for k, leaf in enumerate(leaves[: case.differentiable]):
        assert leaf.grad is not None
        assert_close(f"gradient {k} of {case.name}", leaf.grad, once[k], EXACT, terms[k])
    output.backward(normal(*output.shape, seed=9))
    for k, leaf in enumerate(leaves[: case.differentiable]):
        assert leaf.grad is not None
        assert_close(f"gradient {k} of {case.name}, twice", leaf.grad, 2 * once[k], EXACT, 2 * terms[k])


@each_case_and_size()
def test_a_sum_after_the_op(case: Case, sizes: Sizes) -> None:
    """`.sum()` sends back a gradient with stride 0."""
    operands = case.operands(*sizes)
    leaves = [t.clone().requires_grad_() if k < case.differentiable else t for k, t in enumerate(operands)]
    output = case.function(*leaves)
    output.sum().backward()
    for k, theirs in enumerate(expected_gradients(case, operands, torch.ones_like(output))):
        mine = leaves[k].grad
        assert mine is not None
        terms = cancelling(case, operands, torch.ones_like(output), k)
        assert_close(f"gradient {k} of {case.name}", mine, theirs, EXACT, terms)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_operands_of_other_strides(case: Case) -> None:
    sizes = case.sizes["odd"]
    plain = case.operands(*sizes)
    strided = tuple(t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() > 1 else t for t in plain)
    output, saved = case.part("forward")(*strided)
    cotangent = normal(*output.shape, seed=9)
    assert_close("output", output, case.reference(*plain), EXACT)
    for k, mine in enumerate(as_list(case.part("backward")(cotangent, *saved))):
        assert_close(f"gradient {k} of {case.name}", mine, expected_gradients(case, plain, cotangent)[k], EXACT)


# --- extremes -----------------------------------------------------------------------------------------------


def test_repeated_rows_accumulate() -> None:
    C, ix = normal(4, 3), torch.tensor([2, 0, 2, 2])
    _, saved = generated.embedding_forward(C, ix)
    found = generated.embedding_backward(torch.ones(4, 3, dtype=torch.float64), *saved)
    assert found.tolist() == [[1.0] * 3, [0.0] * 3, [3.0] * 3, [0.0] * 3]


EXTREMES = {
    "one class far ahead": [[1e4, -1e4, 0.0], [0.0, 1e4, -1e4]],
    "ties at the top": [[1e4, 1e4, -1e4], [-1e4, -1e4, -1e4]],
    "near ties at the top": [[1e4, 1e4 - 0.5, -1e4], [1e4 - 1, 1e4, 1e4 - 2]],
}


@pytest.mark.parametrize("logits", EXTREMES.values(), ids=list(EXTREMES))
def test_large_logits(logits: list[list[float]]) -> None:
    z, y = torch.tensor(logits, dtype=torch.float64), torch.tensor([0, 2])
    loss, saved = generated.softmax_cross_entropy_forward(z, y)
    assert_close("loss", loss, softmax_cross_entropy(z, y), EXACT)
    leaf = z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(softmax_cross_entropy(leaf, y), leaf)
    one = torch.ones((), dtype=torch.float64)
    assert_close("dz", generated.softmax_cross_entropy_backward(one, *saved), expected, EXACT)


def test_large_logits_in_float32() -> None:
    """The maximum is taken off before the logarithm is, so a loss of 0.5 beside logits of 1e4 keeps its digits."""
    z = torch.tensor([[1e4, 1e4 - 0.5, -1e4], [1e4 - 1, 1e4, 1e4 - 2]])
    y = torch.tensor([0, 2])
    exact = softmax_cross_entropy(z.double(), y)
    assert generated.softmax_cross_entropy(z, y).double().item() == pytest.approx(exact.item(), rel=1e-6)


@pytest.mark.parametrize("correction", [0, 1, 0.5], ids=["population", "Bessel", "between"])
def test_correction(correction: float) -> None:
    x, gamma, beta = (t.requires_grad_() for t in batchnorm_operands(7, 5))
    cotangent = normal(7, 5, seed=9)
    mine = torch.autograd.grad(generated.batchnorm(x, gamma, beta, 1e-3, correction), (x, gamma, beta), cotangent)
    theirs = torch.autograd.grad(batchnorm(x, gamma, beta, 1e-3, correction), (x, gamma, beta), cotangent)
    for name, a, b in zip(("dx", "dgamma", "dbeta"), mine, theirs, strict=True):
        assert_close(name, a, b, EXACT)


def test_gradient_of_gamma_at_zero() -> None:
    """A gamma that starts at 0 must train."""
    x, _, beta = batchnorm_operands(7, 5)
    _, saved = generated.batchnorm_forward(x, torch.zeros(5, dtype=torch.float64), beta)
    dx, dgamma, _ = generated.batchnorm_backward(normal(7, 5, seed=9), *saved)
    assert float(dx.abs().max()) == 0 and float(dgamma.abs().min()) > 0


# --- what the code may hold ---------------------------------------------------------------------------------


def tree(function: Callable) -> ast.AST:
    return ast.parse(inspect.getsource(inspect.unwrap(function)))


def calls(function: Callable) -> Counter[str]:
    """The methods and functions that a function calls, by their last name."""
    found = [ast.unparse(n.func).rpartition(".")[2] for n in ast.walk(tree(function)) if isinstance(n, ast.Call)]
    return Counter(found)


class Executed(TorchDispatchMode):
    """Every kernel that runs, with the shape of what it makes; views are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[tuple[str, tuple[int, ...]]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and not func.is_view:
            self.kernels.append((func.overloadpacket.__name__.rstrip("_"), tuple(out.shape)))
        return out

    def count(self, *names: str) -> int:
        return sum(name in names for name, _ in self.kernels)

    def making(self, *shape: int) -> int:
        return sum(made == shape for _, made in self.kernels)


def executed(name: str, *operands: Tensor) -> Executed:
    """The kernels of an op's backward, for a random cotangent."""
    output, saved = getattr(generated, f"{name}_forward")(*operands)
    cotangent = normal(*output.shape, seed=9)
    with Executed() as kernels:
        getattr(generated, f"{name}_backward")(cotangent, *saved)
    return kernels


REDUCTIONS = ("sum", "mean", "amax", "mv", "einsum", "prod", "var", "std")
PRODUCTS = ("mm", "addmm", "bmm", "matmul", "einsum", "linear")
SCATTERS = ("index_add", "scatter_add", "index_put", "embedding_dense_backward", "scatter", "one_hot")


def test_batchnorm_has_two_reductions_and_no_more_passes_than_by_hand() -> None:
    n, d = 11, 7
    x, gamma, beta = batchnorm_operands(n, d)
    mine = executed("batchnorm", x, gamma, beta)
    assert sum(calls(generated.batchnorm_backward)[r] for r in REDUCTIONS) == 2
    assert mine.count(*REDUCTIONS) == 2
    xhat, rstd, dy = normal(n, d), normal(d).abs(), normal(n, d, seed=9)
    with Executed() as by_hand:
        gamma * rstd / n * (n * dy - dy.sum(0) - n / (n - 1) * xhat * (dy * xhat).sum(0))
    assert mine.making(n, d) <= by_hand.making(n, d), mine.kernels


def test_softmax_cross_entropy_is_probabilities_less_the_labels() -> None:
    backward = generated.softmax_cross_entropy_backward
    names = {node.id for node in ast.walk(tree(backward)) if isinstance(node, ast.Name)} | set(calls(backward))
    assert not names & {"one_hot", "eye", "diag", "diag_embed", "log", "exp", "softmax", "reciprocal", "einsum"}
    divisions = [
        node for node in ast.walk(tree(backward)) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    ]
    by = {name.id for node in divisions for name in ast.walk(node.right) if isinstance(name, ast.Name)}
    assert by <= {"n"}, f"divides by {by}"
    n, c = 11, 7
    made = executed("softmax_cross_entropy", normal(n, c), integers(c, n)).kernels
    assert max(torch.Size(shape).numel() for _, shape in made) == n * c
    assert (
        sum(shape == (n, c) for _, shape in made) <= 2
    ), made  # the scaled probabilities, and 1 taken off at the labels
    assert generated.softmax_cross_entropy_backward.__wrapped__.__code__.co_varnames[:3] == ("dloss", "p", "y")


def test_linear_is_two_matrix_products_and_a_sum() -> None:
    made = executed("linear", normal(7, 5), normal(5, 3, seed=1), normal(3, seed=2))
    assert made.count(*PRODUCTS) == 2 and made.count("sum") == 1
    assert len(made.kernels) == 3, made.kernels


def test_embedding_is_one_scatter_add() -> None:
    made = executed("embedding", normal(7, 5), integers(7, 11))
    assert made.count(*SCATTERS) == 1
    assert {name for name, _ in made.kernels} <= {*SCATTERS, "new_zeros", "zeros", "zero"}, made.kernels


def test_tanh_uses_its_output() -> None:
    x = normal(7, 5)
    y, saved = generated.tanh_forward(x)
    assert saved._fields == ("y",) and saved.y is y
    assert "tanh" not in calls(generated.tanh_backward)


def test_flatten_moves_nothing() -> None:
    assert executed("flatten", normal(7, 3, 5)).kernels == []


# --- why: the relations in the derivation -------------------------------------------------------------------

REASONS = [
    ("batchnorm", "sum(xhat[n', d], over=n') = 0", "mu"),
    ("softmax_cross_entropy", "sum(p[n, c'], over=c') = 1", "s"),
]


@pytest.mark.parametrize(("name", "identity", "because"), REASONS, ids=[r[0] for r in REASONS])
def test_the_derivation_shows_the_relation(name: str, identity: str, because: str) -> None:
    derivation = derive_op(find(name))
    steps = [s for s in derivation.closed.steps if s.law == "relation" and identity in s.reason]
    assert steps, [s.reason for s in derivation.closed.steps]
    for step in steps:
        _, _, why = step.reason.partition(identity)
        assert because in why.split(";")[0].replace(",", " ").split()
    assert identity in (inspect.getmodule(inspect.unwrap(getattr(generated, f"{name}_backward"))).__doc__ or "")
