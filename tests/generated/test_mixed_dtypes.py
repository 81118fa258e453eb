"""Inputs of several dtypes: half-precision weights of a norm whose activations are float32, and the other way round."""

import pytest
import torch

from generated import avg_pool2d, dropout, embedding, layernorm, mse, rmsnorm, split_heads


@pytest.mark.parametrize(("op", "count"), [(layernorm, 2), (rmsnorm, 1)])
@pytest.mark.parametrize(
    ("activations", "weights"), [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)]
)
def test_weights_of_another_dtype(op, count, activations, weights):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=generator).to(activations).requires_grad_()
    parameters = [torch.randn(8, generator=generator).to(weights).requires_grad_() for _ in range(count)]
    y = op(x, *parameters)
    assert y.dtype == activations
    dy = torch.randn(6, 8, generator=generator).to(activations)
    gradients = torch.autograd.grad(y, (x, *parameters), dy)
    assert [g.dtype for g in gradients] == [activations, *[weights] * count]
    wide = [t.detach().double().requires_grad_() for t in (x, *parameters)]
    exact = torch.autograd.grad(op(*wide), wide, dy.double())
    for g, e in zip(gradients, exact, strict=True):
        rounding = 2**-8 if g.dtype == torch.bfloat16 else 1e-6  # once, to the operand's dtype
        torch.testing.assert_close(g.double(), e, rtol=0, atol=rounding * e.abs().max().item())


@pytest.mark.parametrize("first", [torch.float64, torch.float32])
def test_two_real_dtypes_are_computed_with_in_the_wider(first):
    """As autograd does; a matrix product in the backward refused them."""
    second = torch.float32 if first == torch.float64 else torch.float64
    x = torch.randn(6, 8, dtype=first, requires_grad=True)
    gamma, beta = (torch.randn(8, dtype=second, requires_grad=True) for _ in range(2))
    y = layernorm(x, gamma, beta)
    dy = torch.randn(6, 8, dtype=torch.float64)
    plain = torch.nn.functional.layer_norm(x.double(), (8,), gamma.double(), beta.double())
    torch.testing.assert_close(y, plain)
    wanted = torch.autograd.grad(plain, (x, gamma, beta), dy)
    torch.testing.assert_close(torch.autograd.grad(y, (x, gamma, beta), dy), wanted)


def test_complex_tensors_are_refused():
    """Their gradients would not be conjugated."""
    told = "^rmsnorm: x is complex, and complex tensors have no gradient here; give their real and imaginary parts$"
    with pytest.raises(TypeError, match=told):
        rmsnorm(torch.randn(2, 8, dtype=torch.complex64), torch.ones(8))
    with pytest.raises(TypeError, match=told.replace("x is", "gamma is")):
        rmsnorm(torch.randn(2, 8), gamma=torch.ones(8, dtype=torch.complex64))


@pytest.mark.parametrize("eps", [torch.tensor(1e-5), torch.nn.Parameter(torch.tensor(1e-5)), "1e-5", None, [1e-5], 1j])
def test_a_number_is_no_tensor(eps):
    """A parameter in the place of a number would stay as it is, without a word."""
    with pytest.raises(TypeError, match="^rmsnorm: eps is a .*, expected a number"):
        rmsnorm(torch.randn(2, 8), torch.ones(8), eps)
    with pytest.raises(TypeError, match="^rmsnorm: eps is a .*, expected a number"):
        rmsnorm(torch.randn(2, 8), torch.ones(8), eps=eps)


def test_an_array_is_no_tensor():
    with pytest.raises(TypeError, match="rmsnorm: x is a ndarray, expected a tensor"):
        rmsnorm(torch.randn(2, 8).numpy(), torch.ones(8))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool])
def test_what_has_a_gradient_is_of_floating_point(dtype):
    """The mean of windows of integers was cut off, without a word; elsewhere PyTorch's errors named no input."""
    text = f"has dtype {dtype}, expected floating point; give"
    with pytest.raises(TypeError, match=rf"avg_pool2d: x {text} x.float\(\)"):
        avg_pool2d(torch.ones(1, 1, 4, 4).to(dtype), 2, 2)
    with pytest.raises(TypeError, match=rf"layernorm: gamma {text} gamma.float\(\)"):
        layernorm(torch.randn(2, 8), torch.ones(8).to(dtype), torch.ones(8))
    with pytest.raises(TypeError, match=rf"mse: t {text} t.float\(\)"):
        mse(torch.randn(4), torch.ones(4).to(dtype))
    with pytest.raises(TypeError, match=rf"embedding: C {text} C.float\(\)"):  # the table and the index changed over
        embedding(torch.zeros(4, dtype=dtype), torch.randn(5, 3))


def test_what_has_no_gradient_may_be_of_integers():
    x, mask = torch.randn(4, 3, requires_grad=True), torch.rand(4, 3) > 0.5
    torch.testing.assert_close(dropout(x, mask), dropout(x, mask.float()))


@pytest.mark.parametrize("heads", [2.0, "2", None, 2j])
def test_a_length_is_a_whole_number(heads):
    with pytest.raises(TypeError, match="^split_heads: heads is a .*, expected a whole number; give an int"):
        split_heads(torch.randn(2, 3, 8), heads)
