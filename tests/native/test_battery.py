"""Kernels in the battery's situations and over long loops, on one thread and on two.

Every third op of the catalogue, as time allows; `derive verify --backend cpu` takes all of them.
"""

from __future__ import annotations

import pytest

from derive.catalogue import catalogue
from derive.ir.equations import Op
from derive.verify.verify import verify_kernels
from derive.verify.view import complaint_texts

WITH_KERNELS = [op for op in catalogue() if not op.recurrences]


@pytest.mark.slow
@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in WITH_KERNELS[::3]])
def test_kernels_are_right_in_every_situation(op: Op) -> None:
    found = verify_kernels(op)
    assert found.right, complaint_texts(found)
    assert f"{op.name}_forward" in found.kernels
    assert {"many rows in float64", "long rows in float32"} <= {*found.situations}
