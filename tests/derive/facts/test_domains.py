"""Index domains against isl, a library that decides the same of affine sets, with lengths as parameters."""

from itertools import product

import islpy as isl
import pytest
from sympy import Basic, Eq, Expr, Integer, Ne, Not

from derive.facts.domains import Domain, Ends, bounds_of, ends_of, first_asked, is_just_inside, solved_for
from derive.ir.terms.axes import Axis, Size, free_axes
from derive.ir.terms.choices import conjuncts

t, k, u = (Axis(name) for name in "tku")
INDICES = (t - 1, t + k, t + k - 1, t - k, 2 * t + k - 2, t + 2, t + Size(k) - k - 1, t - k + Size(k) - 3)
CONDITIONS: tuple[tuple[Basic, ...], ...] = (
    (t >= 1,), (t >= k,), (t + k >= 1, t + k <= Size(t)), (t + 2 < Size(t),), (t - k >= 0, t - k < Size(u)),
    (2 * t + k >= 2, 2 * t + k - 2 < Size(u)), (Ne(t, 0),), (Eq(t, 0),), (Eq(t, Size(t) - 1),), (k <= t, t < 3), (),
)  # fmt: skip
ONE_AXIS = (t >= 1, t >= 2, t + 1 < Size(t), t < Size(t) - 2, Ne(t, 0), Eq(t, 0), Eq(t, Size(t) - 1), t < 3, t < 1)


def _isl(where: str, least: int = 1) -> isl.Set:
    """The places of two axes where something holds, each axis of so many places at least."""
    inside = " and ".join(f"0 <= {a} < N{a} and N{a} >= {least}" for a in (t, k))
    return isl.Set(f"[Nt, Nk, Nu] -> {{ [t, k] : {inside} and Nu >= 1 and ({where}) }}")


def _text(expr: Basic) -> str:
    names = {Size(a): Axis(f"N{a}") for a in (t, k, u)}
    return str(expr.xreplace(names))


def _all(conditions: tuple[Basic, ...]) -> str:
    return " and ".join(_comparison(c) for c in conditions) or "1 = 1"


def _comparison(c: Basic) -> str:
    sides = [_text(side) for side in c.args]
    return f"({sides[0]}) {'=' if isinstance(c, Eq) else '!=' if isinstance(c, Ne) else c.rel_op} ({sides[1]})"


def _inside(i: Expr) -> str:
    return f"0 <= {_text(i)} < Nu"


@pytest.mark.parametrize(("i", "conditions"), list(product(INDICES, CONDITIONS)), ids=str)
def test_what_is_inside_is_inside(i: Expr, conditions: tuple[Basic, ...]) -> None:
    domain, here = Domain.under(conditions), _isl(_all(conditions))
    if domain.keeps_both_ends(i, u):
        assert here.is_subset(_isl(_inside(i)))
    if is_just_inside(conditions, i, u):
        assert here.is_equal(_isl(_inside(i)))
    if domain.keeps_inside(i, u) and (asked := domain.length_asked(i, u)) is not None:
        least = first_asked(i)
        lengths = f" and {_text(least[0])} >= {_text(least[1])}" if least else ""
        long_enough = f"{_all(conditions)} and Nu >= {_text(asked)}{lengths}".replace("Min", "min")
        assert _isl(long_enough).is_subset(_isl(_inside(i)))


def test_what_isl_finds_inside_is_found() -> None:
    """One bound decides for one read: of what isl proves, each read under the condition that is written for it."""
    for i in (t - 1, t + k - 1, t - k, 2 * t + k - 2):
        conditions = (i >= 0, i < Size(u))
        assert _isl(_all(conditions)).is_subset(_isl(_inside(i)))
        assert Domain.under(conditions).keeps_both_ends(i, u) and is_just_inside(conditions, i, u)
        assert not Domain.under(conditions[1:]).has(i) and not _isl(_all(conditions[1:])).is_subset(_isl(_inside(i)))


@pytest.mark.parametrize("condition", ONE_AXIS, ids=str)
def test_bounds_are_the_condition(condition: Basic) -> None:
    bounds = bounds_of(condition)
    assert bounds and _isl(_all((condition,))).is_equal(_isl(" and ".join(f"{_text(b)} >= 0" for b in bounds)))


@pytest.mark.parametrize(("first", "last", "condition"), list(product((0, 1, 2), (0, 1, 2), ONE_AXIS)), ids=str)
def test_an_axis_splits_at_its_ends(first: int, last: int, condition: Basic) -> None:
    """Segments are disjoint and cover the axis; a condition holds in all, or in none, of one where isl says so too."""
    least = max(1, first + last)
    segments = {s: _isl(f"{_text(s.start)} <= t <= {_text(s.stop)}", least) for s in Ends(t, first, last).segments}
    covered = isl.Set("[Nt, Nk, Nu] -> { [t, k] : 1 = 0 }")
    for places in segments.values():
        assert covered.is_disjoint(places)
        covered = covered.union(places)
    assert covered.is_equal(_isl("1 = 1", least))
    ends = ends_of(t, (condition,)) or ends_of(t, conjuncts(Not(condition)))
    asked, fails = (_isl(_comparison(c), least) for c in (condition, Not(condition)))
    for s, places in segments.items():
        told = s.holds(condition)
        assert told is not True or places.is_subset(asked)
        assert told is not False or places.is_subset(fails)
        if ends and ends.first <= first and ends.last <= last and condition.rhs != 3:  # a condition on these ends
            assert (told is None) == (not places.is_subset(asked) and not places.is_subset(fails))


@pytest.mark.parametrize("place", (t + k - 1, k - t, 2 * k + t + 3, 2 * t + k), ids=str)
def test_an_index_turned_round(place: Expr) -> None:
    found = solved_for(t, place - u)
    if found is None:
        assert place.coeff(t) == 2
        return
    there = isl.Map(f"{{ [t, k] -> [u, k] : u = {place} }}")
    assert there.reverse().is_equal(isl.Map(f"{{ [u, k] -> [t, k] : t = {found} }}"))
    assert t not in free_axes(found) and place.xreplace({t: found}).expand() - u == Integer(0)
