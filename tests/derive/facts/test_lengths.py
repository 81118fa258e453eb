"""Axes of fixed length, what reads ask of lengths, places: against autograd in float64, and errors by name."""

# ruff: noqa: F403, F405, E501

import pytest
import torch
from sympy import floor
from torch import Tensor

from derive import *
from derive.emit import render
from derive.errors import DeriveError
from derive.facts.lengths.length_code import size_code
from derive.ir.terms.axes import Axis, Size
from derive.output.live import build
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived, module

b, n, m, d, t, u, e, h, i, j, k, c, v = axes("b n m d t u e h i j k c v")
p = axes("p=2")


@op
def gated(f, x: tensor[..., d]):
    f.z[..., p, h] = x[..., (p, h)]
    f.y[..., h] = f.z[..., 0, h] * sigmoid(f.z[..., 1, h])
    return f.y


@op
def gated_slices(f, x: tensor[..., d], half: length(h)):
    f.y[..., h] = x[..., h] * sigmoid(x[..., h + size(h)])
    return f.y


@op
def times(f, a: tensor[..., p], b: tensor[..., p]):
    f.re[...] = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
    f.im[...] = a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]
    return f.re, f.im


@op
def class_token(f, x: tensor[n, t, e], cls: tensor[e]):
    f.y[n, u, e] = concat(cls[e], x[n, t, e] ** 2, along=u)
    return f.y


@op
def interleaved(f, a: tensor[..., h], b: tensor[..., h]):
    f.y[..., (h, p)] = concat(2 * a[..., h], a[..., h] * b[..., h], along=p)
    return f.y


@op
def merged_pieces(f, x: tensor[n, h, i], z: tensor[n, h, j]):
    f.y[n, (h, k)] = concat(x[n, h, i] ** 2, z[n, h, j], along=k)
    return f.y


@op
def tails(f, x: tensor[n, j], w: tensor[n, k]):
    f.tail[n, i] = sum(where(j >= i, x[n, j] ** 2, 0), over=j)
    f.y[n] = sum(w[n, k] * f.tail[n, k], over=k)
    return f.y


@op
def pieces_again(f, x: tensor[n, i], z: tensor[n, j], w: tensor[n]):
    f.a[n, k] = concat(x[n, i], z[n, j], along=k)
    f.y[n, i] = f.a[n, i] * w[n]
    f.b[n, j] = f.a[n, j + size(i)] ** 2
    return f.y, f.b


@op
def last_less_first(f, x: tensor[n, d]):
    f.y[n] = x[n, -1] * x[n, 0]
    return f.y


@op
def reversed_places(f, x: tensor[n]):
    f.y[m] = x[size(n) - 1 - m] * (m + 1)
    return f.y


@op
def differences(f, x: tensor[n, t]):
    f.y[n, u] = (x[n, u + 1] - x[n, u]) ** 2
    return f.y


@op
def halves_by_call(f, x: tensor[n, d]):
    f.z = gated(x)
    f.y[n] = sum(f.z[n, h], over=h) + sum(3, over=d)
    return f.y


@op
def padded_rows(f, C: tensor[v, e], ix: index(v)[n, t]):
    f.y[n, t, e] = where(ix[n, t] >= 0, C[ix[n, t], e], 0)
    return f.y


@op
def masked_pick(f, x: tensor[n, c], y: index(c)[n], w: constant[n]):
    f.o[n] = where(w[n] > 0, tanh(x[n, y[n]]), x[n, 0])
    return f.o


@op
def pixel_shuffle(f, x: tensor[n, d, h, i]):
    a2, b2 = axes("a2=2 b2=2")
    f.y[n, c, (h, a2), (i, b2)] = x[n, (c, a2, b2), h, i]
    return f.y


@op
def pooled(f, x: tensor[n, i, j]):
    a2, b2 = axes("a2=2 b2=2")
    f.y[n, h, k] = amax(x[n, (h, a2), (k, b2)], over=(a2, b2))
    return f.y


@op
def staggered(f, x: tensor[n, t]):
    """Places and midpoints in turn: the midpoints have one place less, and what lies between them two."""
    f.mid[n, u] = (x[n, u] + x[n, u + 1]) / 2
    f.y[n, v] = x[n, v + 1] * (f.mid[n, v + 1] - f.mid[n, v])
    return f.y


@op
def with_midpoints(f, x: tensor[n, t]):
    """The gradient is read at one of the two places that each pair has in the middle of what was joined."""
    f.mid[n, u] = (x[n, u] + x[n, u + 1]) / 2
    f.pair[n, (u, p)] = concat(x[n, u], f.mid[n, u], along=p)
    f.y[n, v] = concat(0, f.pair[n, j], x[n, -1], along=v)
    return f.y


@op
def repeated_and_filtered(f, x: tensor[n, h], w: tensor[k]):
    f.up[n, (h, p)] = x[n, h]
    f.y[n, u] = sum(f.up[n, u + k] * w[k], over=k)
    return f.y


@op
def averaged_twice(f, x: tensor[t], width: length(k)):
    f.a[u] = mean(x[u + k], over=k)
    f.y[i] = x[i] * mean(f.a[i + k], over=k)
    return f.y


R = torch.randn
IX = torch.tensor([[0, -1, 3], [3, -7, 0]])
LABELS, WEIGHTS = torch.tensor([1, 99, 0, -5]), torch.tensor([1.0, -1.0, 2.0, 0.0], dtype=torch.float64)


def _masked_pick(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    return torch.where(w > 0, torch.tanh(x.gather(1, y.clamp(0, 2)[:, None])[:, 0]), x[:, 0])


def _with_midpoints(x: Tensor) -> Tensor:
    filled = torch.nn.functional.interpolate(x[:, None], 2 * x.shape[1] - 1, mode="linear", align_corners=True)[:, 0]
    return torch.cat([0 * x[:, :1], filled], 1)


def _times(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    out = torch.view_as_complex(a.contiguous()) * torch.view_as_complex(b.contiguous())
    return out.real, out.imag


CASES = [
    (gated, lambda x: torch.nn.functional.glu(x), (R(2, 3, 8),)),
    (gated, lambda x: torch.nn.functional.glu(x), (R(0, 2),)),
    (gated_slices, lambda x, half: x[:, :half] * torch.sigmoid(x[:, half : 2 * half]), (R(3, 7), 3)),
    (times, _times, (R(3, 2), R(3, 2))),
    (class_token, lambda x, cls: torch.cat([cls.expand(2, 1, 4), x**2], 1), (R(2, 3, 4), R(4))),
    (class_token, lambda x, cls: torch.cat([cls.expand(2, 1, 1), x**2], 1), (R(2, 1, 1), R(1))),
    (interleaved, lambda a, b: torch.stack([2 * a, a * b], -1).flatten(-2), (R(3, 5), R(3, 5))),
    (interleaved, lambda a, b: torch.stack([2 * a, a * b], -1).flatten(-2), (R(2, 2, 2), R(2, 2, 2))),
    (merged_pieces, lambda x, z: torch.cat([x**2, z], 2).flatten(1), (R(2, 3, 4), R(2, 3, 5))),
    (tails, lambda x, w: (w * x.square().flip(1).cumsum(1).flip(1)).sum(1), (R(3, 5), R(3, 5))),
    (pieces_again, lambda x, z, w: (x * w[:, None], z**2), (R(2, 3), R(2, 4), R(2))),
    (last_less_first, lambda x: x[:, -1] * x[:, 0], (R(3, 4),)),
    (last_less_first, lambda x: x[:, -1] * x[:, 0], (R(3, 1),)),
    (reversed_places, lambda x: x.flip(0) * torch.arange(1, 6), (R(5),)),
    (differences, lambda x: torch.diff(x) ** 2, (R(2, 5),)),
    (differences, lambda x: torch.diff(x) ** 2, (R(2, 1),)),
    (halves_by_call, lambda x: torch.nn.functional.glu(x).sum(1) + 3 * x.shape[1], (R(3, 6),)),
    (padded_rows, lambda C, ix: torch.where((ix >= 0)[:, :, None], C[ix.clamp(0)], 0), (R(4, 2), IX)),
    (pixel_shuffle, lambda x: torch.nn.functional.pixel_shuffle(x, 2), (R(2, 8, 3, 5),)),
    (pooled, lambda x: torch.nn.functional.max_pool2d(x[:, None], 2)[:, 0], (R(2, 4, 6),)),
    (staggered, lambda x: x[:, 1:-1] * (x[:, 2:] - x[:, :-2]) / 2, (R(2, 5),)),
    (staggered, lambda x: x[:, 1:-1] * (x[:, 2:] - x[:, :-2]) / 2, (R(2, 2),)),
    (with_midpoints, _with_midpoints, (R(2, 5),)),
    (with_midpoints, _with_midpoints, (R(3, 2),)),
    (repeated_and_filtered, lambda x, w: x.repeat_interleave(2, 1).unfold(1, len(w), 1) @ w, (R(2, 4), R(3))),
    (repeated_and_filtered, lambda x, w: x.repeat_interleave(2, 1).unfold(1, len(w), 1) @ w, (R(1, 1), R(2))),
    (averaged_twice, lambda x, k: x[: 11 - 2 * k] * x.unfold(0, k, 1).mean(1).unfold(0, k, 1).mean(1), (R(9), 2)),
    (masked_pick, _masked_pick, (R(4, 3), LABELS, WEIGHTS)),
]


@pytest.mark.parametrize(("spec", "reference", "args"), CASES, ids=lambda a: getattr(a, "__name__", ""))
def test_equals_autograd(spec, reference, args) -> None:
    generated = getattr(module(spec.op), spec.op.name)
    real = [isinstance(a, Tensor) and a.is_floating_point() for a in args]
    args = [a.double().requires_grad_(a is not WEIGHTS) if r else a for a, r in zip(args, real, strict=True)]
    leaves = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    results = [f(*args) for f in (generated, reference)]
    got, want = (r if isinstance(r, tuple) else (r,) for r in results)
    dys = [torch.randn_like(w) for w in want]
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-12, atol=1e-12)
    for g, w in zip(*(torch.autograd.grad(r, leaves, dys) for r in (got, want)), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("spec", [gated, times], ids=lambda s: s.op.name)
def test_every_place_of_a_fixed_axis_is_stacked_and_nothing_filled_first(spec) -> None:
    code = render(derivation_of(spec.op))
    assert ("stacked_last(" in code or "torch.stack(" in code) and "new_zeros" not in code


def test_what_is_read_by_one_part_of_an_axis_is_repeated() -> None:
    code = render(derivation_of(repeated_and_filtered.op))
    assert "up = x.repeat_interleave(2, 1)" in code and "arange" not in code, code


def test_one_place_inside_a_merge_is_a_slice() -> None:
    code = render(derivation_of(with_midpoints.op))
    assert "dy[:, 2::2]" in code, code
    assert "arange" not in code, code


@pytest.mark.parametrize("spec", [pixel_shuffle, pooled], ids=lambda s: s.op.name)
def test_what_is_taken_apart_is_merged_by_views(spec) -> None:
    assert "arange" not in render(derivation_of(spec.op))


@op
def onto_the_diagonal(f, x: tensor[n], w: tensor[n, m]):
    f.y[n, m] = delta(n, m) * x[n] + w[n, m]
    return f.y


@op
def spread_out(f, x: tensor[n], long: length(m)):
    f.y[m] = sum(x[n] * delta(m, 2 * n + 1), over=n)
    return f.y


@op
def moved_on(f, x: tensor[n], long: length(m)):
    f.y[m] = sum(x[n] * delta(n, m - 1), over=n)
    return f.y


@op
def common_diagonal(f, a: tensor[n, m]):
    f.y[n] = sum(delta(n, m) * a[n, m], over=m)
    return f.y


@op
def if_it_were_a_row(f, a: tensor[n, m], ix: index(v)[i], rows: length(v)):
    f.y[i, m] = sum(delta(ix[i], n) * a[n, m], over=n)
    return f.y


def _spread_out(x: Tensor, long: int) -> Tensor:
    return torch.stack([x[k // 2] if k % 2 and k // 2 < len(x) else x.new_zeros(()) for k in range(long)])


def _common_diagonal(a: Tensor) -> Tensor:
    return torch.stack([a[k, k] if k < a.shape[1] else a.new_zeros(()) for k in range(len(a))])


def _rows(a: Tensor, ix: Tensor, rows: int) -> Tensor:
    return torch.stack([a[k] if k < len(a) else torch.zeros_like(a[0]) for k in ix.tolist()])


@pytest.mark.parametrize(
    ("spec", "plain", "args"),
    [
        (onto_the_diagonal, lambda x, w: torch.diag(x)[:, :2] + w, (R(3), R(3, 2))),
        (onto_the_diagonal, lambda x, w: torch.nn.functional.pad(torch.diag(x), (0, 1)) + w, (R(2), R(2, 3))),
        *((spread_out, _spread_out, (R(3), long)) for long in (1, 5, 6, 7, 9)),
        *((moved_on, lambda x, long: torch.cat([R(1) * 0, x, R(9) * 0])[:long], (R(3), k)) for k in (0, 2, 4, 6)),
        *((common_diagonal, _common_diagonal, (R(size),)) for size in ((3, 2), (2, 3), (3, 3), (2, 0))),
        (if_it_were_a_row, _rows, (R(3, 2), torch.tensor([2, 5, 0, 2]), 6)),
    ],
)
def test_a_delta_is_0_where_an_index_is_no_place_of_the_other_axis(spec, plain, args) -> None:
    args = tuple(a.double() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args)
    args = tuple(a.requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args)
    leaves = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    got, want = getattr(module(spec.op), spec.op.name)(*args), plain(*args).double()
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    dy = torch.rand_like(got)
    zeros = {"allow_unused": True, "materialize_grads": True}
    wanted = torch.autograd.grad(want, leaves, dy, **zeros) if want.requires_grad else [a * 0 for a in leaves]
    for g, w in zip(torch.autograd.grad(got, leaves, dy), wanted, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-12, atol=1e-12)


@op
def without_its_diagonal(f, s: tensor[n, n], w: tensor[n, m]):
    f.y[n, m] = w[n, m] - delta(n, m) * s[n, m]
    return f.y


def test_a_delta_of_axes_that_agree_is_a_diagonal_of_the_gradient() -> None:
    """`s` is square and is read by m, so that m is as long as n."""
    code = render(derivation_of(without_its_diagonal.op))
    assert "ds.diagonal()" in code or "dy.diagonal()" in code, code


# --- lengths that clash, as the op runs -------------------------------------------------------------------------------


@op
def flat(f, x: tensor[n, t, e], w: tensor[i]):
    f.z[n, (t, e)] = x[n, t, e]
    f.y[n] = sum(f.z[n, i] * w[i], over=i)
    return f.y


@op
def joined(f, x: tensor[n, i], z: tensor[n, j], w: tensor[k]):
    f.a[n, k] = concat(x[n, i], z[n, j], along=k)
    f.y[n, k] = f.a[n, k] * w[k]
    return f.y


@op
def heads_apart(f, x: tensor[n, d], heads: length(h)):
    f.y[n, h, k] = x[n, (h, k)]
    return f.y


@op
def filtered(f, x: tensor[n, t], w: tensor[k]):
    f.y[n, u] = sum(x[n, 2 * u + 3 * k] * w[k], over=k)
    return f.y


@op
def highest(f, x: tensor[n, d], width: length(k)):
    f.y[n, u] = amax(x[n, u + k], over=k)
    f.z[n] = amax(x[n, d], over=d)
    return f.y, f.z


@op
def read_both_ways(f, x: tensor[n, d]):
    f.y[n, d] = x[n, d] - x[d, n]
    return f.y


CLASHES = [
    (gated, (R(3, 7),), "gated, equation z: axis d must be a multiple of 2, but d = 7"),
    (times, (R(3, 3), R(3, 3)), "times: axis p has length 2, but is 3 in a; give a a shape [..., p=2]"),
    (flat, (R(2, 3, 4), R(11)), "flat, equation y: (t, e) must be as long as i, but e = 4 and t = 3 and i = 11"),
    (joined, (R(2, 3), R(2, 4), R(6)), "joined, equation a: axis k must be as long as i + j, but k = 6 and i = 3 and j = 4"),
    (heads_apart, (R(2, 9), 2), "heads_apart, equation y: axis d must be a multiple of heads, but d = 9 and heads = 2"),
    (heads_apart, (R(2, 9), 0), "heads_apart, equation y: axis d must be a multiple of heads, but d = 9 and heads = 0"),
    (filtered, (R(2, 6), R(3)), "filtered, equation y: x[n, 3*k + 2*u] must fit into axis t, but t = 6 and k = 3"),
    (differences, (R(2, 0),), "differences, equation y: x[n, u + 1] must fit into axis t, but t = 0"),
    (last_less_first, (R(2, 0),), "last_less_first, equation y: x[n, 0] must fit into axis d, but d = 0"),
    (highest, (R(2, 4), 0), "highest, equation y: axis k must be at least 1 long, but width = 0"),
    (highest, (R(2, 0), 1), "highest: axis d has length 0 in x, but its maximum needs at least one place"),
    (read_both_ways, (R(2, 3),), "read_both_ways: x has shape [2, 3], but its dimensions of length 3 and 2 are both axis d; give them one length"),
    (gated, ([1.0, 2.0],), "gated: x is a list, expected a tensor"),
    (padded_rows, (R(4, 2), IX + 2), "padded_rows, equation y: ix holds 5, but axis v has length 4; give values 0 to 3"),
    (padded_rows, (R(4, 2), IX.short()), "padded_rows: ix has dtype torch.int16, expected int64 or int32; give ix.long()"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "args", "expected"), CLASHES, ids=lambda a: a if isinstance(a, str) else "")
def test_a_length_that_cannot_be_is_named(spec, args, expected: str) -> None:
    with pytest.raises((ValueError, IndexError, TypeError)) as refused:
        getattr(module(spec.op), spec.op.name)(*args)
    assert str(refused.value) == expected


@op
def nothing_joined(f, x: tensor[i], z: tensor[j], w: tensor[k]):
    f.a[k] = concat(x[i], z[j], along=k)
    f.y[i] = f.a[i] * w[i]
    return f.y


def test_lengths_that_only_an_empty_axis_satisfies_are_no_error() -> None:
    x, w = R(3), R(3)
    torch.testing.assert_close(module(nothing_joined.op).nothing_joined(x, R(0), w), x * w, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="axis i is 3 in x but 4 in w"):
        module(nothing_joined.op).nothing_joined(x, R(1), R(4))


@op
def square_of_a_place(f, x: tensor[n], w: tensor[m], p: index(m)[n]):
    f.y[n] = x[n] * (p[n] * p[n] + p[n]) + w[p[n]]
    return f.y


def test_arithmetic_of_narrow_indices_does_not_overflow() -> None:
    made, p = module(square_of_a_place.op), torch.tensor([69999, 50000])
    x, w = torch.ones(2, dtype=torch.float64, requires_grad=True), torch.zeros(70000, dtype=torch.float64)
    for narrow in (p, p.int()):
        y = made.square_of_a_place(x, w, narrow)
        (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
        torch.testing.assert_close(y.detach(), (p * p + p).double())
        torch.testing.assert_close(dx, (p * p + p).double())


@op
def around(f, x: tensor[n, h]):
    """A ring, and the middle of a window: the last place is one wherever the first is, and half a length is none less."""
    f.a[n, h] = x[n, h] * x[n, 0] + x[n, size(h) - 1]
    f.y[n] = x[n, size(h) // 2] * sum(f.a[n, h], over=h)
    return f.y


@op
def last_alone(f, x: tensor[n, h]):
    f.y[n] = exp(x[n, size(h) - 1])
    return f.y


def test_a_length_is_asked_once_and_no_less_than_nothing() -> None:
    """`size(h) >= 1` is `size(h) - 1 >= 0`; that half a length is 0 or more is true of every length."""
    found = [(str(r.left), r.relation, str(r.right)) for r in around.op.requirements]
    assert found == [("size(h)", ">=", "1"), ("size(h)", ">=", "floor(size(h)/2) + 1")]
    (alone,) = last_alone.op.requirements
    assert (str(alone.left), alone.relation, str(alone.right)) == ("size(h)", ">=", "1")
    assert_derived(around.op, lambda x: x[:, x.shape[1] // 2] * (x * x[:, :1] + x[:, -1:]).sum(1), {"x": (3, 4)})
    with pytest.raises(ValueError, match="must fit into axis h"):
        build(last_alone)(torch.zeros(2, 0))


@op
def pairs_from_a_start(f, x: tensor[n, t], pairs: length(u)):
    f.y[n, u] = mean(x[n, 2 * u + p], over=p)
    return f.y


@op
def even_and_odd(f, x: tensor[n, t], pairs: length(u)):
    f.y[n, u] = x[n, 2 * u] * x[n, 2 * u + 1]
    return f.y


def test_no_window_slides_nowhere_and_a_slice_may() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="axis u must be at least 1 long, but pairs = 0"):
        build(pairs_from_a_start)(x, 0)
    y = build(even_and_odd)(x, 0)
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert y.shape == (3, 0) and torch.equal(dx, torch.zeros_like(x))


@op
def block_of_blocks(f, x: tensor[n, t], z: tensor[i, j, k]):
    f.y[n, i, j] = sum(x[n, i * size(j) * size(k) + size(k) * j + k] * z[i, j, k], over=k)
    return f.y


def test_a_place_counted_in_blocks_is_a_merge() -> None:
    assert "x.unflatten(1, (i, j, k))" in render(derivation_of(block_of_blocks.op))
    x, z = R(3, 24), R(2, 3, 4)
    torch.testing.assert_close(build(block_of_blocks)(x, z), (x.unflatten(1, (2, 3, 4)) * z).sum(3))
    with pytest.raises(DeriveError, match="is not axis arithmetic"):

        @op
        def other_stride(f, x: tensor[n, t], z: tensor[i, j, k]):
            f.y[n, i, j] = sum(x[n, i * size(j) + k] * z[i, j, k], over=k)
            return f.y


def test_an_index_of_an_axis_reads_every_axis_of_that_length() -> None:
    @op
    def partners(f, z: tensor[i, d], pair: index(i)[i]):
        f.s[i, j] = where(eq(i, j), 0, sum(z[i, d] * z[j, d], over=d))
        f.y[i] = f.s[i, pair[i]] ** 2 + where(pair[i] > 0, f.s[pair[i], pair[i]] + f.s[0, pair[i]], 0)
        return f.y

    z, pair = R(4, 3).double().requires_grad_(), torch.tensor([1, 0, 3, 3])
    rows = torch.arange(4)
    s = (z @ z.T) * (1 - torch.eye(4, dtype=torch.float64))
    wanted = s[rows, pair].square() + torch.where(pair > 0, s[pair, pair] + s[0, pair], 0)
    found = build(partners)(z, pair)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), z), torch.autograd.grad(wanted.sum(), z))


def test_that_they_are_as_long_has_to_hold_to_the_end() -> None:
    with pytest.raises(DeriveError, match=r"equation y: axis j has length size\(i\) - 1, which is never size\(i\)"):

        @op
        def shorter(f, z: tensor[i, d], pair: index(i)[i]):
            f.s[i, j] = sum(z[i, d] * z[j, d], over=d)
            f.y[i] = f.s[i, pair[i]]
            f.m[j] = z[j + 1, 0]
            return f.y, f.m


@op
def shared_with_a_sink(f, s: tensor[n, j], v: tensor[j, e], sink: tensor[n]):
    """A softmax over scores and one more, of which the first are read by the axis of their piece."""
    f.l[n, c] = concat(s[n, j], sink[n], along=c)
    f.u[n, c] = exp(f.l[n, c] - amax(f.l[n, c], over=c))
    f.p[n, c] = f.u[n, c] / sum(f.u[n, c], over=c)
    f.y[n, e] = sum(f.p[n, j] * v[j, e], over=j)
    return f.y


def test_what_is_joined_first_is_read_by_its_own_axis() -> None:
    def plain(s: Tensor, v: Tensor, sink: Tensor) -> Tensor:
        return torch.cat([s, sink[:, None]], 1).softmax(1)[:, :-1] @ v

    assert_derived(shared_with_a_sink.op, plain, {"s": (3, 4), "v": (4, 2), "sink": (3,)})


def test_a_multiple_of_a_quotient_is_rounded_first() -> None:
    """`2 * (n - 1) // 2` would be `n - 1`: more places than a padded axis has."""
    length = Size(Axis("n"))
    assert size_code(2 * floor((length - 1) / 2) + 2 - length, {"n": "n"}) == "2 * ((n - 1) // 2) + 2 - n"


@op
def filter_bank(f, x: tensor[n, t], win: tensor[k], bins: length(b)):
    f.y[n, u, b] = sum(x[n, u + k] * win[k] * cos(k * b), over=k)
    return f.y


def test_a_bank_of_no_filters_has_no_places() -> None:
    """PyTorch refuses a convolution to no channels."""
    x, win = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 9), (3,)))
    y = module(filter_bank.op).filter_bank(x, win, 0)
    assert y.shape == (2, 7, 0)
    dx, dwin = torch.autograd.grad(y.sum(), (x, win))
    assert not dx.any() and not dwin.any()
