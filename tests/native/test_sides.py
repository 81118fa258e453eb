"""Kernels of choices of which one side is a place, or whose slope is 0 in one branch: no branch divides by 0."""

from __future__ import annotations

import pytest

from tests.derive.collapse.test_domain import PLAIN
from tests.native.running import assert_right


@pytest.mark.parametrize("spec", PLAIN, ids=lambda s: s.op.name)
def test_kernels_in_either_branch(spec) -> None:
    assert_right(spec.op)
