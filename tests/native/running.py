"""Whether kernels ran: a kernel that gives way does so silently for some calls, and the torch form is right as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from derive.ir.equations import Op
from derive.verify.kernels import watched
from derive.verify.verify import verify_kernels


@contextmanager
def only_kernels(runtime: ModuleType) -> Iterator[None]:
    """Fails where the torch form ran in a kernel's place."""
    with watched(runtime) as watch:
        yield
    gave_way = dict.fromkeys(map(str, watch.gave_way))
    assert not gave_way, f"the torch form ran in place of {', '.join(gave_way)}"


def assert_right(op: Op) -> None:
    """Kernels are right in every situation: of odd, equal and no lengths, on one thread and two, in both dtypes."""
    found = verify_kernels(op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]
