"""Pointwise expressions go through the memory of their first factor; single operations are written with operators."""

from derive.ir.equations import Op
from derive.notation import axes, exp, mean, op, rsqrt, scalar, sigmoid, size, sqrt, sum, tanh, tensor
from tests.derive.against_loops import code_of, compare

d, e, n = axes("d e n")


@op
def long_product(f, x: tensor[n, d], w: tensor[d]):
    f.s[n, d] = sigmoid(x[n, d])
    f.y[n, d] = w[d] * f.s[n, d] * x[n, d] * (1 + x[n, d] * (1 - f.s[n, d])) / 3
    return f.y


@op
def short_product(f, x: tensor[n, d], w: tensor[d]):
    f.y[n, d] = w[d] * x[n, d] * (1 - x[n, d])
    return f.y


@op
def read_after_it_was_led(f, x: tensor[n, d]):
    f.u[n, d] = exp(x[n, d])
    f.y[n, d] = f.u[n, d] * (f.u[n, d] + 1) * (x[n, d] + 2) * x[n, d]
    f.z[n, d] = f.u[n, d] * x[n, d]
    return f.y, f.z


@op
def beside_a_product(f, x: tensor[n, e], m: tensor[e, d], g: tensor[d], u: tensor[n, d]):
    f.y[n, d] = sum(x[n, e] * m[e, d], over=e) - g[d] * u[n, d]
    return f.y


@op
def scaled_products(f, x: tensor[n, e], m: tensor[e, d], u: tensor[d], cap: scalar = 3.0):
    f.s[n, d] = sum(x[n, e] * m[e, d], over=e) / sqrt(size(e))
    f.t[n, d] = tanh(sum(tanh(x[n, e]) * m[e, d], over=e) / (cap * sqrt(size(e))))
    f.z[n, d] = sum(x[n, e] ** 2 * m[e, d], over=e) + sum(x[n, e] * m[e, d] ** 2, over=e) + u[d]
    return f.s, f.t, f.z


@op
def minus_a_product(f, x: tensor[n, d], w: tensor[d], v: tensor[d]):
    f.y[n, d] = -exp(x[n, d] + 1) * w[d] / v[d]
    f.z[n, d] = -exp(x[n, d] - 1) * x[n, d] * w[d]
    return f.y, f.z


def test_a_sign_goes_to_a_small_factor() -> None:
    source = code_of(minus_a_product.op)
    assert ".mul_(-w / v)" in source and ".mul_(-w)" in source and "neg_()" not in source, source


def test_the_first_factor_that_is_fresh_takes_the_others() -> None:
    assert "y = (1 - s).mul_(x).add_(1).mul_(s).mul_(x).mul_(w / 3)" in code_of(long_product.op)


def test_small_factors_and_single_operations_keep_their_operators() -> None:
    assert "y = (1 - x).mul_(x).mul_(w)" in code_of(short_product.op)
    assert "z = u * x" in code_of(read_after_it_was_led.op)


def test_values_that_are_read_again_survive() -> None:
    products = (beside_a_product, scaled_products, minus_a_product)
    for spec in (long_product, short_product, read_after_it_was_led, *products):
        compare(spec.op, {"n": 3, "d": 4, "e": 2})
        compare(spec.op, {"n": 3, "d": 4, "e": 2}, strides="turned")


def test_a_product_of_two_is_added_to_one_of_matrices_in_one_pass() -> None:
    assert "y = (x @ m).addcmul_(g, u, value=-1)" in code_of(beside_a_product.op)


def test_what_is_computed_with_a_matrix_product_goes_into_its_memory() -> None:
    source = code_of(scaled_products.op)
    assert "s = (x @ m).div_(math.sqrt(e))" in source, source
    assert "t = (tanh_x @ m).div_(cap * math.sqrt(e)).tanh_()" in source, source
    assert "z = torch.addmm(u, x.square(), m).addmm_(x, m.square())" in source, source


def _named(rstd: str) -> Op:
    """A norm whose statistic has this name, before a projection."""

    @op
    def projected_norm(f, x: tensor[n, e], g: tensor[e], m: tensor[d, e]):
        getattr(f, rstd)[n] = rsqrt(mean(x[n, e] ** 2, over=e) + 1)
        f.z[n, e] = x[n, e] * getattr(f, rstd)[n] * g[e]
        f.y[n, d] = sum(f.z[n, e] * m[d, e], over=e)
        return f.y

    return projected_norm.op


def test_how_long_a_name_is_decides_nothing() -> None:
    for name in ("r", "reciprocal_root_mean_square"):
        assert f".addcmul_({name}.square() * mean_dz_g_x[:, None], x, value=-1)" in code_of(_named(name))
