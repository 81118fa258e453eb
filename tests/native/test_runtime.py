"""How kernels are compiled, kept, called, and when PyTorch runs in their place."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.nn import functional as F

from tests.conftest import Package


@pytest.fixture(scope="module")
def native(package: Package) -> ModuleType:
    return package("layernorm", "batchnorm", "softmax_cross_entropy", "linear", "mean_all")


def test_the_same_for_any_number_of_threads(native: ModuleType, threads: Callable[[int], None]) -> None:
    """Totals are cut up by the rows alone: bit for bit, with one thread or two, again and again."""
    x, dy = torch.randn(301, 257), torch.randn(301, 257)
    gamma, beta = torch.randn(257), torch.randn(257)
    found = []
    for count in (1, 2, 2):
        threads(count)
        for name in ("layernorm", "batchnorm"):
            y, saved = getattr(native, f"{name}_forward")(x, gamma, beta)
            found.append((y, *getattr(native, f"{name}_backward")(dy, *saved)))
    for one, *others in ((found[k], found[k + 2], found[k + 4]) for k in (0, 1)):
        for other in others:
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_long_sums_stay_accurate(package: Package) -> None:
    """A sum of many positive numbers loses no more than a few of the last places."""
    made = package("mean_all", "sum_rows")
    x = torch.rand(1_000_003)
    y, _ = made.mean_all_forward(x)
    assert abs(float(y) - float(x.double().mean())) < 1e-6 * float(y)
    rows = torch.rand(100_003, 7)
    y, _ = made.sum_rows_forward(rows)
    assert (y.double() - rows.double().sum(0)).abs().max() < 1e-6 * y.max()


def test_an_index_out_of_range_is_refused_before_anything_is_read(native: ModuleType) -> None:
    z, y = torch.randn(3, 4), torch.tensor([0, 4, 1])
    message = "softmax_cross_entropy, equation loss: y holds 4, but axis c has length 4; give values 0 to 3"
    with pytest.raises(IndexError, match=message):
        native.softmax_cross_entropy_forward(z, y)


ONLY_COMPARED = """
from derive import *

n, c = axes("n c")

@op
def one_hot(f, x: tensor[n], y: index(c)[n], classes: length(c)):
    f.out[n, c] = delta(y[n], c) * x[n]
    return f.out
"""


def test_an_index_that_the_forward_only_compares_is_checked(package: Package) -> None:
    """The backward reads by it."""
    made = package(specs=ONLY_COMPARED, workspace=True)
    x, message = torch.randn(3), "one_hot, equation out: y holds -1, but axis c has length 4; give values 0 to 3"
    out = made.one_hot_forward(x, torch.tensor([0, 3, 1]), 4)
    assert torch.equal(out[0], F.one_hot(torch.tensor([0, 3, 1]), 4) * x.unsqueeze(1))
    with pytest.raises(IndexError, match=message):
        made.one_hot_forward(x, torch.tensor([0, -1, 1]), 4)
    with pytest.raises(IndexError, match=message):
        made.one_hot_module.one_hot_forward_out(x, torch.tensor([0, -1, 1]), 4, out=out)


def test_shapes_that_disagree_are_refused(native: ModuleType) -> None:
    with pytest.raises(ValueError, match="layernorm: axis d is 5 in x but 4 in gamma"):
        native.layernorm_forward(torch.randn(3, 5), torch.randn(4), torch.randn(4))


def test_works_in_a_module_and_compiled(native: ModuleType) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gamma, self.beta = (torch.nn.Parameter(torch.randn(5)) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return native.layernorm(x * 2, self.gamma, self.beta).sin()

    net = Net()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    for rows in (6, 9):
        x = torch.randn(rows, 5, requires_grad=True)
        (eager,) = torch.autograd.grad(net(x).sum(), x)
        (traced,) = torch.autograd.grad(compiled(x).sum(), x)
        torch.testing.assert_close(traced, eager)


@pytest.mark.parametrize("name", ["layernorm", "softmax_cross_entropy"])
def test_operators_pass_opcheck(native: ModuleType, name: str) -> None:
    args = {
        "layernorm": (torch.randn(6, 5), torch.randn(5), torch.randn(5), 1e-5),
        "softmax_cross_entropy": (torch.randn(6, 5), torch.randint(0, 5, (6,))),
    }[name]
    real = tuple(a.requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args)
    torch.library.opcheck(getattr(native, f"{name}_module").FORWARD.op, real)


# --- when PyTorch runs ---------------------------------------------------------------------------------------------


def test_another_device_runs_as_torch_and_says_so_once(native: ModuleType) -> None:
    args = [torch.randn(s, device="meta") for s in ((3, 5), (5,), (5,))]
    with pytest.warns(UserWarning, match="layernorm_forward runs as PyTorch: an input on meta is not on the CPU"):
        y, _ = native.layernorm_forward(*args)
    assert y.shape == (3, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        native.layernorm_forward(*args)


def test_a_recording_autograd_gets_the_torch_form(native: ModuleType) -> None:
    """A kernel's output would silently have no gradient."""
    x, w, b = torch.randn(3, 5, requires_grad=True), torch.randn(5, 2), torch.randn(2)
    with pytest.warns(UserWarning, match="linear_forward runs as PyTorch: autograd is recording"):
        y, _ = native.linear_forward(x, w, b)
    assert y.requires_grad


@pytest.mark.parametrize(
    "command, reason",
    [
        ("no-such-compiler", r"no C compiler was found \(no-such-compiler\); install one, or name it in CC"),
        ("false", r".*false does not compile layernorm.c: status 1"),
        ("true", r".*true does not compile layernorm.c: no library was written"),
        ("sh -c 'echo boom >&2; exit 3'", r".*sh does not compile layernorm.c: status 3, boom"),
    ],
)
def test_without_a_compiler_torch_runs(
    package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, reason: str
) -> None:
    monkeypatch.setenv("CC", command)
    monkeypatch.setenv("HANDGRAD_CACHE", str(tmp_path))
    made = package("layernorm")
    x, gamma, beta = torch.randn(3, 5), torch.randn(5), torch.randn(5)
    with pytest.warns(UserWarning, match=f"layernorm_forward runs as PyTorch: {reason}"):
        y, _ = made.layernorm_forward(x, gamma, beta)
    torch.testing.assert_close(y, F.layer_norm(x, (5,), gamma, beta))
    assert not list(tmp_path.iterdir()), "nothing half-compiled stays"


UNSUPPORTED = '''
"""A function that C has not."""

from sympy import polygamma

from derive import *


@op
def bend(f, p: tensor[...]):
    """The second derivative of the logarithm of the gamma function; its own derivative C has not."""
    f.y[...] = polygamma(1, p[...])
    return f.y
'''


def test_an_unsupported_construct_runs_as_torch(package: Package) -> None:
    made = package(specs=UNSUPPORTED)
    x = torch.rand(4)
    with pytest.warns(
        UserWarning, match="bend runs as PyTorch: the CPU backend has no loop for the function poly"
    ):
        y, _ = made.bend_forward(x)
    torch.testing.assert_close(y, torch.polygamma(1, x))


def test_libraries_are_kept_by_what_they_are_made_of(
    package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same source compiles once, whatever the package; another element type is another library."""
    monkeypatch.setenv("HANDGRAD_CACHE", str(tmp_path))
    x = torch.randn(3, 4)
    for made in (package("mean_all"), package("mean_all")):
        made.mean_all_forward(x)
    first = {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    assert {p.name.partition("-")[0] for p in first} == {"mean_all", "_tensors"} and len(first) == 2
    made.mean_all_forward(x.double())
    assert len(list(tmp_path.iterdir())) == 3
    assert all(p.stat().st_mtime_ns == when for p, when in first.items())


def test_flags_of_the_caller(package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They make another library, and the compiler's word of a flag that it has not is passed on."""
    monkeypatch.setenv("HANDGRAD_CACHE", str(tmp_path))
    package("mean_all").mean_all_forward(torch.randn(3, 4))
    before = set(tmp_path.iterdir())
    monkeypatch.setenv("HANDGRAD_CFLAGS", "-O1 -DNOT_OURS='a b'")
    assert float(package("mean_all").mean_all_forward(torch.ones(3, 4))[0]) == 1
    assert {p.name.partition("-")[0] for p in set(tmp_path.iterdir()) - before} >= {"mean_all"}
    monkeypatch.setenv("HANDGRAD_CFLAGS", "-fno-such-flag")
    with pytest.warns(UserWarning, match="mean_all_forward runs as PyTorch: .*no-such-flag"):
        package("mean_all").mean_all_forward(torch.ones(3, 4))


def test_a_cache_that_cannot_be_written_to_is_said_once(
    package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("HANDGRAD_CACHE", str(file))
    made = package("mean_all", "sum_all")
    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match="file cannot be written to: kernels are compiled anew in every process"):
        made.mean_all_forward(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.sum_all_forward(x)


def _replace(path: Path, content: bytes) -> None:
    """Another file in its place: what the process has loaded of the old one stays."""
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("part", [0.0, 0.05, 0.5, 0.95], ids=str)
def test_a_damaged_library_is_compiled_again(
    package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: float
) -> None:
    monkeypatch.setenv("HANDGRAD_CACHE", str(tmp_path))
    package("mean_all").mean_all_forward(torch.randn(3, 4))
    whole = {p: p.stat().st_size for p in tmp_path.iterdir()}
    for path, size in whole.items():
        _replace(path, path.read_bytes()[: int(size * part)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        package("mean_all").mean_all_forward(torch.randn(3, 4))
    assert {p: p.stat().st_size for p in tmp_path.iterdir()} == whole


def test_what_is_no_library_is_compiled_again(
    package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HANDGRAD_CACHE", str(tmp_path))
    package("mean_all").mean_all_forward(torch.randn(3, 4))
    for path in tmp_path.iterdir():
        _replace(path, b"text" * 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        package("mean_all").mean_all_forward(torch.randn(3, 4))


def test_others_may_load_a_library_as_they_may_any_file(
    package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HANDGRAD_CACHE", str(tmp_path))
    before = os.umask(0o022)
    try:
        package("mean_all").mean_all_forward(torch.randn(3, 4))
    finally:
        os.umask(before)
    assert {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {0o755}


def test_a_merge_that_does_not_fit_is_refused(package: Package) -> None:
    made = package("flatten")
    runtime = importlib.import_module(f"{made.__name__}._native")
    kernel = runtime.Kernel("flatten.c", "none", ("y: n t*e", "x: n t e"), ("z: n",), ("n",))
    assert kernel.sizes([torch.Size((2, 6)), torch.Size((2, 3, 2))], ()) == {"n": 2, "t": 3, "e": 2}
    assert kernel.sizes([torch.Size((2, 5)), torch.Size((2, 3, 2))], ()) is None


JOINED = """
from derive import *

n, h, p, c, l, m = axes("n h p=2 c l m")


@op
def interleaved(f, a: tensor[n, h], b: tensor[n, h]):
    f.y[n, (h, p)] = concat(a[n, h], b[n, h], along=p)
    return f.y


@op
def followed(f, a: tensor[n, h]):
    f.padded[n, m] = concat(a[n, h], 0, along=m)
    f.y[n, h] = exp(f.padded[n, h + 1]) - a[n, h]
    return f.y


@op
def to_go(f, a: tensor[n, h]):
    f.y[n, h] = sum(where(l >= h, a[n, l], 0), over=l)
    return f.y


@op
def decayed(f, a: tensor[n, h], b: tensor[h, l, m]):
    f.gate[n, h] = sum(where(l <= h, a[n, l], 0), over=l)
    f.y[n, l, m] = sum(f.gate[n, h] * b[h, l, m], over=h)
    return f.y


@op
def pairs(f, x: tensor[n]):
    f.a[(n, l),] = x[l] * x[n]
    f.g[l] = exp(x[l]) * f.a[0]
    return f.g


@op
def picked(f, z: tensor[n, c], k: index(c)[n]):
    f.y[n] = where(k[n] > 0, z[n, k[n]], 0)
    return f.y
"""


def test_parts_of_a_merged_axis_are_written_to_their_places(package: Package) -> None:
    made = package(specs=JOINED)
    a, b, dy = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, saved = made.interleaved_forward(a, b)
        da, db = made.interleaved_backward(dy, *saved)
    assert torch.equal(y, torch.stack([a, b], -1).flatten(1))
    assert torch.equal(da, dy[:, ::2])
    assert torch.equal(db, dy[:, 1::2])


def test_a_concatenation_is_read_when_all_of_it_is_written(package: Package) -> None:
    """Its last part is one place and needs no loop: the loop over the others may not read what it is yet to write."""
    made = package(specs=JOINED)
    a, dy = torch.randn(3, 40), torch.randn(3, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, saved = made.followed_forward(a)
        da = made.followed_backward(dy, *saved)
    after = torch.nn.functional.pad(a, (0, 1))[:, 1:]
    torch.testing.assert_close(y, after.exp() - a)
    torch.testing.assert_close(da, torch.nn.functional.pad(dy * after.exp(), (1, 0))[:, :-1] - dy)


def test_a_running_sum_has_a_kernel(package: Package) -> None:
    made = package(specs=JOINED)
    a, b, c = torch.randn(3, 4), torch.randn(4, 4, 5), torch.randn(3, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, _ = made.decayed_forward(a, b)
        z, _ = made.to_go_forward(c)
    torch.testing.assert_close(y, torch.einsum("nh,hlm->nlm", a.cumsum(1), b))
    torch.testing.assert_close(z, c.flip(1).cumsum(1).flip(1))


def test_an_axis_that_is_a_merge_in_two_ways_has_a_length(package: Package) -> None:
    """The gradient of `a` is read at `(n, l)` and at `(n', n)`."""
    made = package(specs=JOINED)
    x, dg = torch.randn(5, requires_grad=True), torch.randn(5)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        _, saved = made.pairs_forward(x)
        dx = made.pairs_backward(dg, *saved)
    torch.testing.assert_close(dx, torch.autograd.grad(x.exp() * x[0] ** 2, x, dg)[0])


def test_an_index_that_is_computed_is_checked(package: Package) -> None:
    made = package(specs=JOINED)
    z, k, dy = torch.randn(4, 5), torch.tensor([-2, 3, 4, 1]), torch.randn(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, saved = made.picked_forward(z, k)
        dz = made.picked_backward(dy, *saved)
    assert out.tolist() == [0, z[1, 3], z[2, 4], z[3, 1]]
    expected = torch.zeros(4, 5).index_put_((torch.tensor([1, 2, 3]), torch.tensor([3, 4, 1])), dy[1:])
    assert torch.equal(dz, expected)
    with pytest.raises(IndexError, match="picked"):
        made.picked_forward(z, torch.tensor([0, 3, 9, 1]))


@pytest.mark.parametrize("rows", [(0,), (6, 0, 7)], ids=str)
def test_compiled_functions_take_no_rows(native: ModuleType, rows: tuple[int, ...]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(native.layernorm, fullgraph=True, backend="aot_eager")
    for count in rows:
        given = [torch.randn(s, requires_grad=True) for s in ((count, 5), (5,), (5,))]
        y = compiled(*given)
        assert y.shape == (count, 5)
        got = torch.autograd.grad(y.sum(), given)
        want = torch.autograd.grad(native.layernorm(*given).sum(), given)
        torch.testing.assert_close(got, want)


def test_compiled_functions_say_which_index_is_out_of_range(native: ModuleType) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(native.softmax_cross_entropy, fullgraph=True, backend="aot_eager")
    z = torch.randn(3, 4, requires_grad=True)
    torch.testing.assert_close(compiled(z, torch.tensor([0, 1, 3])), F.cross_entropy(z, torch.tensor([0, 1, 3])))
    message = "softmax_cross_entropy, equation loss: y holds 4, but axis c has length 4; give values 0 to 3"
    with pytest.raises(IndexError, match=message):
        compiled(z, torch.tensor([0, 1, 4]))


ORDERS = """
from derive import *

n, c, k = axes("n c k")

@op
def late(f, a: constant[n], m: length(k), z: tensor[n, c], scale: scalar = 2.0):
    f.y[n, c, k] = scale * exp(z[n, c]) * a[n]
    return f.y
"""


def test_the_operator_of_an_op_whose_kernel_takes_its_arguments_in_another_order(package: Package) -> None:
    made = package(specs=ORDERS)
    a, z = torch.randn(3), torch.randn(3, 4, requires_grad=True)
    compiled = torch.compile(made.late, fullgraph=True, backend="aot_eager")
    for given in ((a, 2, z), (a[:0], 2, z[:0]), (a, 0, z)):
        y = compiled(*given)
        torch.testing.assert_close(y, made.late(*given))
        assert y.shape == (len(given[0]), 4, given[1])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cotangent", ["followed", "constant"])
def test_a_gradient_penalty_compiled_with_kernels_is_an_error(native: ModuleType, backend: str, cotangent: str) -> None:
    """Where the gradient is taken in what is compiled, or outside of it, as is where the operator itself is called."""
    given = [torch.randn(s, requires_grad=True) for s in ((6, 5), (5,), (5,))]
    operator = native.layernorm_module.FORWARD.op

    def score(norm: Callable[..., torch.Tensor], x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        y = norm(x.sin(), *others)
        return (y**3 if cotangent == "followed" else y * torch.arange(5.0)).sum()

    def penalty(norm: Callable[..., torch.Tensor], x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(score(norm, x, *others), x, create_graph=True)[0].square().sum()

    for norm in (native.layernorm, lambda *a: operator(*a, 1e-5)[0]):
        torch.compiler.reset()
        with torch._dynamo.config.patch(trace_autograd_ops=True):
            inside = torch.compile(penalty, backend=backend, fullgraph=True)
            with pytest.raises(Exception, match="layernorm is differentiable once"):
                inside(norm, *given).backward()
        compiled = torch.compile(score, backend=backend, fullgraph=True)
        with pytest.raises(RuntimeError, match="differentiable once" if backend == "eager" else "double backward"):
            dx = torch.autograd.grad(compiled(norm, *given), given[0], create_graph=True)[0]
            dx.square().sum().backward()
        assert all(t.grad is None for t in given)
