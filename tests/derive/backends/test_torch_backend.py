"""Generated PyTorch against loops: every kind of read and of scatter, forward and backward."""

import re

import pytest
import torch

from derive.catalogue import find
from derive.emit import render
from derive.notation import axes, concat, constant, exp, index, mean, op, relu, scalar, size, sum, tanh, tensor
from derive.output.live import build
from derive.pipeline import derivation_of
from tests.derive import specs
from tests.derive.against_loops import code_of, compare
from tests.derive.live import module
from tests.derive.specs import Spec, each_spec

n, m, d, k, t, e, c, i, j, o, u, v = axes("n m d k t e c i j o u v")


@each_spec()
def test_against_loops(spec: Spec) -> None:
    pack = (spec.sizes["..."],) if "..." in spec.sizes else ()
    compare(spec.op, dict(spec.sizes), pack)


@each_spec()
def test_against_loops_on_transposed_operands(spec: Spec) -> None:
    pack = (spec.sizes["..."],) if "..." in spec.sizes else ()
    compare(spec.op, dict(spec.sizes), pack, seed=1, strides="transposed")


# --- leading axes -------------------------------------------------------------------------------------------


@op
def pack_affine(f, x: tensor[..., d], w: tensor[d, e], b: tensor[e]):
    f.y[..., e] = sum(x[..., d] * w[d, e], over=d) + b[e]
    return f.y


@op
def pack_standardised(f, x: tensor[..., d], g: tensor[d]):
    f.mu[...] = mean(x[..., d], over=d)
    f.var[...] = mean((x[..., d] - f.mu[...]) ** 2, over=d)
    f.y[..., d] = g[d] * (x[..., d] - f.mu[...]) / (f.var[...] + 1) ** 2
    return f.y


@op
def pack_weights(f, s: tensor[..., i, j], u: tensor[..., j, e]):
    f.p[..., i, j] = exp(s[..., i, j]) / sum(exp(s[..., i, j]), over=j)
    f.o[..., i, e] = sum(f.p[..., i, j] * u[..., j, e], over=j)
    return f.o


@op
def pack_gather(f, table: tensor[v, e], ix: index(v)[...]):
    f.y[..., e] = table[ix[...], e] ** 2
    return f.y


@op
def pack_batched_gather(f, x: tensor[..., c], y: index(c)[...]):
    f.p[...] = x[..., y[...]] ** 2
    return f.p


@op
def pack_pointwise(f, x: tensor[...], y: tensor[...]):
    f.z[...] = x[...] * exp(y[...])
    return f.z


@op
def pack_mean(f, x: tensor[...], scale: scalar = 3):
    f.z[()] = scale * sum(x[...] ** 2, over=...) / size(...)
    return f.z


@op
def pack_window(f, x: tensor[..., t], w: tensor[k]):
    f.y[..., i] = sum(x[..., i + k] * w[k], over=k)
    return f.y


@op
def pack_merge(f, x: tensor[..., t, e]):
    f.y[..., (t, e)] = x[..., t, e] ** 2
    return f.y


@op
def pack_diagonal(f, s: tensor[..., n, m]):
    f.y[..., n] = s[..., n, n] ** 2
    return f.y


@op
def pack_permuted(f, x: tensor[..., n, m]):
    f.y[..., m, n] = x[..., n, m] ** 2
    return f.y


@op
def pack_blocks(f, x: tensor[..., n, d], w: tensor[n, d, e]):
    f.y[..., n, e] = sum(x[..., n, d] * w[n, d, e], over=d)
    return f.y


@op
def pack_blocks_added(f, x: tensor[..., n, d], w: tensor[n, d, e], z: tensor[..., n, e]):
    f.y[..., n, e] = tanh(sum(x[..., n, d] * w[n, d, e], over=d) + z[..., n, e])
    return f.y


@op
def pack_exchanged(f, x: tensor[..., i, j, e]):
    f.y[..., j, i, e] = x[..., i, j, e] ** 2
    return f.y


PACKS = [
    (pack_exchanged, {"i": 2, "j": 3, "e": 5}),
    (pack_blocks, {"n": 2, "d": 3, "e": 5}),
    (pack_blocks, {"n": 3, "d": 2, "e": 2}),
    (pack_blocks_added, {"n": 3, "d": 2, "e": 5}),
    (pack_affine, {"d": 3, "e": 5}),
    (pack_standardised, {"d": 5}),
    (pack_weights, {"i": 3, "j": 5, "e": 2}),
    (pack_gather, {"v": 3, "e": 5}),
    (pack_batched_gather, {"c": 5}),
    (pack_pointwise, {}),
    (pack_mean, {}),
    (pack_window, {"t": 5, "k": 2}),
    (pack_merge, {"t": 3, "e": 5}),
    (pack_diagonal, {"n": 3, "m": 3}),
    (pack_permuted, {"n": 3, "m": 5}),
]


@pytest.mark.parametrize("pack", [(), (3,), (2, 3), (1, 1)], ids=["none", "one", "two", "ones"])
@pytest.mark.parametrize(("made", "sizes"), PACKS, ids=lambda value: getattr(value, "__name__", ""))
def test_any_number_of_leading_axes(made: object, sizes: dict[str, int], pack: tuple[int, ...]) -> None:
    compare(made.op, sizes, pack)  # type: ignore[attr-defined]


@op
def window_energy(f, x: tensor[n, t], w: constant[k]):
    f.e[n, u] = exp(sum((w[k] * x[n, 2 * u + k]) ** 2, over=k))
    return f.e


@op
def window_energy_2d(f, x: tensor[n, t, d], w: constant[k, e]):
    f.e[n, u, i] = exp(-sum(w[k, e] * x[n, u + k, 2 * i + e] ** 3, over=(k, e)))
    return f.e


@pytest.mark.parametrize("made", [window_energy, window_energy_2d])
def test_what_every_turn_of_a_loop_reads_is_not_written_over(made: object) -> None:
    compare(made.op, {"n": 2, "t": 9, "d": 7, "k": 3, "e": 2})  # type: ignore[attr-defined]


SIZES_ONE = [
    "matrix_product",
    "standardise",
    "normalised_weights",
    "weighted_average",
    "gather_batched",
    "merged_then_read",
]


@each_spec(*SIZES_ONE)
def test_axes_of_length_one(spec: Spec) -> None:
    compare(spec.op, dict.fromkeys(spec.sizes, 1) | ({"n": 3} if spec.name == "standardise" else {}))


@each_spec("matrix_product", "broadcast_row", "gather_rows", "merged_then_read", "reduce_sum")
def test_an_empty_batch(spec: Spec) -> None:
    batch = "k" if spec.name == "gather_rows" else "n"
    compare(spec.op, {**spec.sizes, batch: 0})


def test_an_empty_feature_axis() -> None:
    """`...` with an axis of length 0 behind it: nothing to infer a -1 from."""
    compare(pack_affine.op, {"d": 0, "e": 2}, (3,))


@op
def small_first(f, a: tensor[n], b: tensor[n], x: tensor[n, m, d]):
    f.y[n, m, d] = a[n] / b[n] * tanh(x[n, m, d])
    return f.y


# --- how it is written --------------------------------------------------------------------------------------

# spec: what stands in its module (a regular expression), and what that is
WRITTEN = [
    ("plain", specs.broadcast_row, r"y = b\.square\(\) \* x\n|y = b\*\*2 \* x\n"),
    ("permuted", specs.permuted, r"x\.T|\(x\*\*2\)\.T"),
    ("merged", specs.merged, r"\.flatten\(1, 2\)"),
    ("merged, taken apart", specs.merged, r"dy\.unflatten\(1, \(t, e\)\)"),
    ("parts", specs.parts, r"x\.unflatten\(1, \(d, e\)\)"),
    ("parts, put together", specs.parts, r"\.flatten\("),
    ("parts that lie apart", specs.patches, r"\.permute\(0, 3, 1, 4, 2, 5\)\.flatten\(2, 3\)\.flatten\(3, 4\)\n"),
    ("diagonal", specs.diagonal, r"s\.diagonal\(\)"),
    ("diagonal, scattered", specs.diagonal, r"\.diagonal\(\)\.add_\("),
    ("gather of rows", specs.gather_rows, r"table\[ix\]|functional\.embedding\(ix, table\)"),
    ("gather of rows, scattered", specs.gather_rows, r"\.index_add_\(0, ix, "),
    ("gather of rows by two axes, scattered", specs.gather_two_axes, r"\.index_add_\(0, ix\.reshape\(-1\), "),
    ("gather of columns", specs.gather_second, r"table\.index_select\(1, ix\)"),
    ("gather of columns, scattered", specs.gather_second, r"\.index_add_\(1, ix, "),
    ("batched gather", specs.gather_batched, r"x\.gather\(1, y\.unsqueeze\(1\)\)\.squeeze\(1\)"),
    ("batched gather, scattered", specs.gather_batched, r"\.scatter_add_\(1, y\.unsqueeze\(1\), "),
    ("stride alone", specs.stride_alone, r"x\[::3\]"),
    ("matrix product", specs.matrix_product, r"y = x @ w"),
    ("matrix product, left", specs.matrix_product, r"dx = dy @ w\.T"),
    ("matrix product, right", specs.matrix_product, r"dw = x\.T @ dy"),
    ("leading axes", pack_affine, r"functional\.linear\(x, w\.T, b\)"),
    ("leading axes, two others exchanged", pack_exchanged, r"\.transpose\(-3, -2\)"),
    ("small tensors", small_first, r"\(a / b\)\[:, None, None\]"),
    ("leading axes, flattened", pack_affine, r'torch\.einsum\("\.\.\.d, \.\.\.e -> de", x, dy\)'),
]  # fmt: skip


@pytest.mark.parametrize(("made", "pattern"), [pytest.param(*row[1:], id=row[0]) for row in WRITTEN])
def test_written_as_a_person_would(made: object, pattern: str) -> None:
    source = code_of(made.op)  # type: ignore[attr-defined]
    assert re.search(pattern, source), source


@op
def losses(f, r: tensor[n, d], w: tensor[d]):
    f.y[n] = -sum(r[n, d] * w[d], over=d)
    return f.y


def test_a_minus_sign_stands_before_the_product() -> None:
    """Before the matrix it would be a pass over all of it."""
    compare(losses.op, {"n": 4, "d": 3})
    assert "y = -(r @ w)" in render(derivation_of(losses.op))


@op
def splines(f, x: tensor[n, i], w: tensor[o, i, k]):
    f.y[n, o] = sum(w[o, i, k] * relu(1 - abs(k - x[n, i])), over=(i, k))
    return f.y


@pytest.mark.parametrize(
    "sizes", [{"n": 5, "i": 3, "k": 4, "o": 2}, {"n": 0, "i": 3, "k": 4, "o": 2}, dict.fromkeys("niko", 1)]
)
def test_what_is_computed_takes_the_order_of_what_it_is_multiplied_with(sizes: dict[str, int]) -> None:
    compare(splines.op, sizes)
    assert "einsum" not in render(derivation_of(splines.op))


def test_no_einsum_where_a_matrix_product_serves() -> None:
    """Summing over `...` does need einsum: flattening would not know the rows of a feature axis of length 0."""
    for made in (specs.matrix_product, pack_weights, specs.weighted_average, specs.merged_then_read):
        assert "einsum" not in code_of(made.op), made.__name__


@op
def numbers_between(f, w: tensor[()], x: tensor[n]):
    f.a[t] = concat(w[()], 1, x[0], 2 * w[()], 3, along=t)
    return f.a


def test_a_view_that_is_written_often_has_a_name() -> None:
    code = code_of(find("rotary_interleaved"))
    backward = code[code.index("_backward") :]
    assert "dy_apart = dy.unflatten(-1, (h, 2))\n" in backward and backward.count("dy.unflatten") == 1, backward


def test_numbers_one_after_another_are_tensors() -> None:
    live = build(numbers_between.op)
    a, saved = live.forward(torch.tensor(0.5, dtype=torch.float64), torch.tensor([4.0, 5.0], dtype=torch.float64))
    assert a.tolist() == [0.5, 1.0, 4.0, 1.0, 3.0]
    dw, dx = live.backward(torch.tensor([0.3, 7.0, 1.1, -0.2, 7.0], dtype=torch.float64), *saved)
    assert dw.item() == pytest.approx(0.3 - 0.4) and dx.tolist() == [1.1, 0.0]


def test_a_number_is_added_with_single_elements_and_not_with_rows() -> None:
    """PyTorch adds a multiple of rows one row at a time."""

    @op
    def differences(f, x: tensor[n], z: tensor[n, d], ix: index(n)[k], iy: index(n)[k]):
        f.y[k] = x[ix[k]] ** 2 - x[iy[k]] ** 2
        f.w[k, d] = z[ix[k], d] - z[iy[k], d]
        return f.y, f.w

    code = render(derivation_of(differences.op))
    assert code.count("index_add_(0, iy, dy * x.index_select(0, iy), alpha=-2)") == 1
    assert code.count("index_add_(0, iy, -dw)") == 1
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    ix, iy = torch.tensor([0, 2, 2, 4]), torch.tensor([1, 2, 0, 4])
    z = torch.zeros(5, 3, dtype=torch.float64)
    y, _ = module(differences.op).differences(x, z, ix, iy)
    dy = torch.randn(4, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(y, x, dy), torch.autograd.grad(x[ix] ** 2 - x[iy] ** 2, x, dy), rtol=1e-12, atol=1e-12
    )
