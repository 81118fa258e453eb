"""A whole training step in one kernel, against the same step taken in parts."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor

from derive.backends.cpu.step import descent
from derive.catalogue import find
from derive.pipeline import derive_op
from tests.conftest import Package
from tests.native.running import only_kernels

PARAMETERS = 7


@pytest.fixture(scope="module")
def native(package: Package) -> ModuleType:
    return package("names_step", "mse", "softmax_cross_entropy", step=True)


def _arguments(dtype: torch.dtype, batch: int) -> list[Tensor]:
    torch.manual_seed(3)
    shapes = ((27, 4), (12, 9), (9,), (9,), (9,), (9, 27), (27,))
    parameters = [torch.randn(s, dtype=dtype) for s in shapes]
    return [*parameters, torch.randint(0, 27, (batch, 3)), torch.randint(0, 27, (batch,))]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("batch", (8, 300))  # of the second, columns are long: threads share the rows
def test_a_step_is_the_forward_the_backward_and_the_update(native: ModuleType, batch: int) -> None:
    """Three steps: every weight is read before it is updated, in float64 to rounding."""
    args = _arguments(torch.float64, batch)
    expected = [a.clone() for a in args]
    for _ in range(3):
        loss = native.names_step_sgd(*args, lr=0.1)
        want, saved = native.names_step_forward(*expected)
        for parameter, gradient in zip(
            expected, native.names_step_backward(torch.ones_like(want), *saved), strict=False
        ):
            parameter -= 0.1 * gradient
        torch.testing.assert_close(loss, want, rtol=1e-12, atol=0)
        for found, wanted in zip(args, expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-13)


def test_long_columns_that_end_in_an_update_are_shared_out_by_rows(native: ModuleType) -> None:
    with open(f"{native.__path__[0]}/names_step.c") as file:
        step = file.read().partition("int names_step_sgd(")[2]
    shared = step.partition("// dbngain[h] =")[0].rpartition("if (n_n >= TALL) {")[2]
    assert "} else {" not in shared, "the form for long columns"
    assert "b1[i_h] += -(R(lr) * db1_columns[i_h]);" in step


def test_the_torch_form_takes_the_same_step(native: ModuleType) -> None:
    """Parameters that are not contiguous cannot be written to by a kernel."""
    x, t = torch.randn(4, 6, dtype=torch.float64).mT, torch.randn(6, 4, dtype=torch.float64)
    plain, target = x.clone(memory_format=torch.contiguous_format), t.clone()
    assert torch.equal(native.mse_sgd(x, t, 0.5), native.mse_sgd(plain, target, 0.5))
    torch.testing.assert_close(x, plain)
    torch.testing.assert_close(t, target)


@pytest.mark.usefixtures("kernels")
def test_autograd_notices_that_parameters_changed(native: ModuleType) -> None:
    x, t = torch.randn(3, requires_grad=True), torch.randn(3)
    y = x**2
    native.mse_sgd(x, t, 0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_has_no_single_number_has_no_step(native: ModuleType, package: Package) -> None:
    assert descent(derive_op(find("softmax"))) is None
    assert hasattr(native, "softmax_cross_entropy_sgd")
    assert not hasattr(package("mse"), "mse_sgd"), "only where it was asked for"


@pytest.mark.usefixtures("kernels")
def test_an_op_with_a_rate_of_its_own_has_a_step_too(package: Package) -> None:
    """Its inputs have the names that the torch form would give to its own variables."""
    module = package(
        specs="""from derive import *
n = axes("n")


@op
def own(f, lr: tensor[n], gradients: tensor[n]):
    f.loss[()] = sum(lr[n] ** 2 * gradients[n], over=n)
    return f.loss
""",
        step=True,
    )
    start = torch.arange(6, dtype=torch.float64).reshape(3, 2)
    for lr in (start[:, 0].clone(), start[:, 0]):  # in one kernel, and in parts
        weights = torch.tensor([3.0, 4.0, 5.0], dtype=torch.float64)
        assert module.own_sgd(lr, weights, lr_=0.5) == 96
        torch.testing.assert_close(lr, torch.tensor([0.0, -6.0, -16.0], dtype=torch.float64))
        torch.testing.assert_close(weights, torch.tensor([3.0, 2.0, -3.0], dtype=torch.float64))


LAYERS = """
from derive import *

n, i, h, o = axes("n i h o")


@op
def layers(f, w: tensor[i, h], v: tensor[h, o], b: tensor[o], x: constant[n, i], t: constant[n, o]):
    f.z[n, h] = sum(x[n, i] * w[i, h], over=i)
    f.a[n, h] = tanh(f.z[n, h] - mean(f.z[n, h], over=n))
    f.y[n, o] = sum(f.a[n, h] * v[h, o], over=h) + b[o]
    f.loss[()] = mean((f.y[n, o] - t[n, o])**2, over=(n, o))
    return f.loss


@op
def tied(f, w: tensor[i, i], x: constant[n, i]):
    f.a[n, i] = tanh(sum(x[n, h] * w[h, i], over=h))
    f.loss[()] = mean(sum(f.a[n, h] * w[i, h], over=h)**2, over=(n, i))
    return f.loss
"""


def test_a_product_is_added_to_the_weights(package: Package) -> None:
    """Whatever else reads them, reads them as they were; a gradient of two products is no product.

    In a chain of products they are read tile by tile, and their gradients summed over the tiles first.
    """
    made = package(specs=LAYERS, step=True)
    torch.manual_seed(0)
    given = {
        "layers": [torch.randn(s, dtype=torch.float64) for s in ((5, 40), (40, 3), (3,), (7, 5), (7, 3))],
        "tied": [torch.randn(s, dtype=torch.float64) for s in ((6, 6), (4, 6))],
    }
    for name, args in given.items():
        expected = [a.clone() for a in args]
        with only_kernels(sys.modules[f"{made.__name__}._native"]):
            getattr(made, f"{name}_sgd")(*args, lr=0.3)
        loss, saved = getattr(made, f"{name}_forward")(*expected)
        found = getattr(made, f"{name}_backward")(torch.ones_like(loss), *saved)
        for parameter, gradient in zip(expected, found if isinstance(found, tuple) else (found,), strict=False):
            parameter -= 0.3 * gradient
        torch.testing.assert_close(args, expected, rtol=1e-12, atol=1e-13)
    with open(f"{made.__path__[0]}/layers.c") as file:
        step = file.read().partition("int layers_sgd(")[2]
    assert "n_h, w, PLAIN, n_h, n_i, n_h, n_n, R(-lr), true, threads);" in step
    assert "dw" not in step.replace("// dw[i, h] =", "").replace("-lr * dw[i, h]", "")


BILINEAR = """
from derive import *

n, m = axes("n m")


@op
def bilinear(f, k: tensor[n, m], b: tensor[n], r: tensor[m]):
    f.y[()] = sum(b[n] * k[n, m] * r[m], over=(n, m))
    return f.y


@op
def form(f, r: tensor[n], k: tensor[n, m]):
    f.y[()] = sum(r[n] * k[n, m] * r[m], over=(n, m))
    return f.y
"""


@pytest.mark.usefixtures("kernels")
def test_a_gradient_of_inputs_alone_is_of_inputs_as_they_were(package: Package) -> None:
    """`dk = b * r` is made where `k` is updated, and neither has changed by then."""
    made = package(specs=BILINEAR, step=True)
    for name, shapes in (("bilinear", ((5, 3), (5,), (3,))), ("form", ((4,), (4, 4)))):
        args = [torch.randn(s, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) for s in shapes]
        leaves = [a.clone().requires_grad_() for a in args]
        getattr(made, name)(*leaves).backward()
        with only_kernels(sys.modules[f"{made.__name__}._native"]):
            getattr(made, f"{name}_sgd")(*args, 0.1)
        for found, leaf in zip(args, leaves, strict=True):
            torch.testing.assert_close(found, (leaf - 0.1 * leaf.grad).detach(), rtol=1e-12, atol=1e-13)
