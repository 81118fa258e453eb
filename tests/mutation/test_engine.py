"""A mistake in the engine is one while it is made, is told by what is derived then, and is gone afterwards."""

import pytest

from derive.catalogue import find
from tests.mutation.engine import ROOMS, by_the_catalogue, made, mutants


def test_mistakes_are_told_and_leave_nothing_behind() -> None:
    """What makes an adjoint vanish decides softmax: nothing goes through its maximum."""
    op = find("softmax")
    own = [m for m in mutants() if m.module == "derive.collapse.vanishing"]
    assert len(own) > 5
    assert [m for m in own[:8] if by_the_catalogue(m, [op])]
    with pytest.raises(ZeroDivisionError), made(own[0]):
        raise ZeroDivisionError
    assert by_the_catalogue(own[0], []) == ""


def test_each_mistake_is_said() -> None:
    found = mutants()
    assert len({(m.module, m.function, m.number) for m in found}) == len(found) > 5000
    assert {m.room for m in found} == set(ROOMS)
    assert all(" -> " in m.said for m in found)
