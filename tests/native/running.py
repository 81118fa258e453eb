"""Whether kernels ran: a kernel that gives way does so silently for some calls, and the torch form is right as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from derive.verify.kernels import watched


@contextmanager
def only_kernels(runtime: ModuleType) -> Iterator[None]:
    """Fails where the torch form ran in a kernel's place."""
    with watched(runtime) as watch:
        yield
    gave_way = dict.fromkeys(map(str, watch.gave_way))
    assert not gave_way, f"the torch form ran in place of {', '.join(gave_way)}"
