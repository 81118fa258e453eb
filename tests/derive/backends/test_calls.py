"""Gathers, running sums, triangles and products with a vector: each as the call that torch has for it."""

import pytest

from derive.notation import axes, exp, index, log, op, scalar, sum, tensor, where
from tests.derive.against_loops import code_of, compare, named

b, d, e, i, j, n, r, t, u, v, two = axes("b d e i j n r t u v two=2")


@op
def places_of_rows(f, x: tensor[n, d], ix: index(d)[n, r]):
    f.y[n, r] = x[n, ix[n, r]]
    return f.y


@op
def rows_of_each(f, x: tensor[b, t, d], ix: index(t)[b, r]):
    f.y[b, r, d] = x[b, ix[b, r], d]
    return f.y


@op
def places_behind(f, x: tensor[..., d], ix: index(d)[..., r]):
    f.y[..., r] = 2 * x[..., ix[..., r]]
    return f.y


@op
def places_shared(f, x: tensor[..., n, d], ix: index(d)[n, r]):
    f.y[..., n, r] = x[..., n, ix[n, r]]
    return f.y


@op
def places_across(f, x: tensor[d, n], ix: index(d)[n, r]):
    f.y[n, r] = x[ix[n, r], n]
    return f.y


@op
def one_row(f, x: tensor[n, d], ix: index(n)[()]):
    f.y[d] = x[ix[()], d]
    return f.y


@op
def running_sum(f, x: tensor[..., t]):
    f.y[..., t] = sum(where(u <= t, x[..., u], 0), over=u)
    return f.y


@op
def weighted_so_far(f, x: tensor[n, t, d], w: tensor[d]):
    f.y[n, t, d] = sum(where(t >= u, x[n, u, d] * w[d], 0), over=u)
    return f.y


@op
def still_to_come(f, x: tensor[n, t, d]):
    f.y[n, t, d] = sum(where(u > t, exp(x[n, u, d]), 0), over=u)
    return f.y


@op
def leading_products(f, x: tensor[n, t]):
    f.y[n, t] = exp(sum(where(u <= t, log(x[n, u]), 0), over=u))
    return f.y


@op
def so_far_of_others(f, x: tensor[n, u, d], w: tensor[t]):
    f.y[n, t, d] = w[t] * sum(where(u <= t, x[n, u, d], 0), over=u)
    return f.y


@op
def strictly_before(f, x: tensor[n, u], w: tensor[t]):
    f.y[n, t] = w[t] * sum(where(u < t, x[n, u] ** 2, 0), over=u)
    return f.y


@op
def tails_of_a_row(f, x: tensor[n, t]):
    f.tail[n, t] = sum(where(u >= t, exp(x[n, u]), 0), over=u)
    f.y[n] = sum(log(f.tail[n, t]), over=t)
    return f.y


@op
def masked_product(f, x: tensor[n, j], w: tensor[i, j]):
    f.y[n, i] = sum(x[n, j] * where(j <= i, w[i, j], 0), over=j)
    return f.y


@op
def strictly_above(f, x: tensor[..., i, j]):
    f.y[..., i, j] = where(i < j, x[..., i, j] ** 2, 0)
    return f.y


@op
def without_own_share(f, x: tensor[..., d], w: tensor[d]):
    f.s[...] = sum(x[..., d] * w[d], over=d)
    f.y[..., d] = x[..., d] - f.s[...] * w[d]
    return f.y


@op
def twice_a_product(f, x: tensor[n, d], w: tensor[d, e]):
    f.y[n, e] = sum(2 * x[n, d] * where(d < e, 1, 0) * w[d, e], over=d)
    return f.y


@op
def places_of_images(f, x: tensor[b, d, e], ix: index(d)[n], iy: index(e)[n], w: tensor[n]):
    f.y[b, n] = w[n] * x[b, ix[n], iy[n]]
    return f.y


@op
def places_twice(f, x: tensor[d, e, j], ix: index(d)[n, r], iy: index(e)[n], iz: index(e)[r]):
    f.y[n, r, j] = x[ix[n, r], iy[n], j] * exp(x[ix[n, r], iz[r], j])
    return f.y


@op
def places_of_each(f, x: tensor[n, d, e], ix: index(d)[n], iy: index(e)[n]):
    f.y[n] = x[n, ix[n], iy[n]] ** 2
    return f.y


@op
def places_and_all(f, x: tensor[d, e], ix: index(d)[n], iy: index(e)[n]):
    f.y[n] = x[ix[n], iy[n]] * sum(x[ix[n], e], over=e)
    return f.y


@op
def by_place_twice(f, x: tensor[n, d]):
    f.y[n] = sum(d * exp(x[n, d] * d), over=d)
    return f.y


@op
def by_fixed_place_twice(f, x: tensor[n, two]):
    f.y[n] = sum(two * exp(x[n, two] * two), over=two)
    return f.y


@op
def to_a_power_below(f, x: tensor[n, d], a: tensor[d]):
    f.y[n, d] = 1 / (1 + x[n, d] ** 2) ** a[d]
    return f.y


@op
def with_square(f, a: tensor[b, d], x: tensor[b, d], k: scalar = 3.0):
    f.y[b, d] = a[b, d] - k * x[b, d] ** 2
    f.z[b, d] = exp(f.y[b, d]) + a[b, d] ** 2
    return f.y, f.z


LENGTHS = [(3, 3), (5, 2), (2, 5), (1, 4), (3, 1), (0, 2), (2, 0)]
@op
def label_of_heads(f, z: tensor[b, i, n, d], ix: index(d)[b, n]):
    """One label for all `i`."""
    f.y[b, i, n] = z[b, i, n, ix[b, n]] ** 2
    return f.y


@op
def label_of_columns(f, z: tensor[..., d, n], ix: index(d)[n]):
    f.y[..., n] = 3 * z[..., ix[n], n]
    return f.y


@op
def mixed_heads(f, s: tensor[b, i, n, r], w: tensor[i, j]):
    f.y[b, j, n, r] = sum(s[b, i, n, r] * w[i, j], over=i)
    return f.y


@op
def mixed_and_scaled(f, s: tensor[b, i, n, r], w: tensor[i, j], g: tensor[i]):
    """A matrix that is computed stands in front of what lies in memory, as one that is given does."""
    f.y[b, j, n, r] = sum(s[b, i, n, r] * (g[i] * w[i, j]), over=i)
    return f.y


@op
def mixed_rows(f, x: tensor[..., i, d], w: tensor[j, i]):
    f.y[..., j, d] = sum(x[..., i, d] * w[j, i], over=i)
    return f.y


@op
def tall_product(f, x: tensor[n, t, i], y: tensor[n, t, j]):
    f.w[j, i] = sum(x[n, t, i] * y[n, t, j], over=(n, t))
    return f.w


@op
def wide_product(f, x: tensor[i, n, t], y: tensor[j, n, t]):
    f.w[i, j] = sum(x[i, n, t] * y[j, n, t], over=(n, t))
    return f.w


@op
def quadratic_form(f, x: tensor[n, i], w: tensor[i, j], z: tensor[n, j]):
    f.y[n] = sum(x[n, i] * w[i, j] * z[n, j], over=(i, j))
    return f.y


CASES = [
    (label_of_heads, {"b": 2, "i": 3, "n": 4, "d": 5}),
    (label_of_heads, {"b": 1, "i": 1, "n": 1, "d": 1}),
    (label_of_heads, {"b": 2, "i": 0, "n": 2, "d": 2}),
    (mixed_heads, {"b": 2, "i": 3, "n": 4, "r": 5, "j": 6}),
    (mixed_and_scaled, {"b": 2, "i": 3, "n": 4, "r": 5, "j": 6}),
    (mixed_heads, {"b": 2, "i": 2, "n": 2, "r": 2, "j": 2}),
    (mixed_and_scaled, {"b": 2, "i": 2, "n": 2, "r": 2, "j": 2}),
    (mixed_heads, {"b": 1, "i": 1, "n": 0, "r": 3, "j": 2}),
    (mixed_and_scaled, {"b": 1, "i": 1, "n": 0, "r": 3, "j": 2}),
    (tall_product, {"n": 2, "t": 3, "i": 4, "j": 5}),
    (tall_product, {"n": 3, "t": 3, "i": 3, "j": 3}),
    (wide_product, {"n": 2, "t": 3, "i": 4, "j": 5}),
    (wide_product, {"n": 3, "t": 3, "i": 3, "j": 3}),
    (quadratic_form, {"n": 2, "i": 3, "j": 4}),
    (quadratic_form, {"n": 3, "i": 3, "j": 3}),
    (by_place_twice, {"n": 2, "d": 4}),
    (by_fixed_place_twice, {"n": 3, "two": 2}),
    (to_a_power_below, {"n": 2, "d": 4}),
    (places_of_images, {"b": 2, "d": 3, "e": 4, "n": 5}),
    (places_of_images, {"b": 1, "d": 1, "e": 1, "n": 1}),
    (places_twice, {"d": 3, "e": 4, "j": 2, "n": 5, "r": 2}),
    (places_of_each, {"n": 3, "d": 2, "e": 4}),
    (places_and_all, {"d": 2, "e": 3, "n": 4}),
    (places_of_rows, {"n": 3, "d": 4, "r": 7}),
    (places_of_rows, {"n": 1, "d": 1, "r": 1}),
    (rows_of_each, {"b": 3, "t": 3, "d": 3, "r": 3}),
    (places_across, {"n": 3, "d": 4, "r": 2}),
    (one_row, {"n": 3, "d": 2}),
    (weighted_so_far, {"n": 2, "t": 4, "d": 3}),
    (still_to_come, {"n": 2, "t": 4, "d": 3}),
    (still_to_come, {"n": 2, "t": 1, "d": 1}),
    *((so_far_of_others, {"n": 2, "u": u, "t": t, "d": 2}) for u, t in LENGTHS),
    *((strictly_before, {"n": 2, "u": u, "t": t}) for u, t in LENGTHS),
    (still_to_come, {"n": 2, "t": 0, "d": 3}),
    (tails_of_a_row, {"n": 2, "t": 4}),
    (masked_product, {"n": 3, "j": 5, "i": 4}),
    (masked_product, {"n": 3, "j": 3, "i": 6}),
    (twice_a_product, {"n": 3, "d": 4, "e": 4}),
]
PACKED = [
    (label_of_columns, {"d": 3, "n": 4}),
    (label_of_columns, {"d": 2, "n": 2}),
    (mixed_rows, {"i": 3, "j": 4, "d": 2}),
    (mixed_rows, {"i": 2, "j": 2, "d": 2}),
    (places_behind, {"d": 4, "r": 3}),
    (places_shared, {"n": 3, "d": 4, "r": 2}),
    (running_sum, {"t": 5}),
    (strictly_above, {"i": 4, "j": 3}),
    (without_own_share, {"d": 4}),
]


@pytest.mark.parametrize("strides", ["plain", "transposed"])
@pytest.mark.parametrize(("made", "sizes"), CASES, ids=named(CASES))
def test_against_loops(made: object, sizes: dict[str, int], strides: str) -> None:
    compare(made.op, sizes, strides=strides)  # type: ignore[attr-defined]


@pytest.mark.parametrize("pack", [(), (3,), (2, 3)])
@pytest.mark.parametrize(("made", "sizes"), PACKED, ids=named(PACKED))
def test_leading_axes(made: object, sizes: dict[str, int], pack: tuple[int, ...]) -> None:
    compare(made.op, sizes, pack)  # type: ignore[attr-defined]


# spec: what its module says and what it does not
WRITTEN = [
    (places_of_rows, "y = x.gather(1, ix)", "arange"),
    (places_of_rows, "dx = dy.new_zeros(n, d).scatter_add_(1, ix, dy)", "index_put_"),
    (rows_of_each, "functional.embedding(torch.arange(b, device=x.device)[:, None] * t + ix, x.flat", "index_put_"),
    (places_behind, "x.gather(-1, ix)", "arange"),
    (places_shared, "x.gather(-1, ix.expand(*leading, n, r))", "arange"),
    (places_of_images, "y = w * at_places(x, 1, ix, iy)", "arange"),
    (places_of_images, "dy.new_zeros(b, d * e).index_add_(1, ix * e + iy, w * dy).view(b, d, e)", "index_put_"),
    (places_twice, "at_places(x, 0, ix, iy[:, None])", "arange"),
    (places_twice, "dx_flat.index_add_(0, (ix * e + i", "index_put_"),
    (by_place_twice, "d_numbers = torch.arange(d, device=x.device, dtype=x.dtype)", "* torch.arange"),
    (by_fixed_place_twice, "numbers_2 = torch.arange(2, device=x.device, dtype=x.dtype)", "* torch.arange"),
    (to_a_power_below, "where_by_bits(a == 0, 0, ", "-a == 0"),
    (one_row, ".index_add_(0, ix.reshape(1), dy.unsqueeze(0))", "index_put_"),
    (label_of_heads, "z.gather(3, ix[:, None, :, None].expand(b, i, n, 1)).squeeze(3)", "arange"),
    (label_of_heads, ".scatter_add_(", "index_put_"),
    (label_of_columns, "z.gather(-2, ix.expand(*leading, 1, n)).squeeze(-2)", "arange"),
    (label_of_columns, ".scatter_add_(", "index_put_"),
    (running_sum, "y = x.cumsum(-1)", "where"),
    (running_sum, "dx = dy.flip(-1).cumsum(-1).flip(-1)", "arange"),
    (weighted_so_far, "y = w * x.cumsum(1)", "where"),
    (still_to_come, "functional.pad(torch.exp(x), (0, 0, 0, 1)).flip(1).cumsum(1).flip(1).narrow(1, 1, t)", "where"),
    (so_far_of_others, "functional.pad(x, (0, 0, 0, t - u)).cumsum(1)", "where"),
    (strictly_before, "functional.pad(x.square(), (1, t - u)).cumsum(1).narrow(1, 0, t)", "where"),
    (leading_products, "dx = (dy * y).flip(1).cumsum(1).flip(1) / x", "where"),
    (tails_of_a_row, "tail.reciprocal().cumsum(1)", "where"),
    (mixed_heads, "y = (w.T @ s.flatten(2)).unflatten(-1, (n, r))", "einsum"),
    (mixed_heads, "dw = sum_of_products(s.flatten(2), dy.flatten(2))", "permute"),
    (mixed_and_scaled, "y = ((g[:, None] * w).T @ s.flatten(2)).unflatten(-1, (n, r))", "permute"),
    (mixed_rows, "y = w @ x", ".mT @"),
    (tall_product, "w = y.flatten(0, 1).T @ x.flatten(0, 1)", "einsum"),
    (wide_product, "w = x.flatten(1) @ y.flatten(1).T", "einsum"),
    (quadratic_form, "y = (x @ w * z).sum(1)", "einsum"),
    (masked_product, "dx = dy @ w.tril()", "where"),
    (strictly_above, "y = x.square().triu_(1)", "where"),
    (without_own_share, "s = x @ w", "(x * w)"),
    (with_square, "y = torch.addcmul(a, x, x, value=-k)", "x.square()"),
    (with_square, "z = torch.exp(y).addcmul_(a, a)", "a.square()"),
    (twice_a_product, "dw = (x.T @ dy).mul_(2).triu_(1)", "where"),
]


@pytest.mark.parametrize(("made", "said", "unsaid"), WRITTEN, ids=named(WRITTEN))
def test_written_as_a_person_would(made: object, said: str, unsaid: str) -> None:
    source = code_of(made.op)  # type: ignore[attr-defined]
    assert said in source and unsaid not in source, source
