"""What people call things that C or PyTorch's operators call otherwise, or could not."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

SPECS = """
from derive import *

n, breite_ä = axes("n breite_ä")
λ_count = axes("λ_count")


@op
def Ωmega(f, β: tensor[n, breite_ä], λ: tensor[breite_ä], ñ: scalar = 2.0, anzahl_λ: length(λ_count) = 3):
    f.α[n] = sum(β[n, breite_ä] * λ[breite_ä], over=breite_ä) * ñ * size(λ_count)
    return f.α


@op
def lossλ(f, w: tensor[n], λ: tensor[n], λ_here: constant[n]):
    f.ε[()] = sum(exp(w[n] - λ[n]) * λ_here[n], over=n)
    return f.ε
"""

@pytest.mark.usefixtures("kernels")
def test_letters_that_an_operator_has_not(native: ModuleType) -> None:
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
