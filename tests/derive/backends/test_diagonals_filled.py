"""A choice by whether row and column are the same fills a diagonal: no places are counted, no condition is made."""

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.fx.experimental import _config as symbols

from derive import amax, axes, constant, emit, eq, exp, ne, oo, op, scalar, softplus, sum, tanh, tensor, where
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived, chooses, inputs_of, module

b, i, j, d = axes("b i j d")


@op
def others(f, k: tensor[i, i], q: tensor[i, d]):
    """Each row hears of the others alone (a message of a mean field)."""
    f.y[i, d] = sum(where(ne(i, j), k[i, j] * q[j, d], 0), over=j)
    return f.y


@op
def all_but_its_own(f, x: tensor[i, d], z: tensor[j, d], fill: scalar = 0.5):
    f.s[i, j] = sum(x[i, d] * z[j, d], over=d)
    f.e[i, j] = exp(where(eq(i, j), -oo, f.s[i, j]))
    f.y[i, j] = where(ne(i, j), f.e[i, j] + f.s[i, j], fill)
    return f.y


@op
def in_batches(f, x: tensor[b, i, j]):
    f.y[b, i, j] = where(ne(i, j), x[b, i, j], 0)
    return f.y


@op
def messages(f, x: tensor[i, d], z: tensor[j, d]):
    """Of every other node (Satorras et al., 2021)."""
    f.y[i, d] = sum(where(ne(i, j), tanh(x[i, d] + z[j, d]), 0), over=j)
    return f.y


@op
def heads(f, q: tensor[..., i, d], k: tensor[..., j, d]):
    """Nothing attends to itself."""
    f.s[..., i, j] = where(ne(i, j), sum(q[..., i, d] * k[..., j, d], over=d), -oo)
    f.e[..., i, j] = exp(f.s[..., i, j] - amax(f.s[..., i, j], over=j))
    f.y[..., i, j] = f.e[..., i, j] / sum(f.e[..., i, j], over=j)
    return f.y


@op
def vectors_in_batches(f, x: tensor[b], z: tensor[j], u: tensor[i]):
    """What is filled is no matrix of each: it lacks an axis."""
    f.y[b, i, j] = where(ne(i, j), x[b] * z[j], 1) * u[i]
    return f.y


@op
def own_in_batches(f, x: tensor[b, i, j]):
    f.y[b, i, j] = where(ne(i, j), x[b, i, j], x[b, i, j] ** 2)
    return f.y


@op
def own_of_all_in_batches(f, x: tensor[b, i, j], g: tensor[i, j]):
    """What stands on the diagonals is of a matrix that all of the batch share."""
    f.y[b, i, j] = where(ne(i, j), x[b, i, j], exp(g[i, j]))
    return f.y


@op
def own_apart(f, x: tensor[i, d], z: tensor[j, d], fill: scalar = 0.5):
    """Towards the identity, and everything else towards 0 (Zbontar et al., 2021); `c` is read on the diagonal alone."""
    f.c[i, j] = sum(x[i, d] * z[j, d], over=d)
    f.u[i, j] = exp(f.c[i, j])
    f.y[i, j] = where(eq(i, j), (1 - f.u[i, j]) ** 2, fill * f.u[i, j] ** 2)
    return f.y


@op
def by_rows(f, x: tensor[i, j], g: tensor[i]):
    """The diagonal is shorter than `g` where there are fewer columns than rows."""
    f.y[i, j] = where(eq(i, j), g[i] * x[i, j], x[i, j])
    return f.y


@op
def orthogonal(f, x: tensor[b, i, d]):
    f.g[b, i, j] = sum(x[b, i, d] * x[b, j, d], over=d)
    f.y[b] = sum(abs(f.g[b, i, j] - where(eq(i, j), 1.5, 0)) ** 3, over=(i, j))
    return f.y


@op
def shifted(f, x: tensor[i, j]):
    f.y[i, j] = (x[i, j] - where(eq(i, j), 1, 0)) ** 2
    return f.y


@op
def others_alone(f, x: tensor[i, j], own: scalar = 0.5):
    f.y[i, j] = exp(x[i, j] + where(eq(i, j), -oo, 0)) + where(eq(i, j), own, 0)
    return f.y


@op
def ranknet(f, s: tensor[i], y: constant[i]):
    """Of every two that should be in this order, how far they are from it (Burges et al., 2005)."""
    f.loss[()] = sum(where(y[i] > y[j], softplus(s[j] - s[i]), 0), over=(i, j))
    return f.loss


@op
def in_place(f, x: tensor[i, j]):
    f.y[i, j] = where(ne(i, j), exp(x[i, j]), 0)
    return f.y


@op
def lennard_jones(f, x: tensor[i, d], s: tensor[()]):
    """The energy of all pairs and its forces, as they are written: no particle meets itself."""
    f.dv[i, j, d] = x[i, d] - x[j, d]
    f.r2[i, j] = sum(f.dv[i, j, d] ** 2, over=d)
    f.s6[i, j] = where(ne(i, j), (s[()] ** 2 / where(ne(i, j), f.r2[i, j], 1)) ** 3, 0)
    f.energy[()] = sum(f.s6[i, j] ** 2 - f.s6[i, j], over=(i, j))
    f.fm[i, j] = where(ne(i, j), (2 * f.s6[i, j] ** 2 - f.s6[i, j]) / where(ne(i, j), f.r2[i, j], 1), 0)
    f.force[i, d] = sum(f.fm[i, j] * f.dv[i, j, d], over=j)
    return f.energy, f.force


def _own_apart(x: Tensor, z: Tensor) -> Tensor:
    u = (x @ z.T).exp()
    same = torch.arange(u.shape[0])[:, None] == torch.arange(u.shape[1])
    return torch.where(same, (1 - u) ** 2, 0.5 * u**2)


def _by_rows(x: Tensor, g: Tensor) -> Tensor:
    same = torch.arange(x.shape[0])[:, None] == torch.arange(x.shape[1])
    return torch.where(same, g[:, None] * x, x)


def _all_but_its_own(x: Tensor, z: Tensor) -> Tensor:
    s = x @ z.T
    same = torch.arange(s.shape[0])[:, None] == torch.arange(s.shape[1])
    return (s.masked_fill(same, -torch.inf).exp() + s).masked_fill(same, 0.5)


def _off_diagonal(x: Tensor, first: int, second: int, fill: float = 0.0) -> Tensor:
    same = torch.arange(x.shape[first])[:, None] == torch.arange(x.shape[second])
    shape = [n if k in (first % x.dim(), second % x.dim()) else 1 for k, n in enumerate(x.shape)]
    return x.masked_fill(same.view(shape), fill)


def _in_batches(x: Tensor) -> Tensor:
    return _off_diagonal(x, 1, 2)


def _messages(x: Tensor, z: Tensor) -> Tensor:
    return _off_diagonal((x[:, None] + z).tanh(), 0, 1).sum(1)


def _heads(q: Tensor, k: Tensor) -> Tensor:
    return _off_diagonal(q @ k.mT, -2, -1, -torch.inf).softmax(-1)


CASES = [
    (others.op, lambda k, q: (k - k.diagonal().diag()) @ q, {"k": (4, 4), "q": (4, 3)}),
    (all_but_its_own.op, _all_but_its_own, {"x": (4, 3), "z": (4, 3)}),
    (all_but_its_own.op, _all_but_its_own, {"x": (5, 3), "z": (2, 3)}),
    (all_but_its_own.op, _all_but_its_own, {"x": (2, 3), "z": (5, 3)}),
]


DIAGONALS = [
    (own_apart.op, _own_apart, {"x": (4, 3), "z": (4, 3)}),
    (own_apart.op, _own_apart, {"x": (5, 3), "z": (2, 3)}),
    (own_apart.op, _own_apart, {"x": (2, 3), "z": (5, 3)}),
]


@pytest.mark.parametrize(("made", "plain", "shapes"), DIAGONALS)
def test_what_stands_on_the_diagonal_is_computed_there(made: Op, plain, shapes: dict[str, tuple[int, ...]]) -> None:
    assert_derived(made, plain, shapes)
    code = code_of(made)
    assert "diagonal_scatter(" in code and not chooses(code) and "arange" not in code, code


@pytest.mark.parametrize("shape", [(4, 4), (5, 2), (2, 5)])
def test_vectors_beside_a_matrix_stay_a_choice(shape: tuple[int, int]) -> None:
    assert_derived(by_rows.op, _by_rows, {"x": shape, "g": shape[:1]})
    assert "diagonal" not in code_of(by_rows.op)


@pytest.mark.parametrize(("made", "plain", "shapes"), CASES)
def test_gradients(made: Op, plain, shapes: dict[str, tuple[int, ...]]) -> None:
    """Also of matrices that are not square."""
    assert_derived(made, plain, shapes)
    code = code_of(made)
    assert "fill_diagonal_" in code and not chooses(code) and "arange" not in code, code


BATCHES = [
    (in_batches, "fill_diagonal_(x.clone(), 0, 1, 2)", _in_batches, {"x": (2, 4, 4)}),
    (in_batches, "fill_diagonal_(x.clone(), 0, 1, 2)", _in_batches, {"x": (2, 3, 5)}),
    (messages, ", 0, 0, 1)", _messages, {"x": (4, 3), "z": (4, 3)}),
    (messages, ", 0, 0, 1)", _messages, {"x": (2, 3), "z": (5, 3)}),
    (heads, "fill_diagonal_(q @ k.mT, -math.inf, -2, -1)", _heads, {"q": (2, 3, 4, 2), "k": (2, 3, 4, 2)}),
]  # fmt: skip


@pytest.mark.parametrize(("made", "line", "plain", "shapes"), BATCHES)
def test_each_matrix_of_a_tensor_is_filled(made, line: str, plain, shapes) -> None:
    assert_derived(made.op, plain, shapes)
    forward, _ = code_of(made.op).split("_backward(", 1)
    assert line in forward and not chooses(forward), forward


STAY = [vectors_in_batches, own_in_batches, own_of_all_in_batches]


@pytest.mark.parametrize("made", STAY, ids=lambda made: made.op.name)
def test_what_is_no_number_or_lacks_an_axis_stays_a_choice(made) -> None:
    assert "diagonal_" not in code_of(made.op).split("_backward(")[0]


def test_a_matrix_that_all_share_is_on_the_diagonal_of_each() -> None:
    def plain(x: Tensor, g: Tensor) -> Tensor:
        return torch.where(torch.eye(x.shape[1], x.shape[2]) > 0, g.exp(), x)

    assert_derived(own_of_all_in_batches.op, plain, {"x": (4, 4, 4), "g": (4, 4)})


def test_what_is_given_is_not_written_over() -> None:
    assert "fill_diagonal_(k.clone(), 0)" in code_of(others.op) and "(k, 0)" not in code_of(others.op)


@pytest.mark.parametrize("made", [others.op, own_apart.op, ranknet.op])
def test_compiled_once_for_every_length(made: Op) -> None:
    """`Tensor.fill_diagonal_` reads lengths as plain numbers, each of which would be compiled for."""
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    function = getattr(module(made), made.name)
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    with symbols.patch(use_duck_shape=False):  # `i` and `d` are no more one length than they happen to be
        for n in (4, 5, 7):
            sizes = {"i": n, "j": n, "d": 3}
            shapes = {o.name: tuple(sizes[a.name.strip("'2")] for a in o.axes) for o in made.operands if o.is_tensor}
            given = list(inputs_of(made, shapes).values())
            leaves = [t for t in given if t.requires_grad]
            got, want = (torch.autograd.grad(f(*given).sum(), leaves) for f in (compiled, function))
            torch.testing.assert_close(got, want)
    torch.compiler.reset()
    assert counter.frame_count == 1


def test_an_old_result_is_filled_where_it_lies() -> None:
    code = emit.render(derivation_of(in_place.op), workspace=True)
    assert "fill_diagonal_(torch.exp(x, out=out[0]), 0)" in code, code


@pytest.mark.parametrize("shape", [(4, 4), (5, 2), (2, 5)])
def test_ones_on_the_diagonal_are_the_identity(shape: tuple[int, int]) -> None:
    assert_derived(shifted.op, lambda x: (x - torch.eye(*shape, dtype=x.dtype)) ** 2, {"x": shape})
    assert "x - torch.eye(i, j, dtype=x.dtype, device=x.device)" in code_of(shifted.op)


def test_a_number_on_each_diagonal_of_a_batch_is_a_multiple_of_it() -> None:
    def plain(x: Tensor) -> Tensor:
        return (x @ x.mT - 1.5 * torch.eye(4, dtype=x.dtype)).abs().pow(3).sum((1, 2))

    assert_derived(orthogonal.op, plain, {"x": (3, 4, 2)})
    code = code_of(orthogonal.op)
    assert "1.5 * torch.eye(i, dtype=x.dtype, device=x.device)" in code and "arange" not in code, code


@pytest.mark.parametrize("own", [0.5, torch.inf])
def test_of_what_may_be_infinite_no_multiple_is_taken(own: float) -> None:
    """0 times it would be no number, everywhere but on the diagonal."""
    x = torch.randn(3, 4, dtype=torch.float64)
    y, _ = module(others_alone.op).others_alone_forward(x, own)
    torch.testing.assert_close(y, torch.where(torch.eye(3, 4) == 1, own, x.exp()))


def test_a_matrix_with_another_diagonal_is_made_once_and_a_diagonal_filled_once() -> None:
    code = code_of(lennard_jones.op)
    for half in code.split("def lennard_jones_backward"):
        assert half.count("fill_diagonal_(r2.clone(), 1)") == 1, code
    assert "fill_diagonal_(fill_diagonal_(" not in code
    assert "r2_off_diagonal = " in code
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    s = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    dv = x[:, None] - x
    r2 = dv.square().sum(2) + torch.eye(5)
    off = 1 - torch.eye(5)
    s6 = (s**2 / r2) ** 3 * off
    right = (s6**2 - s6).sum(), ((2 * s6**2 - s6) / r2 * off)[:, :, None].mul(dv).sum(1)
    cotangents = [torch.randn(y.shape, generator=generator, dtype=torch.float64) for y in right]
    found = module(lennard_jones.op).lennard_jones(x, s)
    torch.testing.assert_close(found, right, rtol=1e-11, atol=1e-11)
    ours, theirs = (torch.autograd.grad(y, (x, s), cotangents) for y in (found, right))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
