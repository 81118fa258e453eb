"""The battery: what its situations promise, that it is the same every time, and that lengths fit the op."""

import pytest
import torch

from derive.catalogue import catalogue, find, load_file
from derive.errors import DeriveError
from derive.notation import axes, eq, exp, index, length, log, oo, op, sin, sqrt, sum, tensor, where
from derive.verify import lengths
from derive.verify.battery import BATTERY, cases, situation
from derive.verify.lengths import emptied, filled, fitting, free_axes_of
from derive.verify.reference import all_sizes
from derive.verify.verify import verify

p_n, p_j, p_k, p_h, p_p = axes("p_n p_j p_k p_h p_p")

def test_names_are_told_once_and_with_a_reason() -> None:
    assert len({s.name for s in BATTERY}) == len(BATTERY) and all(s.why for s in BATTERY)


def test_cotangents_are_random_and_laid_out_as_promised() -> None:
    made = {c.situation: c.call.cotangents[0] for c in cases(find("layernorm"))}
    assert not any(bool((dy == 1).all()) for dy in made.values() if dy.numel())
    assert made["ordinary"].is_contiguous() and not made["transposed cotangent"].is_contiguous()
    assert set(made["stride-0 cotangent"].stride()) == {0}
    assert made["expanded rows"].stride(-1) == 0 and made["expanded rows"].stride(0) != 0


def test_situations_hold_what_they_are_named_for() -> None:
    made = {c.situation: c.call for c in cases(find("embedding"))}
    assert len(made["repeated indices"].inputs["ix"].unique()) <= 2
    distinct = made["distinct indices"].inputs["ix"]
    assert len(distinct.unique()) == distinct.numel()
    assert made["empty"].inputs["ix"].numel() == 0
    norm = {c.situation: c.call for c in cases(find("layernorm"))}
    assert not norm["zero parameters"].inputs["gamma"].any() and norm["zero parameters"].inputs["x"].any()
    assert not norm["transposed inputs"].inputs["x"].is_contiguous()
    assert norm["other numbers"].numbers["eps"] > 0.01
    assert norm["one tensor twice"].inputs["gamma"] is norm["one tensor twice"].inputs["beta"]
    assert len(set(norm["ordinary"].inputs["x"].shape)) == 3


def test_the_same_seed_gives_the_same_cases() -> None:
    def drawn(seed: int) -> list[torch.Tensor]:
        return [t for c in cases(find("softmax"), seed) for t in (*c.call.inputs.values(), *c.call.cotangents)]

    assert all(torch.equal(a, b) for a, b in zip(drawn(3), drawn(3), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(drawn(3), drawn(4), strict=True))


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in catalogue()])
def test_lengths_fit_every_op(op) -> None:
    for wish in ([2, 3, 4, 5, 6, 7, 8, 9], [6, 5, 4, 3, 2, 6, 5, 4], [1] * 8):
        sizes = fitting(op, dict(zip(free_axes_of(op), wish, strict=False)))
        assert sizes is not None
        assert all(n >= 1 for n in all_sizes(op, sizes).values())


def test_values_are_found_where_the_op_is_finite() -> None:
    d = axes("d")

    @op
    def roots(f, x: tensor[d], z: tensor[d]):
        f.y[d] = sqrt(x[d]) + z[d]
        return f.y

    @op
    def nowhere(f, x: tensor[d]):
        f.y[d] = log(-abs(x[d]) - 1)
        return f.y

    @op
    def in_order(f, a: tensor[d], b: tensor[d]):
        f.y[d] = log(exp(a[d]) - exp(b[d]))
        return f.y

    @op
    def beyond(f, x: tensor[d]):
        f.y[d] = log(-x[d])
        return f.y

    for asked in (in_order, beyond):
        assert verify(asked.op).right
    call = BATTERY[0].make(roots.op).call
    assert bool((call.inputs["x"] >= 0).all()) and bool((call.inputs["z"] < 0).any())
    with pytest.raises(DeriveError, match="op nowhere: found no inputs at which the op is finite; declare what"):
        BATTERY[0].make(nowhere.op)


def test_indices_stand_apart_where_the_op_is_finite_only_there(tmp_path) -> None:
    """A direction from one atom to another has no value where both are the same."""
    file = tmp_path / "bonds.py"
    file.write_text(
        "from derive import *\n"
        "e, n, d = axes('e n d')\n\n"
        "@op\n"
        "def bonds(f, x: tensor[n, d], i: index(n)[e], j: index(n)[e]):\n"
        "    f.r[e] = sqrt(sum((x[i[e], d] - x[j[e], d]) ** 2, over=d))\n"
        "    f.u[e, d] = (x[i[e], d] - x[j[e], d]) / f.r[e]\n"
        "    return f.u\n"
    )
    (bonds,) = load_file(file)
    for case in cases(bonds):
        assert not bool((case.call.inputs["i"] == case.call.inputs["j"]).any())
    found = verify(bonds)
    assert found.right and {"ordinary", "repeated indices"} <= {*found.situations}


def test_lengths_follow_merges_and_windows(tmp_path) -> None:
    file = tmp_path / "merged.py"
    file.write_text(
        "from derive import *\n"
        "n, t, e, i, k, u = axes('n t e i k u')\n"
        "@op\n"
        "def merged(f, x: tensor[n, t, e], w: tensor[i], v: tensor[k]):\n"
        "    f.z[n, (t, e)] = x[n, t, e]\n"
        "    f.y[n] = sum(f.z[n, i] * w[i], over=i)\n"
        "    f.o[u] = sum(f.y[2 * u + k] * v[k], over=k)\n"
        "    return f.o\n"
    )
    merged = load_file(file)[0]
    sizes = fitting(merged, {"n": 3, "t": 5, "e": 2, "i": 7, "k": 4}, 2)
    assert sizes is not None and sizes["i"] == sizes["t"] * sizes["e"] and all_sizes(merged, sizes)["u"] >= 2
    assert situation("ordinary").make(merged) is not None


def test_a_length_is_not_given_up_for_others_to_agree() -> None:
    """Windows, and an input as long as they allow: a window of no places breaks fewer rules, but a worse one."""
    d, h, w, r, p, q, l, u, v, i, j, k = axes("d h w r p q l u v i j k")

    @op
    def masked(f, x: tensor[d, h, w], filters: tensor[r, p, q], mask: tensor[l, u, v]):
        f.z[i, j, k] = sum(x[i + r, j + p, k + q] * filters[r, p, q], over=(r, p, q))
        f.y[l, u, v] = f.z[l, u, v] * mask[l, u, v]
        return f.y

    wish = {"d": 11, "h": 11, "w": 11, "r": 9, "p": 9, "q": 9, "l": 10, "u": 10, "v": 10}
    sizes = fitting(masked.op, wish, 3)
    assert sizes is not None
    for side, tap, out in ("drl", "hpu", "wqv"):
        assert sizes[out] == sizes[side] - sizes[tap] + 1 >= 3


PATCHES = """from derive import *
b, c, d, h, p, q, w, x, y = axes("b c d h p q w x y")

@op
def patches(f, image: tensor[b, c, y, x], weight: tensor[d, c, p, q], at: tensor[h, w, d]):
    f.y[b, h, w, d] = sum(image[b, c, (h, p), (w, q)] * weight[d, c, p, q], over=(c, p, q)) + at[h, w, d]
    return f.y
"""


def test_of_many_axes_the_last_products_are_short(tmp_path) -> None:
    file = tmp_path / "spec.py"
    file.write_text(PATCHES)
    (op,) = load_file(file)
    ordinary = situation("ordinary").make(op, 0)
    assert ordinary is not None
    _, _, y, x = ordinary.call.inputs["image"].shape
    h, w, _ = ordinary.call.inputs["at"].shape
    assert (y, x) == (h * ordinary.call.inputs["weight"].shape[2], w * ordinary.call.inputs["weight"].shape[3])


def test_lengths_grow_where_there_are_places_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An axis that no tensor has, only the values of an index, has no places and is left as long as it is."""
    m, s = axes("m s")

    @op
    def by_group(f, x: tensor[m], group: index(s)[m], groups: length(s)):
        f.y[m] = sum(where(eq(group[k], group[m]), x[k], 0), over=k)
        return f.y

    tried, grown = [0], lengths._grown

    def counted(*args):
        tried[0] += 1
        assert tried[0] < 100, "grows without end"
        return grown(*args)

    monkeypatch.setattr(lengths, "_grown", counted)
    found = filled(by_group.op, {"m": 3, "s": 2}, "s", 100, 4096)
    assert found["s"] == 2
    assert 32 <= found["m"] <= 64


def test_outputs_that_are_masked_may_be_infinite() -> None:
    i, j = axes("i j")

    @op
    def banded(f, s: tensor[i, j]):
        f.y[i, j] = where(j <= i, s[i, j] ** 2, -oo)
        return f.y

    case = BATTERY[0].make(banded.op)
    assert bool(case.outputs["y"].isinf().any()) and bool(case.gradients["s"].isfinite().all())
    assert verify(banded.op).right


def test_an_empty_axis_takes_along_those_that_must_be_as_long() -> None:
    case = situation("empty").make(find("trace"))
    assert list(case.call.inputs["x"].shape) == [0, 0]


def test_a_situation_asks_nothing_where_it_means_nothing() -> None:
    assert situation("repeated indices").make(find("tanh")) is None
    assert situation("no leading axes").make(find("matmul")) is None
    assert situation("empty").make(find("mean_all")) is None


n, k, h = axes("n k h")


@op
def out_of_reach(f, x: tensor[n]):
    """More than float16 holds."""
    f.y[n] = 1e7 * (x[n] ** 2 + 1)
    return f.y


def test_what_a_dtype_cannot_hold_is_no_mistake_in_it() -> None:
    assert verify(out_of_reach.op).right


@op
def fast_sine(f, x: tensor[k, h], w: tensor[h]):
    f.y[k] = sin(30 * sum(x[k, h] * w[h], over=h))
    return f.y


def test_what_no_computation_could_tell_is_not_held_against_one() -> None:
    for name in ("float32", "extreme values"):
        case = situation(name).make(fast_sine.op)
        assert case is not None
        eps = torch.finfo(case.call.dtype).eps
        assert eps < case.unavoidable["y"] < 1e3 * eps * 30 * float(case.call.inputs["x"].abs().max())


def test_a_jump_excuses_nothing() -> None:
    case = situation("ties").make(find("amax"))
    assert case is not None and case.unavoidable["dx"] == 0


@op
def merged_both_ways(f, x: tensor[p_n, p_j], w: tensor[p_k], parts: length(p_h)):
    f.a[p_n, p_h, p_p] = x[p_n, (p_h, p_p)]
    f.y[p_n, p_h, p_p] = f.a[p_n, p_h, p_p] * w[(p_p, p_h),]
    return f.y


def test_an_axis_by_whose_length_another_is_divided_is_never_empty() -> None:
    sizes = fitting(merged_both_ways.op, dict.fromkeys(free_axes_of(merged_both_ways.op), 4), 2)
    assert sizes is not None
    assert emptied(merged_both_ways.op, sizes, "p_h") is None
    assert verify(merged_both_ways.op).right


b, d, m = axes("b d m")


@op
def springs(f, x: tensor[n, d], ia: index(n)[b], ib: index(n)[b]):
    """Lengths of edges, of which none goes from a point to itself: there its length has no slope to autograd."""
    f.E[()] = sum(sqrt(sum((x[ia[b], d] - x[ib[b], d]) ** 2, over=d)), over=b)
    return f.E


@op
def shares_of_a_square(f, s: tensor[n, n]):
    """The columns are as many as the rows, and none has no largest."""
    f.p[n, m] = exp(s[n, m]) / sum(exp(s[n, k]), over=k)
    return f.p


@op
def logs_of_a_square(f, s: tensor[n, n]):
    f.y[n] = log(sum(exp(s[n, k]), over=k))
    return f.y


@pytest.mark.parametrize("made", [springs, shares_of_a_square, logs_of_a_square], ids=lambda m: m.op.name)
def test_calls_are_drawn_where_an_op_has_slopes_and_maxima(made) -> None:
    found = verify(made.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]
