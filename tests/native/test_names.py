"""What people call things that C or PyTorch's operators call otherwise, or could not."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

SPECS = """
from derive import *

n, breite_ä, EOF, INT64_MAX = axes("n breite_ä EOF INT64_MAX")
λ_count = axes("λ_count")


@op
def Ωmega(f, β: tensor[n, breite_ä], λ: tensor[breite_ä], ñ: scalar = 2.0, anzahl_λ: length(λ_count) = 3):
    f.α[n] = sum(β[n, breite_ä] * λ[breite_ä], over=breite_ä) * ñ * size(λ_count)
    return f.α


@op
def lossλ(f, w: tensor[n], λ: tensor[n], λ_here: constant[n]):
    f.ε[()] = sum(exp(w[n] - λ[n]) * λ_here[n], over=n)
    return f.ε


@op
def macros(f, MAP_ANONYMOUS: tensor[EOF, INT64_MAX], M_PI: scalar = 3.0, HUGE_VAL: scalar = 2.0, SIZE_MAX: scalar = 1.5,
           RAND_MAX: scalar = 0.5, FP_NAN: scalar = 1.0, BUFSIZ: scalar = 1.0, stdin: scalar = 1.0, I: scalar = 1.0):
    f.M_E[EOF] = sum(MAP_ANONYMOUS[EOF, INT64_MAX] * M_PI * HUGE_VAL * SIZE_MAX * RAND_MAX * FP_NAN, over=INT64_MAX)
    f.M_LN2[EOF] = exp(f.M_E[EOF] * BUFSIZ * stdin * I) + f.M_E[EOF]
    return f.M_LN2
"""

@pytest.mark.usefixtures("kernels")
def test_letters_that_an_operator_has_not(native: ModuleType) -> None:
    torch.manual_seed(0)
    β, λ = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    got, want = native.Ωmega(β, λ), 6 * β @ λ
    torch.testing.assert_close(got, want)
    gradients = (torch.autograd.grad(y.square().sum(), (β, λ)) for y in (got, want))
    torch.testing.assert_close(*gradients)


def test_operators_of_such_names_compile(native: ModuleType) -> None:
    β, λ = torch.randn(4, 3), torch.randn(3)
    compiled = torch.compile(native.Ωmega, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(β, λ), 6 * β @ λ)


@pytest.mark.usefixtures("kernels")
def test_a_name_and_another_that_our_own_variables_have(native: ModuleType) -> None:
    w, λ, weights = torch.randn(5), torch.randn(5), torch.rand(5)
    loss, gradients = native.lossλ_with_gradients(w, λ, weights)
    each = (w - λ).exp() * weights
    torch.testing.assert_close((loss, *gradients), (each.sum(), each, -each))


@pytest.mark.usefixtures("kernels")
def test_names_that_c_has_for_macros(native: ModuleType) -> None:
    x = torch.randn(4, 3) / 10
    total = x.sum(1) * 3 * 2 * 1.5 * 0.5
    with torch.no_grad():
        y, _ = native.macros_forward(x)
    torch.testing.assert_close(y, total.exp() + total)
